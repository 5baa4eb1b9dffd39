# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The functions of key index and record chain that every message needs, compiled. Each has a readable twin of the same
name."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from hanabi.wire._bytes cimport Bytes, get_32, get_64, put_32, put_64
from hanabi.wire.message._record cimport MAGIC, MAGIC_LONG_TOPIC

cdef extern from "Python.h":
    enum:
        PyUnicode_1BYTE_KIND
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    HEADER_BYTES = 40
    CHUNK_BITS = 16  # as `hanabi.store.index.index_file.CHUNK_BITS`
    CHAIN_HEAD_BYTES = 36  # of a record: size to log offset
    BLANK_BYTES_MIN = 8  # remain behind every record


def key_hash_after(uint32_t prefix, str text not None):
    """See `hanabi.store.index.key_hash.key_hash_after`."""
    cdef uint32_t code = prefix
    cdef Py_ssize_t at, length
    cdef const unsigned char *units
    if PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND:
        from hanabi.store.index.key_hash import python_key_hash_after

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


def follow_chain(
    mapped,
    Py_ssize_t entries_at,
    int32_t number,
    int32_t below,
    int32_t hashed_key,
    int32_t low,
    int32_t high,
    int32_t steps_max,
    bytearray readable not None,
):
    """Go back along a chain of the key index; see `hanabi.store.index.index_file.follow_chain`."""
    cdef Py_buffer view
    cdef Bytes entry
    cdef int32_t seconds, stored, entry_hash, steps
    cdef int64_t log_offset, found = -1
    cdef unsigned char *chunks = <unsigned char *> PyByteArray_AS_STRING(readable)
    PyObject_GetBuffer(mapped, &view, PyBUF_SIMPLE)
    try:
        if entries_at + <Py_ssize_t> below * 20 > view.len:
            raise ValueError(f"entries below {below} lie behind the end of the file")
        if view.len >> CHUNK_BITS >= len(readable):
            raise ValueError(f"{len(readable)} chunks are not all of the file")
        with nogil:
            for steps in range(steps_max):
                if not 0 < number < below:
                    number = below = 0
                    break
                if not chunks[(entries_at + <Py_ssize_t> number * 20) >> CHUNK_BITS]:
                    break
                entry = <Bytes> view.buf + entries_at + <Py_ssize_t> number * 20
                entry_hash, log_offset, seconds = <int32_t> get_32(entry), get_64(entry + 4), <int32_t> get_32(entry + 12)
                stored = seconds if number > 1 else 0
                if seconds < 0 or stored < low:
                    number = below = 0
                    break
                below = number
                number = <int32_t> get_32(entry + 16)
                if entry_hash == hashed_key and stored <= high and log_offset >= 0:
                    found = log_offset
                    break
    finally:
        PyBuffer_Release(&view)
    return found, number, below


def link_entries(
    mapped, Py_ssize_t slots, Py_ssize_t first, bytes pairs not None, int64_t begin_ms, int64_t store_ms,
    Py_ssize_t slots_used,
):
    """Add the entries of messages; see `hanabi.store.index.index_file.link_entries`."""
    cdef Py_buffer view
    cdef unsigned char *base
    cdef unsigned char *slot
    cdef unsigned char *entry
    cdef Bytes pair = <Bytes> PyBytes_AS_STRING(pairs)
    cdef Py_ssize_t number, previous, end = first + PyBytes_GET_SIZE(pairs) // 12, entries_at = HEADER_BYTES + slots * 4
    cdef int64_t seconds = min((store_ms - begin_ms) // 1000, 0x7FFFFFFF) if 0 < begin_ms < store_ms else 0
    if not 0 < first < end or slots <= 0:
        raise ValueError(f"no entries from {first} on for {slots} slots")
    PyObject_GetBuffer(mapped, &view, PyBUF_WRITABLE)
    try:
        base = <unsigned char *> view.buf
        if entries_at + end * 20 > view.len:
            raise ValueError(f"entry {end - 1} lies behind the end of the file")
        for number in range(first, end):
            slot = base + HEADER_BYTES + get_32(pair) % slots * 4
            entry = base + entries_at + number * 20
            previous = <int32_t> get_32(slot)
            if not 0 < previous < number:
                previous = 0
                slots_used += 1
            memcpy(entry, pair, 12)
            put_32(entry + 12, <uint32_t> (seconds if first > 1 or number == 1 else 0))
            put_32(entry + 16, <uint32_t> previous)
            put_32(slot, <uint32_t> number)
            pair += 12
        if first == 1:
            put_64(base, <uint64_t> store_ms)
            memcpy(base + 16, PyBytes_AS_STRING(pairs) + 4, 8)
        put_64(base + 8, <uint64_t> store_ms)
        memcpy(base + 24, pair - 8, 8)
        put_32(base + 32, <uint32_t> slots_used)
        put_32(base + 36, <uint32_t> end)
    finally:
        PyBuffer_Release(&view)
    return slots_used, get_64(pair - 8)


def follow_records(data, int64_t start, int64_t following, int64_t file_bytes):
    """Walk over the records in *data*; see `hanabi.store.log.record_chain.follow_records`."""
    cdef Py_buffer view
    cdef Bytes at
    cdef int64_t end, size, whole_to = following
    cdef uint32_t magic
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        end = start + view.len
        while following >= start and following + CHAIN_HEAD_BYTES <= end:
            at = <Bytes> view.buf + (following - start)
            size, magic = get_32(at), get_32(at + 4)
            if (
                (magic != <uint32_t> MAGIC and magic != <uint32_t> MAGIC_LONG_TOPIC)
                or get_64(at + 28) != following
                or not CHAIN_HEAD_BYTES < size <= file_bytes - following % file_bytes - BLANK_BYTES_MIN
            ):
                break
            following += size
            if following <= end:
                whole_to = following
    finally:
        PyBuffer_Release(&view)
    return whole_to, following
