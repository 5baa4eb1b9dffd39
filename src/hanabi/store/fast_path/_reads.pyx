# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The records of a pull, compiled: found, checked and copied all at once, if each of them is where its entry says."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from hanabi.wire._bytes cimport Bytes, get_32, get_64
from hanabi.wire.message._record cimport HEAD_BYTES, HOSTS_V6, is_at

cdef enum:
    READ_MAX = 1024  # records of one read
    MANY_SLICES = 4  # see `QueueReader`
    SHORT_SLICE_BYTES = 4096


cdef class RecordRun:
    """Records of one queue in one file of the log, in order. Those that lie side by side are one piece."""

    cdef object view
    cdef readonly Py_ssize_t count, total
    cdef readonly int64_t last_log_offset, last_store_ms
    cdef Py_ssize_t pieces
    cdef int64_t starts[READ_MAX]
    cdef int64_t ends[READ_MAX]

    def find(
        self,
        view,
        int64_t base,
        bytes entries not None,
        Py_ssize_t entries_at,
        bytes topic not None,
        int32_t queue_id,
        int64_t offset,
        int64_t log_offset_min,
        Py_ssize_t count_max,
        Py_ssize_t bytes_max,
    ):
        """Find the records of the entries from byte *entries_at* on, as many as the limits allow; return False if one of
        them is not an ordinary record at its place, above *log_offset_min*. The first may exceed *bytes_max*.

        *view* is a log file that begins at *base*; *topic* is a `topic_field`; the first entry is that of *offset*.
        """
        cdef Py_buffer log
        if entries_at < 0:
            raise ValueError(f"entries from byte {entries_at} on")
        self.view = view
        self.count = self.total = self.pieces = 0
        PyObject_GetBuffer(view, &log, PyBUF_SIMPLE)
        try:
            return self.walk(&log, base, entries, entries_at, topic, queue_id, offset, log_offset_min,
                             min(count_max, READ_MAX), bytes_max)
        finally:
            PyBuffer_Release(&log)

    cdef bint walk(
        self, Py_buffer *log, int64_t base, bytes entries, Py_ssize_t entries_at, bytes topic, int32_t queue_id,
        int64_t offset, int64_t log_offset_min, Py_ssize_t count_max, Py_ssize_t bytes_max,
    ) noexcept:
        cdef Bytes entry = <Bytes> PyBytes_AS_STRING(entries) + entries_at
        cdef Bytes entries_end = <Bytes> PyBytes_AS_STRING(entries) + PyBytes_GET_SIZE(entries)
        cdef Bytes record
        cdef int64_t log_offset, position
        cdef int32_t size
        while entry + 20 <= entries_end and self.count < count_max:
            size = <int32_t> get_32(entry + 8)
            if self.count and self.total + size > bytes_max:
                break
            log_offset = get_64(entry)
            position = log_offset - base
            if log_offset < log_offset_min or position < 0 or size < HEAD_BYTES or position + size > log.len:
                return False
            record = <Bytes> log.buf + position
            if record[39] & HOSTS_V6 or not is_at(
                record, size, <Bytes> PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic), queue_id, offset, log_offset
            ):
                return False
            if self.pieces and self.ends[self.pieces - 1] == position:
                self.ends[self.pieces - 1] = position + size
            else:
                self.starts[self.pieces], self.ends[self.pieces] = position, position + size
                self.pieces += 1
            self.last_log_offset, self.last_store_ms = log_offset, get_64(record + 56)
            self.total += size
            self.count += 1
            offset += 1
            entry += 20
        return self.count > 0

    def slices(self):
        """The records as slices of the log; many short ones as one copy: to hand 32 pieces of 1 KiB to the socket one by
        one takes longer than to copy them."""
        cdef Py_ssize_t piece
        if self.pieces >= MANY_SLICES and self.total <= SHORT_SLICE_BYTES * self.pieces:
            return [self.behind(b"")]
        return [self.view[self.starts[piece] : self.ends[piece]] for piece in range(self.pieces)]

    def behind(self, bytes head not None):
        """The records behind *head*, in one piece."""
        cdef Py_buffer log
        cdef Py_ssize_t piece, size, head_bytes = PyBytes_GET_SIZE(head)
        whole = PyBytes_FromStringAndSize(NULL, head_bytes + self.total)
        cdef char *into = PyBytes_AS_STRING(whole)
        memcpy(into, PyBytes_AS_STRING(head), head_bytes)
        into += head_bytes
        PyObject_GetBuffer(self.view, &log, PyBUF_SIMPLE)
        for piece in range(self.pieces):
            size = self.ends[piece] - self.starts[piece]
            memcpy(into, <Bytes> log.buf + self.starts[piece], size)
            into += size
        PyBuffer_Release(&log)
        self.view = None  # it keeps the file mapped
        return whole
