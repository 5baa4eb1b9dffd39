# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The functions of `store` that every message with keys needs, compiled. Optional: see `hanabi.wire._speedups`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "Python.h":
    enum:
        PyUnicode_1BYTE_KIND
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


cdef inline void put_32(unsigned char *at, uint32_t value) noexcept:
    at[0] = value >> 24
    at[1] = value >> 16 & 0xFF
    at[2] = value >> 8 & 0xFF
    at[3] = value & 0xFF


cdef inline uint32_t get_32(const unsigned char *at) noexcept:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


def key_hash_after(uint32_t prefix, str text not None):
    """See `hanabi.store.key_hash.key_hash_after`."""
    cdef uint32_t code = prefix
    cdef Py_ssize_t at, length
    cdef const unsigned char *units
    if PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND:
        from hanabi.store.key_hash import python_key_hash_after

        return python_key_hash_after(prefix, text)
    units = <const unsigned char *> PyUnicode_DATA(text)
    length = PyUnicode_GET_LENGTH(text)
    for at in range(length):
        code = code * 31 + units[at]
    if code > 0x7FFFFFFF:
        code = 0 - code
        if code > 0x7FFFFFFF:
            return 0
    return code


def link_entries(
    mapped,
    Py_ssize_t slots_at,
    Py_ssize_t slots,
    Py_ssize_t first,
    hashed_keys,
    int64_t log_offset,
    int32_t first_seconds,
    int32_t seconds,
):
    """Add the entries of one message; see `hanabi.store.index_file.link_entries`."""
    cdef Py_buffer view
    cdef unsigned char *base
    cdef unsigned char *slot
    cdef unsigned char *entry
    cdef Py_ssize_t number = first, used = 0, previous
    cdef uint32_t hashed_key
    PyObject_GetBuffer(mapped, &view, PyBUF_WRITABLE)
    try:
        base = <unsigned char *> view.buf
        for key in hashed_keys:
            hashed_key = key
            slot = base + slots_at + hashed_key % slots * 4
            entry = base + slots_at + slots * 4 + number * 20
            if entry + 20 > base + view.len:
                raise ValueError(f"entry {number} lies behind the end of the file")
            previous = <int32_t> get_32(slot)
            if not 0 < previous < number:
                previous = 0
                used += 1
            put_32(entry, hashed_key)
            put_32(entry + 4, <uint32_t> (<uint64_t> log_offset >> 32))
            put_32(entry + 8, <uint32_t> log_offset)
            put_32(entry + 12, <uint32_t> (first_seconds if number == first else seconds))
            put_32(entry + 16, <uint32_t> previous)
            put_32(slot, <uint32_t> number)
            number += 1
    finally:
        PyBuffer_Release(&view)
    return used


cdef inline int64_t get_64(const unsigned char *at) noexcept:
    return <int64_t> (<uint64_t> get_32(at) << 32 | get_32(at + 4))


def plain_run(
    view,
    int64_t base,
    bytes entries not None,
    bytes topic not None,
    int64_t queue_id,
    int64_t first_offset,
    int64_t log_offset_min,
    Py_ssize_t count_max,
    Py_ssize_t bytes_max,
):
    """The records that need no second look; see `hanabi.store.plain_run`."""
    cdef Py_buffer buffer
    cdef const unsigned char *entry = <const unsigned char *> PyBytes_AS_STRING(entries)
    cdef const unsigned char *entries_end = entry + PyBytes_GET_SIZE(entries)
    cdef const unsigned char *record
    cdef int64_t log_offset, position, last = 0, start = 0, end = -1, offset = first_offset
    cdef int32_t size, body_bytes
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic), count = 0, total = 0
    cdef uint32_t magic
    runs = []
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while entry + 20 <= entries_end and count < count_max:
            log_offset = get_64(entry)
            size = <int32_t> get_32(entry + 8)
            position = log_offset - base
            if log_offset < log_offset_min or position < 0 or size < 88 or position + size > buffer.len:
                break
            if count and total + size > bytes_max:
                break
            record = <const unsigned char *> buffer.buf + position
            magic = get_32(record + 4)
            if (
                <int32_t> get_32(record) != size
                or get_64(record + 28) != log_offset
                or get_64(record + 20) != offset
                or <int32_t> get_32(record + 12) != queue_id
                or (magic != 0xDAA320A7 and magic != 0xDAA320AB)
                or record[39] & 0x30
            ):
                break
            body_bytes = <int32_t> get_32(record + 84)
            if (
                body_bytes < 0
                or 88 + <int64_t> body_bytes + topic_bytes > size
                or memcmp(record + 88 + body_bytes, PyBytes_AS_STRING(topic), topic_bytes)
            ):
                break
            if position != end:
                if end >= 0:
                    runs.append((view, start, end))
                start = position
            end = position + size
            last = log_offset
            total += size
            count += 1
            offset += 1
            entry += 20
    finally:
        PyBuffer_Release(&buffer)
    if end >= 0:
        runs.append((view, start, end))
    return runs, count, total, last
