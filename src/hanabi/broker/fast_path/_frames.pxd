# cython: language_level=3
"""The declarations of `_frames.pyx` that `_sends.pyx` uses."""

from libc.stdint cimport int64_t

from hanabi.wire._bytes cimport Text


cdef class ReplyTemplate:
    cdef list json, names
    cdef bytes head, tail
    cdef int count

    cdef unsigned char *write(
        self, unsigned char *start, bint is_json, int64_t opaque, Text *values, Py_ssize_t body_bytes
    ) noexcept
