# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The express lane: plain sends, from the bytes of the request to the bytes of the answer, compiled.

Optional, as `hanabi.wire._speedups`; the readable way through `remoting.dispatch` and `handlers.send` is what it must
agree with, for every frame: it answers the same, byte for byte, and stores the same, or it declines before anything is
changed, and the readable way has the frame. So whatever is unusual may be declined here, and most of it is: only
SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE are known, with fields in ASCII, to a queue and topic that exist, for messages
that neither wait nor are part of a transaction or a retry.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy, memmove

from time import perf_counter

cdef enum:
    SEND = 310
    BATCH = 320
    HEADER_MAX = 32768  # longer ones take the other way
    TOPIC_MAX = 127
    V5_0_0 = 413  # see handlers.send
    FIELDS = 14  # a to n
    REPLY_MAX = 2048  # with one id
    BATCH_MAX = 256  # messages
    PROPERTIES_MAX = 32767

cdef const char *JSON_SEND = b'{"code":310,'
cdef const char *JSON_BATCH = b'{"code":320,'
cdef const char *HEX = b"0123456789ABCDEF"

ctypedef const unsigned char *Bytes


cdef struct Text:
    Bytes at
    Py_ssize_t size


cdef struct Send:  # what the header of one says; a field that was not sent has no `at`
    Text fields[FIELDS]
    int64_t opaque
    int64_t version
    bint is_json
    bint is_batch


cdef inline uint32_t get_32(Bytes at) noexcept:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline bint is_int32(int64_t number) noexcept:
    return -0x80000000 <= number <= 0x7FFFFFFF


cdef bint number_in(Text text, int64_t *number) noexcept:
    """A number as everybody writes it: digits, perhaps a minus, no zeros before it."""
    cdef Py_ssize_t at = 0
    cdef int64_t value = 0
    cdef bint negative = False
    if text.size and text.at[0] == c"-":
        negative = True
        at = 1
    if at == text.size or text.size - at > 18 or (text.at[at] == c"0" and (text.size - at > 1 or negative)):
        return False
    while at < text.size:
        if not c"0" <= text.at[at] <= c"9":
            return False
        value = value * 10 + (text.at[at] - c"0")
        at += 1
    number[0] = -value if negative else value
    return True


cdef inline bint is_true(Text text) noexcept:
    return text.at != NULL and text.size == 4 and not memcmp(text.at, b"true", 4)


cdef inline bint is_false(Text text) noexcept:
    """Not sent, or false."""
    return text.at == NULL or (text.size == 5 and not memcmp(text.at, b"false", 5))


# The header as JSON: only as fastjson and those after it write it, without a blank.

cdef Bytes json_text(Bytes at, Bytes end, Text *text, bint escapes) noexcept:
    """The string whose opening quote is behind us; returns where it goes on behind the closing one, or NULL."""
    text.at = at
    while at < end:
        if at[0] == c'"':
            text.size = at - text.at
            return at + 1
        if at[0] == c"\\":
            if not escapes or at + 1 >= end:
                return NULL
            at += 1
        elif at[0] < 32 or at[0] > 126:
            return NULL
        at += 1
    return NULL


cdef Bytes json_number(Bytes at, Bytes end, int64_t *number) noexcept:
    cdef Text text
    text.at = at
    while at < end and (at[0] == c"-" or c"0" <= at[0] <= c"9"):
        at += 1
    text.size = at - text.at
    return at if number_in(text, number) else NULL


cdef Bytes json_fields(Bytes at, Bytes end, Send *send) noexcept:
    """The object whose opening brace is behind us. Fields that have more than a letter are not ours, and passed."""
    cdef Text name
    cdef Text value
    while True:
        if at >= end or at[0] != c'"':
            return NULL
        at = json_text(at + 1, end, &name, False)
        if at == NULL or end - at < 3 or at[0] != c":" or at[1] != c'"':
            return NULL
        at = json_text(at + 2, end, &value, name.size == 1 and name.at[0] == c"i")
        if at == NULL or at >= end:
            return NULL
        if name.size == 1 and c"a" <= name.at[0] <= c"n":
            send.fields[name.at[0] - c"a"] = value
        if at[0] == c"}":
            return at + 1
        if at[0] != c",":
            return NULL
        at += 1


cdef bint read_json(Bytes at, Bytes end, Send *send) noexcept:
    cdef Text name
    cdef Text value
    cdef int64_t number
    cdef bint has_fields = False
    at += 12
    while True:
        if at >= end or at[0] != c'"':
            return False
        at = json_text(at + 1, end, &name, False)
        if at == NULL or end - at < 3 or at[0] != c":":
            return False
        at += 1
        if name.size == 9 and not memcmp(name.at, b"extFields", 9):
            if has_fields or at[0] != c"{":
                return False
            has_fields = True
            at = json_fields(at + 1, end, send)
        elif name.size == 4 and not memcmp(name.at, b"flag", 4):
            at = json_number(at, end, &number)
            if at == NULL or number != 0:
                return False
        elif name.size == 6 and not memcmp(name.at, b"opaque", 6):
            at = json_number(at, end, &send.opaque)
        elif name.size == 7 and not memcmp(name.at, b"version", 7):
            at = json_number(at, end, &send.version)
        elif (name.size == 8 and not memcmp(name.at, b"language", 8)) or (
            name.size == 23 and not memcmp(name.at, b"serializeTypeCurrentRPC", 23)
        ):
            at = json_text(at + 1, end, &value, False) if at[0] == c'"' else NULL
        else:
            return False
        if at == NULL or at >= end:
            return False
        if at[0] == c"}":
            return at + 1 == end
        if at[0] != c",":
            return False
        at += 1


cdef bint read_binary(Bytes at, Bytes end, Send *send) noexcept:
    """See `wire.command` for the layout."""
    cdef Bytes field
    cdef int64_t name_bytes, value_bytes
    if end - at < 21 or get_32(at + 9) != 0 or get_32(at + 13) != 0:  # a flag, a remark
        return False
    send.version = at[3] << 8 | at[4]
    send.opaque = <int32_t> get_32(at + 5)
    if send.version > 0x7FFF or <int64_t> get_32(at + 17) != end - at - 21:
        return False
    at += 21
    while at < end:
        if end - at < 6:
            return False
        name_bytes = at[0] << 8 | at[1]
        field = at + 2
        if name_bytes > end - field - 4:
            return False
        value_bytes = get_32(field + name_bytes)
        at = field + name_bytes + 4
        if value_bytes > end - at:
            return False
        if not is_ascii(field, name_bytes) or not is_ascii(at, value_bytes):
            return False
        if name_bytes == 1 and c"a" <= field[0] <= c"n":
            send.fields[field[0] - c"a"].at = at
            send.fields[field[0] - c"a"].size = value_bytes
        at += value_bytes
    return True


cdef inline bint is_ascii(Bytes at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t index
    for index in range(size):
        if at[index] & 0x80:
            return False
    return True


cdef int hex_digit(unsigned char digit) noexcept:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    if c"a" <= digit <= c"f":
        return digit - c"a" + 10
    if c"A" <= digit <= c"F":
        return digit - c"A" + 10
    return -1


cdef Py_ssize_t unescape(Text text, unsigned char *into) noexcept:
    """The ASCII that JSON's *text* means; how long it is, or -1."""
    cdef Py_ssize_t at = 0, size = 0
    cdef int high, low
    cdef unsigned char unit
    while at < text.size:
        unit = text.at[at]
        at += 1
        if unit == c"\\":
            unit = text.at[at]
            at += 1
            if unit == c"u":
                if text.size - at < 4 or text.at[at] != c"0" or text.at[at + 1] != c"0":
                    return -1
                high, low = hex_digit(text.at[at + 2]), hex_digit(text.at[at + 3])
                if not 0 <= high < 8 or low < 0:
                    return -1
                unit = <unsigned char> (high << 4 | low)
                at += 4
            elif unit != c'"' and unit != c"\\" and unit != c"/":
                return -1
        into[size] = unit
        size += 1
    return size


cdef Py_ssize_t stored_properties(unsigned char *text, Py_ssize_t size) noexcept:
    """As `stored_properties.sent_properties`, in place, all but what is added; -1 where that has more to do.

    WAIT is left out, and a separator ends every property.
    """
    cdef unsigned char *at = text
    cdef unsigned char *end = text + size
    cdef unsigned char *pair_end
    cdef unsigned char *into = text
    cdef Py_ssize_t pair_bytes
    cdef bint waited = False
    while at < end:
        pair_end = <unsigned char *> memchr(at, 2, end - at)
        if pair_end == NULL:
            pair_end = end
        pair_bytes = pair_end - at
        if pair_bytes >= 5 and not memcmp(at, b"WAIT\x01", 5):
            if waited or pair_bytes != 9 or memcmp(at + 5, b"true", 4):
                return -1
            waited = True
        elif (pair_bytes >= 8 and not memcmp(at, b"CLUSTER\x01", 8)) or (
            pair_bytes >= 9 and not memcmp(at, b"TRAN_MSG\x01", 9)
        ):
            return -1
        else:
            # Backwards over what was left out: never beyond what is still to be read, but for the last separator, for
            # which the caller has left room.
            if into != at:
                memmove(into, at, pair_bytes)
            into += pair_bytes
            into[0] = 2
            into += 1
        at = pair_end + 1
    return into - text


cdef inline bint shares_nothing(Bytes at, Py_ssize_t size) noexcept:
    """As `stored_properties.batch_properties`: whether all that a batch says for its messages is a key of its own."""
    cdef Bytes end = at + size
    while at < end:
        if end - at < 9 or memcmp(at, b"UNIQ_KEY\x01", 9):
            return False
        at = <Bytes> memchr(at, 2, end - at) + 1
    return True


cdef inline bint has_delay(Bytes at, Py_ssize_t size) noexcept:
    """DEL, which all names of delays contain."""
    cdef Bytes end = at + size
    while end - at >= 3:
        at = <Bytes> memchr(at, c"D", end - at - 2)
        if at == NULL:
            return False
        if at[1] == c"E" and at[2] == c"L":
            return True
        at += 1
    return False


cdef class PlainSends:
    """Answers plain sends. `answer` is an `Endpoint`'s express lane."""

    cdef object sends, settings, config, flow, find_config, host_of_peer, put, count, store_stats, stats
    cdef dict targets, unsaved
    cdef bytes store_host, added_old, added_new
    cdef object parts_of_answer
    cdef list json_parts
    cdef bytes id_prefix, binary_head, binary_tail
    cdef unsigned char properties[HEADER_MAX + 8]

    def __init__(self, sends, put, host_of_peer, parts_of_answer):
        """*sends* is a `handlers.send.Sends`, *put* a `PlainPuts.put`; *parts_of_answer* says how answers look."""
        self.sends, self.settings, self.flow = sends, sends._settings, sends._flow
        self.put, self.host_of_peer, self.parts_of_answer = put, host_of_peer, parts_of_answer
        self.targets, self.find_config = sends._targets.known, sends._topics.find
        self.unsaved = sends._unsaved_topics
        self.stats = sends.intake._stats
        self.count, self.store_stats = self.stats.put, self.stats.store
        self.config = None

    cdef bint settle(self):
        """Settings are those that we know, in the form in which we need them. False: not now."""
        config = self.settings.broker
        if config is not self.config:
            self.sends._read(config)
            self.config = config
            self.store_host = self.sends._store_host.raw
            self.added_old, self.added_new = self.sends._cluster.encode(), self.sends._cluster_and_region.encode()
            parts = self.parts_of_answer(self.sends._region, self.sends._trace_on, self.store_host)
            self.id_prefix, self.json_parts, self.binary_head, self.binary_tail = parts or (None, None, None, None)
        return self.flow.busy is None and not config.start_accept_sends_at_ms and self.json_parts is not None

    def answer(self, bytes frame not None, connection):
        """The answer to the request in *frame*, or None: then nothing was done."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(frame)
        cdef Py_ssize_t frame_bytes = PyBytes_GET_SIZE(frame), header_bytes, body_at
        cdef Send send
        cdef Text *fields = send.fields
        cdef int field
        if frame_bytes < 28:
            return None
        header_bytes = start[1] << 16 | start[2] << 8 | start[3]
        body_at = header_bytes + 4
        if body_at >= frame_bytes or header_bytes > HEADER_MAX:
            return None
        for field in range(FIELDS):
            fields[field].at = NULL
        send.opaque, send.version, send.is_json = 0, 0, start[0] == 0
        if send.is_json:
            send.is_batch = not memcmp(start + 4, JSON_BATCH, 12)
            if not send.is_batch and memcmp(start + 4, JSON_SEND, 12):
                return None
            if not read_json(start + 4, start + body_at, &send):
                return None
        else:
            field = start[4] << 8 | start[5]
            send.is_batch = field == BATCH
            if start[0] != 1 or (field != SEND and field != BATCH) or not read_binary(start + 4, start + body_at, &send):
                return None

        cdef int64_t queues_wanted, queue_id, sys_flag, born_ms, flag, reconsumed = 0, unused
        for field in range(8):  # a to h must be there
            if fields[field].at == NULL:
                return None
        if (
            not number_in(fields[3], &queues_wanted)
            or not number_in(fields[4], &queue_id)
            or not number_in(fields[5], &sys_flag)
            or not number_in(fields[6], &born_ms)
            or not number_in(fields[7], &flag)
            or (fields[9].at != NULL and not number_in(fields[9], &reconsumed))
            or (fields[11].at != NULL and not (number_in(fields[11], &unused) and is_int32(unused)))
            or not is_false(fields[10])
            or (not is_true(fields[12]) if send.is_batch else not is_false(fields[12]))
            or not is_int32(queues_wanted)
            or not is_int32(sys_flag)
            or not is_int32(flag)
            or not is_int32(reconsumed)
            or not is_int32(send.opaque)
            or not is_int32(send.version)
            or not 0 < fields[1].size <= TOPIC_MAX
            or queue_id < 0
            or sys_flag < 0
            or not self.settle()
        ):
            return None

        topic = PyUnicode_DecodeASCII(<const char *> fields[1].at, fields[1].size, NULL)
        target = self.targets.get(topic)
        if target is None or target.is_retry or topic in self.unsaved:
            return None
        config = target.config
        if config is not self.find_config(topic) or config.order or queue_id >= <int64_t> target.queues:
            return None
        messages = self.messages_of(frame, body_at, <int32_t> flag, &send)
        if messages is None:
            return None

        began = perf_counter()
        place = self.put(
            topic,
            queue_id,
            frame,
            messages,
            born_ms,
            self.host_of_peer(connection.peer),
            self.store_host,
            <int32_t> sys_flag | <int32_t> target.sys_flag,
            <int32_t> reconsumed,
        )
        if place is None:
            return None
        queue_offset, size, log_offsets = <tuple> place
        if not send.is_batch:
            self.time_put(perf_counter() - began)
        self.count(topic, len(<list> log_offsets), size, queue_id)
        return self.reply(&send, <list> log_offsets, queue_id, queue_offset)

    cdef time_put(self, double took):
        self.store_stats.put_seconds += took
        if took >= 0.001:
            self.stats.put_latency_ms(int(took * 1000))

    cdef list messages_of(self, bytes frame, Py_ssize_t body_at, int32_t flag, Send *send):
        """What is to be stored, as `PlainPuts.put` wants it; None where the readable way has more to do."""
        cdef Py_ssize_t size = 0
        if send.fields[8].at != NULL:
            if send.is_json:
                size = unescape(send.fields[8], self.properties)
            else:
                size = send.fields[8].size
                memcpy(self.properties, send.fields[8].at, size)
            if size < 0 or has_delay(self.properties, size):
                return None
            size = stored_properties(self.properties, size)
            if size < 0:
                return None
        added = self.added_old if send.version < V5_0_0 else self.added_new
        if send.is_batch:
            return self.parts_of_batch(frame, body_at, added) if shares_nothing(self.properties, size) else None
        properties = PyBytes_FromStringAndSize(<char *> self.properties, size) + added
        return [(body_at, PyBytes_GET_SIZE(frame) - body_at, flag, properties)]

    cdef list parts_of_batch(self, bytes frame, Py_ssize_t at, bytes added):
        """As `wire.batch.decode_batch` and `stored_properties.in_batch`."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(frame)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(frame)
        cdef int64_t body_bytes, properties_bytes, size
        cdef Bytes part
        if end - at > <Py_ssize_t> self.settings.store.message_bytes_max:
            return None
        cdef list messages = []
        while at < end:
            if end - at < 22 or len(messages) == BATCH_MAX:
                return None
            part = start + at
            body_bytes = <int32_t> get_32(part + 16)
            if body_bytes <= 0 or body_bytes > end - at - 22:
                return None
            properties_bytes = part[20 + body_bytes] << 8 | part[21 + body_bytes]
            size = 22 + body_bytes + properties_bytes
            if properties_bytes > PROPERTIES_MAX or size > end - at or <int64_t> get_32(part) != size:
                return None
            part += 22 + body_bytes
            if not is_ascii(part, properties_bytes) or has_delay(part, properties_bytes):
                return None
            memcpy(self.properties, part, properties_bytes)
            properties_bytes = stored_properties(self.properties, properties_bytes)
            if properties_bytes < 0:
                return None
            properties = PyBytes_FromStringAndSize(<char *> self.properties, properties_bytes) + added
            messages.append((at + 20, body_bytes, <int32_t> get_32(start + at + 12), properties))
            at += size
        return messages

    cdef bytes reply(self, Send *send, list log_offsets, int64_t queue_id, int64_t queue_offset):
        """What `wire.command.encode_reply_head` makes of it."""
        cdef Py_ssize_t ids_bytes = 33 * len(log_offsets) - 1
        reply = PyBytes_FromStringAndSize(NULL, REPLY_MAX + ids_bytes)
        cdef char *start = PyBytes_AS_STRING(reply)
        cdef char *at = start + 8
        cdef char *fields
        cdef char queue_digits[24]
        cdef char offset_digits[24]
        cdef int queue_length = snprintf(queue_digits, 24, b"%lld", <long long> queue_id)
        cdef int offset_length = snprintf(offset_digits, 24, b"%lld", <long long> queue_offset)
        if send.is_json:
            at = add(at, <bytes> self.json_parts[0])
            at = self.add_ids(at, log_offsets)
            at = add(at, <bytes> self.json_parts[1])
            at = add_text(at, queue_digits, queue_length)
            at = add(at, <bytes> self.json_parts[2])
            at = add_text(at, offset_digits, offset_length)
            at = add(at, <bytes> self.json_parts[3])
            at += snprintf(at, 24, b"%lld", <long long> send.opaque)
            at = add(at, <bytes> self.json_parts[4])
        else:
            at = add(at, self.binary_head)
            put_32(start + 8 + 5, <uint32_t> <int32_t> send.opaque)
            fields = at
            at = add_text(at, b"\x00\x05msgId", 7)
            put_32(at, <uint32_t> ids_bytes)
            at = self.add_ids(at + 4, log_offsets)
            at = add_text(at, b"\x00\x07queueId", 9)
            put_32(at, <uint32_t> queue_length)
            at = add_text(at + 4, queue_digits, queue_length)
            at = add_text(at, b"\x00\x0bqueueOffset", 13)
            put_32(at, <uint32_t> offset_length)
            at = add_text(at + 4, offset_digits, offset_length)
            at = add(at, self.binary_tail)
            put_32(fields - 4, <uint32_t> (at - fields))
        cdef Py_ssize_t header_bytes = at - start - 8
        put_32(start, <uint32_t> (4 + header_bytes))
        put_32(start + 4, <uint32_t> header_bytes | (0 if send.is_json else 1 << 24))
        return reply[: 8 + header_bytes]

    cdef char *add_ids(self, char *at, list log_offsets) except NULL:
        """As `wire.message_id.encode_offset_id` for each, separated by commas."""
        cdef uint64_t left
        cdef int digit
        cdef bint is_first = True
        for log_offset in log_offsets:
            if not is_first:
                at[0] = c","
                at += 1
            is_first = False
            memcpy(at, PyBytes_AS_STRING(self.id_prefix), 16)
            left = log_offset
            for digit in range(31, 15, -1):
                at[digit] = HEX[left & 15]
                left >>= 4
            at += 32
        return at


cdef inline void put_32(char *at, uint32_t value) noexcept:
    at[0] = <char> (value >> 24)
    at[1] = <char> (value >> 16 & 0xFF)
    at[2] = <char> (value >> 8 & 0xFF)
    at[3] = <char> (value & 0xFF)


cdef inline char *add(char *at, bytes piece) noexcept:
    memcpy(at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return at + PyBytes_GET_SIZE(piece)


cdef inline char *add_text(char *at, const char *text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size
