# cython: language_level=3
"""Numbers and text as they lie in frames and files, for the compiled functions of all packages."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef const unsigned char *Bytes


cdef struct Text:  # a piece of something longer; without `at` there is none
    Bytes at
    Py_ssize_t size


cdef inline uint32_t get_32(Bytes at) noexcept nogil:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline int64_t get_64(Bytes at) noexcept nogil:
    return <int64_t> (<uint64_t> get_32(at) << 32 | get_32(at + 4))


cdef inline void put_32(unsigned char *at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = value >> 16 & 0xFF
    at[2] = value >> 8 & 0xFF
    at[3] = value & 0xFF


cdef inline void put_64(unsigned char *at, uint64_t value) noexcept nogil:
    put_32(at, <uint32_t> (value >> 32))
    put_32(at + 4, <uint32_t> value)


cdef inline bint is_ascii(Bytes at, Py_ssize_t size) noexcept nogil:
    cdef unsigned char seen = 0
    cdef Py_ssize_t index
    for index in range(size):
        seen |= at[index]
    return not seen & 0x80


cdef inline bint is_int32(int64_t number) noexcept nogil:
    return -0x80000000 <= number <= 0x7FFFFFFF


cdef inline bint number_in(Text text, int64_t *number) noexcept nogil:
    """Parse a number in its usual form: digits, an optional minus, no leading zeros."""
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


# JSON: only as fastjson and those after it write it, without a blank.

cdef inline Bytes json_text(Bytes at, Bytes end, Text *text, bint *has_escapes) noexcept nogil:
    """The string whose opening quote is behind us; returns where it goes on behind the closing one, or NULL. Without
    *has_escapes* it may have none."""
    text.at = at
    while at < end:
        if at[0] == c'"':
            text.size = at - text.at
            return at + 1
        if at[0] == c"\\":
            if has_escapes == NULL or at + 1 >= end:
                return NULL
            has_escapes[0] = True
            at += 1
        elif at[0] < 32 or at[0] > 126:
            return NULL
        at += 1
    return NULL


cdef inline Bytes json_number(Bytes at, Bytes end, int64_t *number) noexcept nogil:
    cdef Text text
    text.at = at
    while at < end and (at[0] == c"-" or c"0" <= at[0] <= c"9"):
        at += 1
    text.size = at - text.at
    return at if number_in(text, number) else NULL


cdef inline unsigned char *put_digits(unsigned char *at, int64_t number) noexcept nogil:
    """*number* in decimal; returns where it ends."""
    cdef unsigned char digits[20]
    cdef int count = 0
    cdef uint64_t left = <uint64_t> number
    if number < 0:
        at[0] = c"-"
        at += 1
        left = 0 - left
    while True:
        digits[count] = <unsigned char> (c"0" + left % 10)
        count += 1
        left = left // 10
        if not left:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at


cdef inline unsigned char *put_bytes(unsigned char *at, bytes piece) noexcept:
    """Returns where *piece* ends."""
    memcpy(at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return at + PyBytes_GET_SIZE(piece)
