# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""Dispatch of copied records, compiled: a run of records that lie in the log already gets its queue and index entries.

`CopiedLog` has the readable form, for one record. A run does the same for all records up to the first unusual one: of a
new or listened queue, of a transaction or delay, damaged, with keys that are not ASCII, or with no room in the index file.
"""

from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp

from hanabi.store.fast_path._appends cimport RUN_MAX, RunQueue, RunWriter
from hanabi.wire._bytes cimport Bytes, get_32, is_ascii
from hanabi.wire.message._record cimport Indexed, Record, find_indexed, read_record

cdef enum:
    PREPARED = 0x4  # this bit is in both types that get no place in a queue
    TOPICS_MAX = 10_000


cdef class CopyRun(RunWriter):
    """Runs of records of one store."""

    cdef dict topics, queues_of_topic  # of all topics, and of the topic of the last record
    cdef bytes topic  # of the last record
    cdef int64_t begin_ms, seconds, queued_ms, latest_ms

    def __init__(self, store):
        """*store* is a `StoreSide`."""
        RunWriter.__init__(self, store)
        self.topics, self.queues_of_topic, self.topic = {}, {}, b""

    def dispatch(self, segment, int64_t start, int64_t end):
        """Dispatch the records of *segment* from *start* on; return where the first one begins that is not dispatched,
        *end* if all are. They end at *end*."""
        if self.indexer.unindexed:  # the index takes messages in the order of the log
            return start
        self.begin_at(segment, start)
        self.seconds, self.latest_ms = -1, self.commit_log.store_timestamp_ms
        if self.index_file is not None:
            self.begin_ms = self.index_file.begin_ms
            if <Py_ssize_t> self.index_file.next_entry == 1:  # the first entry sets the times of the file
                self.keyed_max = 0
        try:
            while self.written < end and self.take(end):
                pass
        finally:
            self.is_running = False
            PyBuffer_Release(&self.log_view)
        if self.count:
            self.store_entries()
        return self.written

    cdef bint is_usual(self, RunQueue queue) except -1:
        """Whether no one waits for messages of this queue."""
        return not self.listens(queue.topic, queue.queue_id)

    cdef bint take(self, int64_t end) except -1:
        """Dispatch one more record; return False if it is for another run, or unusual."""
        cdef Record record
        cdef Indexed indexed
        cdef Bytes at = <Bytes> self.log_view.buf + self.written
        if self.count == RUN_MAX or not read_record(at, end - self.written, &record) or record.sys_flag & PREPARED:
            return False
        cdef RunQueue queue = self.queue_of_record(&record)
        if queue is None or not self.add(queue):
            return False
        if record.queue_offset != queue.next_offset or record.log_offset != self.base_offset + self.written:
            return False
        find_indexed(record.properties, record.properties + record.properties_bytes, &indexed)
        cdef Py_ssize_t keyed = self.index_of(queue, &indexed, &self.stored[self.count].tags_code)
        if keyed < 0 or (keyed > self.keyed and not self.is_same_second(record.store_ms)):
            return False
        self.queued_ms, self.latest_ms = record.store_ms, max(self.latest_ms, record.store_ms)
        self.note(queue, <int32_t> get_32(at), keyed)
        return True

    cdef RunQueue queue_of_record(self, Record *record):
        """The queue of a record; None if its name is unusual."""
        cdef RunQueue queue
        if PyBytes_GET_SIZE(self.topic) != record.topic_bytes or memcmp(
            PyBytes_AS_STRING(self.topic), record.topic, record.topic_bytes
        ):
            if not is_ascii(record.topic, record.topic_bytes):
                return None
            self.use_topic(PyBytes_FromStringAndSize(<const char *> record.topic, record.topic_bytes))
        queue = self.queues_of_topic.get(record.queue_id)
        if queue is None:
            queue = RunQueue(self.topic.decode("ascii"), record.queue_id)
            if self.add(queue):
                self.queues_of_topic[record.queue_id] = queue
        return queue

    cdef use_topic(self, bytes topic):
        if len(self.topics) >= TOPICS_MAX:  # some may have been deleted long ago
            self.topics.clear()
        self.topic, self.queues_of_topic = topic, self.topics.setdefault(topic, {})

    cdef bint is_same_second(self, int64_t store_ms) noexcept:
        """Whether its index entries have the seconds of those before it: entries are added with one time for all."""
        cdef int64_t seconds = (store_ms - self.begin_ms) // 1000 if 0 < self.begin_ms < store_ms else 0
        if self.seconds >= 0 and seconds != self.seconds:
            return False
        self.seconds, self.now_ms = seconds, store_ms
        return True

    cdef store_entries(self):
        """Let readers find the records of the run."""
        cdef RunQueue queue
        for queue in self.queues:
            if queue.next_offset > queue.first_offset:
                self.add_entries(queue)
        self.indexer.dispatched_ms = self.queued_ms
        self.add_pairs()
        self.commit_log.store_timestamp_ms = self.latest_ms
