# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""Frames of the fast path, compiled: the header of a pull, the head of a reply."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from hanabi.broker.fast_path._header cimport Header, Pair, read_header, read_numbers
from hanabi.wire._bytes cimport Bytes, Text, get_32, put_32, put_bytes, put_digits

from hanabi.wire.headers.pull import PullMessageHeader

cdef enum:
    PULL = 11
    LITE_PULL = 361
    HEADER_MAX = 4096  # longer ones are declined
    VALUES_MAX = 4  # of a reply
    HEAD_MAX = 1024  # of a reply to a pull

cdef enum:  # the fields of a pull, in the order of NAMES; those of the first two lines must be there
    GROUP, TOPIC, QUEUE_ID, QUEUE_OFFSET, COUNT
    SYS_FLAG, COMMITTED, SUSPEND_MS, SUB_VERSION
    SUBSCRIPTION, EXPRESSION_TYPE, BROKER, COUNT_BYTES, FIELDS

cdef enum:
    REQUIRED = (1 << SUBSCRIPTION) - 1
    WIDE = 1 << QUEUE_OFFSET | 1 << COMMITTED | 1 << SUSPEND_MS | 1 << SUB_VERSION
    NUMERIC = WIDE | 1 << QUEUE_ID | 1 << COUNT | 1 << SYS_FLAG | 1 << COUNT_BYTES

cdef const char *NAMES[FIELDS]
NAMES[:] = [
    b"consumerGroup", b"topic", b"queueId", b"queueOffset", b"maxMsgNums",
    b"sysFlag", b"commitOffset", b"suspendTimeoutMillis", b"subVersion",
    b"subscription", b"expressionType", b"bname", b"maxMsgBytes",
]
cdef Py_ssize_t NAME_BYTES[FIELDS]
NAME_BYTES[:] = [13, 5, 7, 11, 10, 7, 12, 20, 10, 12, 14, 5, 11]


def read_pull(bytes data not None, Py_ssize_t at):
    """Read the pull whose frame begins at *at*; return its code, where it ends, its opaque number, whether it is JSON, and
    its header, None if that is unusual. None if no whole pull is there."""
    cdef Bytes start = <Bytes> PyBytes_AS_STRING(data) + at + 4
    cdef Header header
    cdef Text fields[FIELDS]
    cdef int64_t numbers[FIELDS]
    cdef Py_ssize_t frame_bytes, header_bytes
    if at < 0 or PyBytes_GET_SIZE(data) - at < 32:
        return None
    frame_bytes = get_32(start - 4)
    header_bytes = start[1] << 16 | start[2] << 8 | start[3]
    if frame_bytes > PyBytes_GET_SIZE(data) - at - 4 or header_bytes + 4 > frame_bytes:
        return None
    cdef bint is_usual = read_header(start, header_bytes, PULL, LITE_PULL, &header)
    if header.code != PULL and header.code != LITE_PULL:
        return None
    if (
        not is_usual
        or header_bytes + 4 < frame_bytes
        or header_bytes > HEADER_MAX
        or not named_fields(&header, fields)
        or not read_numbers(fields, FIELDS, NUMERIC, WIDE, REQUIRED, numbers)
    ):
        return header.code, at + 4 + frame_bytes, 0, False, None
    return header.code, at + 4 + frame_bytes, header.opaque, header.is_json, PullMessageHeader(
        consumer_group=text_of(fields[GROUP]),
        topic=text_of(fields[TOPIC]),
        queue_id=numbers[QUEUE_ID],
        queue_offset=numbers[QUEUE_OFFSET],
        max_msg_nums=numbers[COUNT],
        sys_flag=numbers[SYS_FLAG],
        commit_offset=numbers[COMMITTED],
        suspend_timeout_millis=numbers[SUSPEND_MS],
        sub_version=numbers[SUB_VERSION],
        subscription=text_of(fields[SUBSCRIPTION]),
        expression_type=text_of(fields[EXPRESSION_TYPE]),
    )


cdef bint named_fields(Header *header, Text *fields) noexcept:
    """Put the fields where NAMES says, those of a signature nowhere; return False for one that is unknown, comes twice
    or has escapes."""
    cdef Pair *pair
    cdef Py_ssize_t index
    cdef int field
    for field in range(FIELDS):
        fields[field].at = NULL
    for index in range(header.count):
        pair = header.pairs + index
        for field in range(FIELDS):
            if pair.name.size == NAME_BYTES[field] and not memcmp(pair.name.at, NAMES[field], pair.name.size):
                break
        else:
            if pair.is_escaped or not is_of_signature(pair.name):
                return False
            continue
        if pair.is_escaped or fields[field].at != NULL:
            return False
        fields[field] = pair.value
    return True


cdef inline bint is_of_signature(Text name) noexcept:
    return (
        (name.size == 9 and (not memcmp(name.at, b"AccessKey", 9) or not memcmp(name.at, b"Signature", 9)))
        or (name.size == 13 and not memcmp(name.at, b"SecurityToken", 13))
    )


cdef inline str text_of(Text text):
    return PyUnicode_DecodeASCII(<const char *> text.at, text.size, NULL) if text.at != NULL else None


cdef class ReplyTemplate:
    """Replies that differ in a few values and the opaque number: what `encode_reply_head` makes, cut at these.

        JSON     piece │ value │ piece │ value ... piece │ opaque │ piece
        binary   head, with opaque and the length of the fields │ name │ value │ name │ value ... │ the other fields
    """

    def __init__(self, list json not None, bytes head not None, list names not None, bytes tail not None):
        if not 0 < len(names) <= VALUES_MAX or len(json) != len(names) + 2:
            raise ValueError(f"{len(names)} values and {len(json)} pieces")
        self.json, self.head, self.names, self.tail, self.count = json, head, names, tail, len(names)

    cdef unsigned char *write(
        self, unsigned char *start, bint is_json, int64_t opaque, Text *values, Py_ssize_t body_bytes
    ) noexcept:
        """Write the reply's head at *start*, for a body of so many bytes; return where it ends."""
        cdef unsigned char *at = start + 8
        cdef unsigned char *fields
        cdef int index
        if is_json:
            for index in range(self.count):
                at = add_text(put_bytes(at, <bytes> self.json[index]), values[index])
            at = put_digits(put_bytes(at, <bytes> self.json[self.count]), opaque)
            at = put_bytes(at, <bytes> self.json[self.count + 1])
        else:
            at = fields = put_bytes(at, self.head)
            put_32(start + 8 + 5, <uint32_t> <int32_t> opaque)
            for index in range(self.count):
                at = put_bytes(at, <bytes> self.names[index])
                put_32(at, <uint32_t> values[index].size)
                at = add_text(at + 4, values[index])
            at = put_bytes(at, self.tail)
            put_32(fields - 4, <uint32_t> (at - fields))
        cdef Py_ssize_t header_bytes = at - start - 8
        put_32(start, <uint32_t> (4 + header_bytes + body_bytes))
        put_32(start + 4, <uint32_t> header_bytes | (0 if is_json else 1 << 24))
        return at

    def encode(self, bint is_json, int64_t opaque, tuple numbers not None, Py_ssize_t body_bytes):
        """Return the reply's head with *numbers* as its values."""
        cdef unsigned char digits[VALUES_MAX][24]
        cdef unsigned char head[HEAD_MAX]
        cdef Text values[VALUES_MAX]
        cdef int index
        for index in range(self.count):
            values[index].at = digits[index]
            values[index].size = put_digits(digits[index], <int64_t> numbers[index]) - digits[index]
        return PyBytes_FromStringAndSize(
            <char *> head, self.write(head, is_json, opaque, values, body_bytes) - head
        )


cdef inline unsigned char *add_text(unsigned char *at, Text text) noexcept:
    memcpy(at, text.at, text.size)
    return at + text.size
