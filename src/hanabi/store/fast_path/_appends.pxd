# cython: language_level=3
"""The declarations of `_appends.pyx` that other compiled code uses."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint32_t

from hanabi.wire._bytes cimport Bytes
from hanabi.wire.message._record cimport Indexed, Record

cdef enum:
    RUN_MAX = 512  # records of one run
    KEYED_MAX = 2048  # index entries of one run


cdef struct Stored:  # a record of a run
    int64_t log_offset
    int32_t size
    int32_t tags_code
    int32_t queue  # its number among the queues of the run
    Py_ssize_t keyed  # how many index entries the run has up to here


cdef class RunQueue:
    cdef str topic
    cdef int32_t queue_id
    cdef object queue
    cdef tuple key
    cdef bytes topic_field
    cdef int32_t index
    cdef int64_t run, first_offset, next_offset
    cdef int64_t size, frames
    cdef int64_t all_messages, all_bytes, all_frames  # of runs that no one has counted yet
    cdef uint32_t prefix  # of the hashes of its keys
    cdef bint has_prefix


cdef class RunWriter:
    cdef object commit_log, log, index, indexer, listens, takes_messages, appended
    cdef object segment, index_file  # of this run
    cdef list queues  # of this run
    cdef dict by_topic
    cdef readonly bint is_running
    cdef readonly Py_ssize_t count
    cdef int64_t run, base_offset, written, room, now_ms
    cdef Py_ssize_t keyed, keyed_max, body_bytes_max
    cdef Py_buffer log_view
    cdef Stored stored[RUN_MAX]
    cdef unsigned char pairs[KEYED_MAX * 12]

    cpdef bint begin(self) except -1
    cdef begin_at(self, segment, int64_t position)
    cdef RunQueue queue_of(self, tuple key)
    cdef bint add(self, RunQueue queue) except -1
    cdef bint is_usual(self, RunQueue queue) except -1
    cdef bint put(self, RunQueue queue, Record *record, Indexed *indexed) except -1
    cdef void note(self, RunQueue queue, int64_t size, Py_ssize_t keyed) noexcept
    cpdef undo(self, Py_ssize_t count)
    cpdef list finish(self)
    cdef end(self)

    cdef Py_ssize_t index_of(self, RunQueue queue, Indexed *indexed, int32_t *tags_code) noexcept
    cdef Py_ssize_t add_key(self, Py_ssize_t keyed, RunQueue queue, Bytes at, Bytes end) noexcept
    cdef add_pairs(self)
    cdef bytes add_entries(self, RunQueue queue)
