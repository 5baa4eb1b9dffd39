# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""Admission of signed frames, compiled: the signature of each frame is verified, the verdict on its rights is kept.

A verdict is kept for its origin, account, request code, topic and group, and for the generation of the rules under which
it was made; only frames with a valid signature leave one. A frame that is not admitted is declined: the handlers verify
it again, refuse it and answer. So is one of an account that is over its quota; a verdict has the account's meter, if it
has a quota, and a frame that was answered is charged.

The signature is that of `wire.signature`. An HMAC begins and ends with a block that depends on the secret alone; both
are hashed once for each verdict, and copied for each frame. The hash is OpenSSL's: where the process has its library
loaded, for `hashlib`, by its functions for SHA-1, which have no objects to make; else by `hashlib`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from hanabi.broker.fast_path._header cimport PAIRS_MAX, Header, Pair, read_header
from hanabi.wire._bytes cimport Bytes, Text, get_32

from hashlib import sha1

cdef enum:
    PULL = 11
    LITE_PULL = 361
    VERDICTS_MAX = 10_000
    KEY_MAX = 1024  # a peer chooses the names; longer ones are declined
    BLOCK_BYTES = 64
    SIGNATURE_BYTES = 28  # base64 of 20
    VALUES_MAX = 1024
    PEERS_MAX = 20_000

cdef extern from "dlfcn.h":
    int RTLD_LAZY, RTLD_NOLOAD
    void *dlopen(const char *name, int flags)
    void *dlsym(void *library, const char *name)

cdef struct Sha1:  # OpenSSL's SHA_CTX, the same since 0.9.8
    uint32_t words[24]

ctypedef int (*BeginHash)(Sha1 *) noexcept
ctypedef int (*AddBytes)(Sha1 *, const void *, size_t) noexcept
ctypedef int (*EndHash)(unsigned char *, Sha1 *) noexcept

cdef BeginHash begin_hash = NULL
cdef AddBytes add_bytes = NULL
cdef EndHash end_hash = NULL


cdef void find_hash() noexcept:
    """Find the functions of OpenSSL, if its library is loaded."""
    global begin_hash, add_bytes, end_hash
    cdef void *library = dlopen(b"libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD)
    if library == NULL:
        library = dlopen(b"libcrypto.so.1.1", RTLD_LAZY | RTLD_NOLOAD)
    if library != NULL:
        begin_hash = <BeginHash> dlsym(library, b"SHA1_Init")
        add_bytes = <AddBytes> dlsym(library, b"SHA1_Update")
        end_hash = <EndHash> dlsym(library, b"SHA1_Final")


find_hash()

cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef inline bint is_name(Text text, const char *name, Py_ssize_t size) noexcept:
    return text.size == size and not memcmp(text.at, name, size)


cdef inline uint64_t prefix(Text name) noexcept:
    """The first eight bytes as a number, zeros behind a shorter name."""
    cdef uint64_t value = 0
    cdef Py_ssize_t index
    for index in range(min(name.size, 8)):
        value |= <uint64_t> name.at[index] << (56 - 8 * index)
    return value


cdef inline int compared(Text one, Text other) noexcept:
    cdef int order = memcmp(one.at, other.at, min(one.size, other.size))
    return order if order else (one.size > other.size) - (one.size < other.size)


cdef bint sort_by_name(Header *header, Pair **ordered) noexcept:
    """Put the fields in the order of their names. False if a name comes twice, or a value has escapes."""
    cdef uint64_t prefixes[PAIRS_MAX]
    cdef uint64_t own
    cdef Pair *pair
    cdef Py_ssize_t index, place
    cdef int order
    for index in range(header.count):
        pair = header.pairs + index
        if pair.is_escaped:
            return False
        own, place = prefix(pair.name), index
        while place:
            if prefixes[place - 1] != own:
                order = 1 if prefixes[place - 1] > own else -1
            else:
                order = compared(ordered[place - 1].name, pair.name)
            if order == 0:
                return False
            if order < 0:
                break
            prefixes[place], ordered[place] = prefixes[place - 1], ordered[place - 1]
            place -= 1
        prefixes[place], ordered[place] = own, pair
    return True


cdef struct Signed:  # what a signature is of
    Pair *ordered[PAIRS_MAX]
    Py_ssize_t count
    Text body


cdef bytes signed_content(Signed *signed):
    """As `wire.signature.signed_content`."""
    cdef Py_ssize_t index, size = signed.body.size
    for index in range(signed.count):
        size += signed.ordered[index].value.size
    cdef bytes content = PyBytes_FromStringAndSize(NULL, size)
    cdef char *at = PyBytes_AS_STRING(content)
    for index in range(signed.count):
        memcpy(at, signed.ordered[index].value.at, signed.ordered[index].value.size)
        at += signed.ordered[index].value.size
    memcpy(at, signed.body.at, signed.body.size)
    return content


cdef bint is_digest(Bytes at, Text given) noexcept:
    """Whether *given* is base64 of the digest *at*. The time does not depend on which byte differs."""
    cdef uint32_t group, different = 0
    cdef int index
    if given.size != SIGNATURE_BYTES:
        return False
    for index in range(6):
        group = <uint32_t> at[3 * index] << 16 | <uint32_t> at[3 * index + 1] << 8 | at[3 * index + 2]
        different |= BASE64[group >> 18] ^ given.at[4 * index]
        different |= BASE64[group >> 12 & 63] ^ given.at[4 * index + 1]
        different |= BASE64[group >> 6 & 63] ^ given.at[4 * index + 2]
        different |= BASE64[group & 63] ^ given.at[4 * index + 3]
    group = <uint32_t> at[18] << 16 | <uint32_t> at[19] << 8
    different |= BASE64[group >> 18] ^ given.at[24]
    different |= BASE64[group >> 12 & 63] ^ given.at[25]
    different |= BASE64[group >> 6 & 63] ^ given.at[26]
    different |= c"=" ^ given.at[27]
    return different == 0


cdef class Proof:
    """One secret: its first and its last block, hashed."""

    cdef object inner, outer
    cdef bint is_direct
    cdef Sha1 inner_start, outer_start

    def __init__(self, bytes secret not None, bint is_direct):
        key = secret if len(secret) <= BLOCK_BYTES else sha1(secret, usedforsecurity=False).digest()
        key = key.ljust(BLOCK_BYTES, b"\0")
        cdef bytes inner = bytes(byte ^ 0x36 for byte in key), outer = bytes(byte ^ 0x5C for byte in key)
        self.is_direct = is_direct and end_hash != NULL
        if self.is_direct:
            begin_hash(&self.inner_start)
            add_bytes(&self.inner_start, PyBytes_AS_STRING(inner), BLOCK_BYTES)
            begin_hash(&self.outer_start)
            add_bytes(&self.outer_start, PyBytes_AS_STRING(outer), BLOCK_BYTES)
        self.inner = sha1(inner, usedforsecurity=False).copy
        self.outer = sha1(outer, usedforsecurity=False).copy

    cdef bint has_signed(self, Signed *signed, Text given) except -1:
        """Whether *given* is base64 of HMAC-SHA1."""
        cdef unsigned char digest[20]
        cdef bytes whole
        cdef Sha1 running
        if not self.is_direct:
            inner, outer = self.inner(), self.outer()
            inner.update(signed_content(signed))
            outer.update(inner.digest())
            whole = outer.digest()
            return is_digest(<Bytes> PyBytes_AS_STRING(whole), given)
        running = self.inner_start
        self.add_content(signed, &running)
        end_hash(digest, &running)
        running = self.outer_start
        add_bytes(&running, digest, 20)
        end_hash(digest, &running)
        return is_digest(digest, given)

    cdef void add_content(self, Signed *signed, Sha1 *running) noexcept:
        """Hash the values together, as each call costs something, then the body where it lies."""
        cdef unsigned char values[VALUES_MAX]
        cdef unsigned char *at = values
        cdef Text value
        cdef Py_ssize_t index
        for index in range(signed.count):
            value = signed.ordered[index].value
            if value.size > VALUES_MAX - (at - values):
                add_bytes(running, values, at - values)
                at = values
            if value.size > VALUES_MAX:
                add_bytes(running, value.at, value.size)
            else:
                memcpy(at, value.at, value.size)
                at += value.size
        add_bytes(running, values, at - values)
        add_bytes(running, signed.body.at, signed.body.size)


cdef inline str text_of(Text text):
    return PyUnicode_DecodeASCII(<const char *> text.at, text.size, NULL) if text.at != NULL else None


cdef unsigned char *put_text(unsigned char *at, Text text) noexcept:
    """The length, then the text: so no two keys are alike. Without a text, a length that none has."""
    cdef Py_ssize_t size = text.size if text.at != NULL else 0
    at[0], at[1] = size >> 8 if text.at != NULL else 0xFF, size & 0xFF
    if size:
        memcpy(at + 2, text.at, size)
    return at + 2 + size


cdef class Admission:
    """Admits frames by *terms*: a `contract.Terms`. *is_direct*: by the functions of OpenSSL, where these are found."""

    def __init__(self, terms, bint is_direct=True):
        self.is_direct = is_direct
        self.generation_of, self.origin_of, self.secrets_of = terms.generation, terms.origin, terms.secrets
        self.meter_of = terms.meter
        self.generation = self.origin = self.connection = self.meter = None
        self.kept, self.verdicts, self.count, self.origins = {}, {}, 0, {}

    @property
    def verdicts_kept(self):
        """Number of verdicts that are kept."""
        return self.count

    cdef bint meet(self, connection) except -1:
        """Begin with frames of *connection*, under the rules in force. False: all of its frames are for the handlers."""
        generation = self.generation_of()
        if generation != self.generation:
            self.kept, self.count, self.generation, self.origins = {}, 0, generation, {}
        self.connection = connection
        peer = connection.peer
        names = connection.certificate_names
        if names:  # a port may be used again by a client with another certificate
            peer = peer, names
        self.origin = self.origins.get(peer)
        if self.origin is None:
            self.origin = self.origin_of(connection)
            if self.origin is None:
                return False
            if len(self.origins) >= PEERS_MAX:
                self.origins.clear()
            self.origins[peer] = self.origin
        self.verdicts = self.kept.get(self.origin)
        return True

    cdef bint admits(self, Header *header, Text body, Text topic, Text group) except -1:
        """Whether a frame of the connection that was met is allowed, and signed if it must be."""
        cdef Signed signed
        cdef Pair **ordered = signed.ordered
        cdef Text account, given
        cdef Py_ssize_t index
        cdef unsigned char key[KEY_MAX]
        cdef unsigned char *end
        account.at = given.at = NULL
        account.size = given.size = 0
        if not sort_by_name(header, ordered):
            return False
        for index in range(header.count):
            if is_name(ordered[index].name, b"AccessKey", 9):
                account = ordered[index].value
            elif is_name(ordered[index].name, b"Signature", 9):
                given = ordered[index].value
                ordered[index].value.size = 0  # all but this one is signed
        if account.size + topic.size + group.size > KEY_MAX - 8:
            return False
        key[0], key[1] = header.code >> 8, header.code & 0xFF
        end = put_text(put_text(put_text(key + 2, account), topic), group)
        cdef bytes name = PyBytes_FromStringAndSize(<char *> key, end - key)
        cdef tuple verdict = self.verdict(header, name, account, topic, group)
        if verdict is None:
            return False
        cdef tuple proofs = verdict[0]
        signed.count, signed.body = header.count, body
        cdef bint is_signed = not proofs
        for proof in proofs:
            if (<Proof> proof).has_signed(&signed, given):
                is_signed = True
                break
        if not is_signed:
            return False
        self.keep(name, verdict)
        self.meter = verdict[1]
        if self.meter is None:
            return True
        self.bytes_in = body.size + given.size
        for index in range(header.count):
            self.bytes_in += ordered[index].name.size + ordered[index].value.size
        return not self.meter.is_over(self.connection)

    cdef settle(self, Py_ssize_t bytes_out):
        """Charge the account for the frame that was admitted last: it was answered."""
        if self.meter is not None:
            self.meter.charge(self.bytes_in, bytes_out)

    def answered(self, Py_ssize_t bytes_out):
        """As `settle`."""
        self.settle(bytes_out)

    cdef tuple verdict(self, Header *header, bytes key, Text account, Text topic, Text group):
        """The secrets of which one must have signed, none if none must, and the account's meter, or None; None if the frame
        is not allowed."""
        if self.verdicts is not None:
            kept = self.verdicts.get(key)
            if kept is not None:
                return kept
        cdef str access_key = text_of(account)
        secrets = self.secrets_of(self.origin, header.code, access_key, text_of(topic), text_of(group))
        if secrets is None:
            return None
        # Without a signature the name is not proven: the meter is that of the certificate, if there is one.
        meter = self.meter_of(self.origin, access_key if secrets else None)
        return tuple([Proof(secret, self.is_direct) for secret in secrets]), meter

    cdef keep(self, bytes key, tuple verdict):
        if self.verdicts is not None and key in self.verdicts:
            return
        if self.count >= VERDICTS_MAX:
            self.kept, self.verdicts, self.count = {}, None, 0
        if self.verdicts is None:
            self.verdicts = self.kept[self.origin] = {}
        self.verdicts[key] = verdict
        self.count += 1

    def admits_pull(self, bytes data not None, Py_ssize_t at, connection, str topic not None, str group not None):
        """Whether the pull whose frame begins at *at* is allowed; `read_pull` has read it."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(data) + at + 4
        cdef Header header
        cdef Text body, topic_text, group_text
        cdef bytes topic_bytes = topic.encode("ascii"), group_bytes = group.encode("ascii")
        if not self.meet(connection):
            return False
        if not read_header(start, start[1] << 16 | start[2] << 8 | start[3], PULL, LITE_PULL, &header):
            return False
        body.at, body.size = start, 0
        topic_text.at, topic_text.size = <Bytes> PyBytes_AS_STRING(topic_bytes), PyBytes_GET_SIZE(topic_bytes)
        group_text.at, group_text.size = <Bytes> PyBytes_AS_STRING(group_bytes), PyBytes_GET_SIZE(group_bytes)
        return self.admits(&header, body, topic_text, group_text)
