# cython: language_level=3
"""What the broker's compiled functions see of the store's: see `_speedups.pyx`."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint32_t

from hanabi.wire._bytes cimport Bytes

cdef enum:
    RUN_MAX = 512  # records of one run of puts
    HASHES_MAX = 2048


cdef enum:
    READ_MAX = 1024  # records of one read


cdef struct Run:  # records in one file of the log; those that touch are one piece
    Py_ssize_t count, total, pieces
    int64_t last_log_offset, last_store_ms
    int64_t starts[READ_MAX]
    int64_t ends[READ_MAX]


cdef bint find_run(
    Bytes log,
    Py_ssize_t log_bytes,
    int64_t base,
    Bytes entry,
    Py_ssize_t entries_bytes,
    Bytes topic,
    Py_ssize_t topic_bytes,
    int64_t queue_id,
    int64_t offset,
    int64_t log_offset_min,
    Py_ssize_t count_max,
    Py_ssize_t bytes_max,
    Run *run,
) noexcept
cdef void copy_run(Bytes log, Run *run, char *into) noexcept


cdef struct Stored:  # a record of a run
    int64_t log_offset
    int32_t size
    int32_t tags_code
    int32_t place  # its number among the places of the run
    int32_t properties_bytes
    Py_ssize_t hashes  # up to here in the hashes of all


cdef struct Message:  # what is to be stored, and not yet known to the store
    Bytes body
    Py_ssize_t body_bytes
    Bytes properties
    Py_ssize_t properties_bytes
    int32_t flag
    int32_t sys_flag
    int32_t reconsumed
    int64_t born_ms
    Bytes born_host  # 8 bytes, as the next
    Bytes store_host


cdef class Place:
    cdef readonly str topic
    cdef readonly object queue_id
    cdef object key, queue
    cdef int32_t number, index
    cdef int64_t run, first_offset, next_offset, bytes, times
    cdef uint32_t prefix
    cdef bint has_prefix


cdef class PlainPuts:
    cdef object store, commit_log, log, indexer, key_index, retention, flusher, ahead, clock, dispatched, listens
    cdef dict topics
    cdef object segment, index_file
    cdef list places  # of this run
    cdef bint is_running
    cdef int64_t run, base_offset, written, room, now_ms
    cdef Py_ssize_t count, hashed, body_bytes_max, entries_left
    cdef Py_buffer log_view
    cdef Stored stored[RUN_MAX]
    cdef uint32_t hashes[HASHES_MAX]

    cdef bint begin(self) except -1
    cdef bint add(self, Place place) except -1
    cdef bint put(self, Place place, Message *message) except -1
    cdef back_to(self, Py_ssize_t count)
    cdef finish(self)

    cdef Py_ssize_t index_of(self, Place place, Message *message, int32_t *tags_code) except -2
    cdef add_entries(self, Place place)
    cdef link(self)
    cdef tell(self, Place place)
