# cython: language_level=3
"""The header of a request, in both forms, for the fast path: what it asks for, and its fields where they lie.

See `wire.command` for the layouts. Only what nearly all clients write is read: JSON as fastjson writes it, without a
blank, the code first; ASCII; no flag and no remark. The rest is declined.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp

from hanabi.wire._bytes cimport Bytes, Text, get_32, is_ascii, is_int32, json_number, json_text, number_in

cdef enum:
    PAIRS_MAX = 32


cdef struct Pair:
    Text name
    Text value
    bint is_escaped  # the value, as JSON


cdef struct Header:
    int64_t code, opaque, version
    bint is_json
    Py_ssize_t count
    Pair pairs[PAIRS_MAX]


cdef inline bint read_header(Bytes start, Py_ssize_t header_bytes, int64_t one, int64_t other, Header *header) noexcept:
    """The header of a frame that begins at *start* with its form. False: not for us, or of another code than these; `code`
    is 0 if it was not found."""
    cdef Bytes end = start + 4 + header_bytes
    header.code = header.opaque = header.version = header.count = 0
    header.is_json = start[0] == 0
    if header.is_json:
        if not read_json(start + 4, end, one, other, header):
            return False
    elif start[0] != 1 or not read_binary(start + 4, end, one, other, header):
        return False
    return is_int32(header.opaque) and is_int32(header.version)


cdef inline bint read_json(Bytes at, Bytes end, int64_t one, int64_t other, Header *header) noexcept:
    cdef Text name
    cdef Text value
    cdef int64_t number
    cdef bint has_fields = False
    if end - at < 10 or memcmp(at, b'{"code":', 8):
        return False
    at = json_number(at + 8, end, &header.code)
    if at == NULL or at >= end or at[0] != c"," or (header.code != one and header.code != other):
        return False
    at += 1
    while True:
        if at >= end or at[0] != c'"':
            return False
        at = json_text(at + 1, end, &name, NULL)
        if at == NULL or end - at < 3 or at[0] != c":":
            return False
        at += 1
        if name.size == 9 and not memcmp(name.at, b"extFields", 9):
            if has_fields or at[0] != c"{":
                return False
            has_fields = True
            at = json_pairs(at + 1, end, header)
        elif name.size == 4 and not memcmp(name.at, b"flag", 4):
            at = json_number(at, end, &number)
            if at == NULL or number != 0:
                return False
        elif name.size == 6 and not memcmp(name.at, b"opaque", 6):
            at = json_number(at, end, &header.opaque)
        elif name.size == 7 and not memcmp(name.at, b"version", 7):
            at = json_number(at, end, &header.version)
        elif (name.size == 8 and not memcmp(name.at, b"language", 8)) or (
            name.size == 23 and not memcmp(name.at, b"serializeTypeCurrentRPC", 23)
        ):
            at = json_text(at + 1, end, &value, NULL) if at[0] == c'"' else NULL
        else:
            return False
        if at == NULL or at >= end:
            return False
        if at[0] == c"}":
            return at + 1 == end
        if at[0] != c",":
            return False
        at += 1


cdef inline Bytes json_pairs(Bytes at, Bytes end, Header *header) noexcept:
    """The object whose opening brace is behind us; returns where it goes on, or NULL."""
    cdef Pair *pair
    while header.count < PAIRS_MAX:
        pair = header.pairs + header.count
        if at >= end or at[0] != c'"':
            return NULL
        at = json_text(at + 1, end, &pair.name, NULL)
        if at == NULL or end - at < 3 or at[0] != c":" or at[1] != c'"':
            return NULL
        pair.is_escaped = False
        at = json_text(at + 2, end, &pair.value, &pair.is_escaped)
        if at == NULL or at >= end:
            return NULL
        header.count += 1
        if at[0] == c"}":
            return at + 1
        if at[0] != c",":
            return NULL
        at += 1
    return NULL


cdef inline bint read_binary(Bytes at, Bytes end, int64_t one, int64_t other, Header *header) noexcept:
    cdef Pair *pair
    if end - at < 21:
        return False
    header.code = at[0] << 8 | at[1]
    header.version = at[3] << 8 | at[4]
    header.opaque = <int32_t> get_32(at + 5)
    if (header.code != one and header.code != other) or header.version > 0x7FFF:
        return False
    if get_32(at + 9) != 0 or get_32(at + 13) != 0 or <int64_t> get_32(at + 17) != end - at - 21:  # a flag, a remark
        return False
    at += 21
    while at < end:
        if end - at < 6 or header.count == PAIRS_MAX:
            return False
        pair = header.pairs + header.count
        pair.name.size = at[0] << 8 | at[1]
        pair.name.at = at + 2
        if pair.name.size > end - pair.name.at - 4:
            return False
        pair.value.size = get_32(pair.name.at + pair.name.size)
        pair.value.at = pair.name.at + pair.name.size + 4
        if pair.value.size > end - pair.value.at:
            return False
        if not is_ascii(pair.name.at, pair.name.size) or not is_ascii(pair.value.at, pair.value.size):
            return False
        pair.is_escaped = False
        header.count += 1
        at = pair.value.at + pair.value.size
    return True


cdef inline bint read_numbers(
    Text *fields, int count, uint32_t numeric, uint32_t wide, uint32_t required, int64_t *numbers
) noexcept:
    """Read the fields whose bits are in *numeric*; those not in *wide* have 32 bits, one that was not sent is 0. False if
    one is no number, or one of *required* was not sent."""
    cdef int index
    for index in range(count):
        numbers[index] = 0
        if fields[index].at == NULL:
            if required >> index & 1:
                return False
        elif numeric >> index & 1:
            if not number_in(fields[index], numbers + index):
                return False
            if not (wide >> index & 1 or is_int32(numbers[index])):
                return False
    return True
