# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""Batched append of ordinary messages, compiled: a run writes the records that as many `MessageStore.put` would write.

    begin ─> put messages, perhaps undo the last ones ... ─> finish

The records go straight into the mapped log. Everything else of the store is read when a run begins and changed when it
ends, see `StoreSide`; no other thread and no callback runs in between. A message that is unusual in any way (a full file,
a key that is not ASCII, a long run of zeros...) is declined before anything is changed.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memset

from hanabi.wire._bytes cimport Bytes, Text, is_ascii, put_32, put_64
from hanabi.wire.message._record cimport TOPIC_BYTES_MAX, Indexed, Record, find_indexed, record_bytes, write_record

from hanabi.store.fast_path.store_side import notify_listener
from hanabi.store.queues.queue_files import TAIL_BYTES
from hanabi.wire.message.crc import crc32
from hanabi.wire.message.record import topic_field
from hanabi.wire.system_names import SCHEDULE_TOPIC

cdef enum:
    PROPERTIES_BYTES_MAX = 32758  # larger ones, and long runs of zeros, need `torn_writes`
    ZERO_RUN_BYTES = 512
    PLAIN_FLAGS = 0x0703  # compressed, several tags, how it is compressed
    PAIR_BYTES = 12
    BLANK_BYTES_MIN = 8  # remain behind every record

cdef Py_ssize_t TAIL_SIZE = TAIL_BYTES


cdef inline uint32_t java_hash(uint32_t code, Bytes at, Bytes end) noexcept:
    while at < end:
        code = code * 31 + at[0]
        at += 1
    return code


cdef inline uint32_t positive(uint32_t code) noexcept:
    """Java's Math.abs, and 0 for the one number that has no positive."""
    if code > 0x7FFFFFFF:
        code = 0 - code
        if code > 0x7FFFFFFF:
            return 0
    return code


cdef class RunQueue:
    """A queue that messages are put into. Its offsets, `size` and `frames` are those of the last run that used it."""

    def __init__(self, str topic not None, int32_t queue_id):
        self.topic, self.queue_id, self.topic_field = topic, queue_id, topic_field(topic.encode())
        self.key = (topic, queue_id)
        self.run = self.size = self.frames = 0
        self.all_messages = self.all_bytes = self.all_frames = 0
        self.has_prefix = False


cdef class RunWriter:
    """Runs of appends to one store."""

    def __init__(self, store):
        """*store* is a `StoreSide`."""
        self.commit_log, self.log, self.by_topic = store.commit_log, store.commit_log.log, store.queues.by_topic
        self.index, self.indexer, self.listens = store.index, store.indexer, store.indexer.listens
        self.takes_messages, self.appended = store.takes_messages, store.appended
        self.queues, self.run, self.is_running = [], 0, False

    cpdef bint begin(self) except -1:
        """Begin a run; return False if the store does not take messages as usual."""
        segment, commit_log = self.log.active, self.commit_log
        if segment is None or self.log.failure is not None or not self.takes_messages():
            return False
        self.room = min(<int64_t> segment.size - BLANK_BYTES_MIN, <int64_t> segment.allocated)
        self.body_bytes_max = commit_log.message_bytes_max
        self.now_ms = max(<int64_t> commit_log.now_ms(), <int64_t> commit_log.store_timestamp_ms)
        self.begin_at(segment, segment.written)
        return True

    cdef begin_at(self, segment, int64_t position):
        """Begin a run whose first record lies at *position* of *segment*."""
        self.segment, self.index_file = segment, None
        self.written, self.base_offset = position, segment.base_offset
        self.keyed_max = -1  # there is no index
        if self.index is not None:
            file = self.index.growing
            self.keyed_max = 0
            if file is not None and self.base_offset + self.written > <int64_t> file.end_log_offset:
                self.index_file = file
                self.keyed_max = <Py_ssize_t> file.allocated_entries - <Py_ssize_t> file.next_entry
        PyObject_GetBuffer(segment.map, &self.log_view, PyBUF_WRITABLE)
        self.queues = []
        self.count = self.keyed = 0
        self.run += 1
        self.is_running = True

    cdef RunQueue queue_of(self, tuple key):
        """The queue of this topic and queue id, the one of this run if it has it."""
        cdef RunQueue queue
        for queue in self.queues:
            if queue.key == key:
                return queue
        return RunQueue(*key)

    cdef bint add(self, RunQueue queue) except -1:
        """Make *queue* part of the run; return False if it is not as usual."""
        if queue.run == self.run:
            return queue.queue is not None
        queue.run, queue.queue, queue.index = self.run, None, <int32_t> len(self.queues)
        cdef dict queues = self.by_topic.get(queue.topic)
        found = queues.get(queue.queue_id) if queues is not None else None
        if found is None or found.ext is not None or queue.topic == SCHEDULE_TOPIC:
            return False
        if not 0 < PyBytes_GET_SIZE(queue.topic_field) - 1 <= TOPIC_BYTES_MAX:
            return False
        queue.first_offset = queue.next_offset = found.max_offset
        if self.base_offset + self.written < <int64_t> found.max_log_offset or not self.is_usual(queue):
            return False
        if self.index is not None and not queue.has_prefix:
            queue.prefix, queue.has_prefix = self.index.prefix_of(queue.topic), True
        queue.queue = found
        queue.size = queue.frames = 0
        self.queues.append(queue)
        return True

    cdef bint is_usual(self, RunQueue queue) except -1:
        """Whether the log and the queue agree about its next offset."""
        return queue.next_offset == <int64_t> self.commit_log.queue_offsets.get(queue.key, 0)

    def append(self, message):
        """Put a `PendingMessage`; return False if it is declined. For Python callers."""
        cdef Record record
        cdef Indexed indexed
        cdef RunQueue queue = self.queue_of((message.topic, message.queue_id))
        cdef bytes body = bytes(message.body), properties = message.properties
        cdef bytes born_host = message.born_host, store_host = message.store_host
        if len(born_host) != 8 or len(store_host) != 8 or not properties.isascii() or not self.add(queue):
            return False
        record.body, record.body_bytes = <Bytes> PyBytes_AS_STRING(body), len(body)
        record.properties, record.properties_bytes = <Bytes> PyBytes_AS_STRING(properties), len(properties)
        record.flag, record.sys_flag, record.reconsumed = message.flag, message.sys_flag, message.reconsume_times
        record.born_ms = message.born_timestamp_ms
        record.born_host, record.store_host = <Bytes> PyBytes_AS_STRING(born_host), <Bytes> PyBytes_AS_STRING(store_host)
        find_indexed(record.properties, record.properties + record.properties_bytes, &indexed)
        return self.put(queue, &record, &indexed)

    cdef bint put(self, RunQueue queue, Record *record, Indexed *indexed) except -1:
        """Write one more record of the run, whose place and time are still to come; return False if it is declined. What
        was put before it stays."""
        cdef Stored *stored = self.stored + self.count
        cdef Py_ssize_t keyed
        record.topic = <Bytes> PyBytes_AS_STRING(queue.topic_field)
        record.topic_bytes = PyBytes_GET_SIZE(queue.topic_field)
        cdef int64_t size = record_bytes(record)
        if (
            self.count == RUN_MAX
            or record.sys_flag & ~PLAIN_FLAGS
            or record.body_bytes > self.body_bytes_max
            or record.properties_bytes > PROPERTIES_BYTES_MAX
            or (record.properties_bytes and record.properties[record.properties_bytes - 1] == 0)
            or (
                record.properties_bytes >= ZERO_RUN_BYTES
                and memchr(record.properties, 0, record.properties_bytes) != NULL
            )
            or self.written + size > self.room
        ):
            return False
        keyed = self.index_of(queue, indexed, &stored.tags_code)
        if keyed < 0:
            return False
        record.queue_id, record.queue_offset, record.log_offset = queue.queue_id, queue.next_offset, self.base_offset + self.written
        record.crc, record.store_ms, record.prepared_offset = checksum(record.body, record.body_bytes), self.now_ms, 0
        write_record(<unsigned char *> self.log_view.buf + self.written, record)
        self.note(queue, size, keyed)
        return True

    cdef void note(self, RunQueue queue, int64_t size, Py_ssize_t keyed) noexcept:
        """Count the record at the end of the run. Its tags code is noted already; *keyed* is as `index_of` returned it."""
        cdef Stored *stored = self.stored + self.count
        stored.log_offset, stored.size = self.base_offset + self.written, <int32_t> size
        stored.queue, stored.keyed = queue.index, keyed
        self.keyed = keyed
        self.written += size
        self.count += 1
        queue.next_offset += 1
        queue.size += size

    cdef Py_ssize_t index_of(self, RunQueue queue, Indexed *indexed, int32_t *tags_code) noexcept:
        """Hash the tags and keys of a message; return how many index entries the run has then, or -1."""
        cdef Text tags = indexed.tags, unique = indexed.unique_key
        cdef Bytes at = indexed.keys.at
        cdef Bytes keys_end = at + indexed.keys.size if at != NULL else NULL
        cdef Bytes end
        cdef Py_ssize_t keyed = self.keyed
        tags_code[0] = 0
        if tags.at != NULL:
            if not is_ascii(tags.at, tags.size):
                return -1
            tags_code[0] = <int32_t> java_hash(0, tags.at, tags.at + tags.size)
        if self.keyed_max < 0:  # there is no index
            return keyed
        if unique.at != NULL:
            keyed = self.add_key(keyed, queue, unique.at, unique.at + unique.size)
        while keyed >= 0 and at < keys_end:
            end = <Bytes> memchr(at, 32, keys_end - at)
            if end == NULL:
                end = keys_end
            if end > at:
                keyed = self.add_key(keyed, queue, at, end)
            at = end + 1
        return keyed

    cdef Py_ssize_t add_key(self, Py_ssize_t keyed, RunQueue queue, Bytes at, Bytes end) noexcept:
        """Add the hash of a key and the log offset of the next record to the pairs; return how many there are, or -1."""
        cdef unsigned char *pair = self.pairs + keyed * PAIR_BYTES
        if keyed == KEYED_MAX or keyed == self.keyed_max or not is_ascii(at, end - at):
            return -1
        put_32(pair, positive(java_hash(queue.prefix, at, end)))
        put_64(pair + 4, <uint64_t> (self.base_offset + self.written))
        return keyed + 1

    cpdef undo(self, Py_ssize_t count):
        """Undo all but the first *count* records, in the file too: after a kill they must not be found."""
        cdef RunQueue queue
        cdef int64_t end = self.written
        while self.count > count:
            self.count -= 1
            queue = <RunQueue> self.queues[self.stored[self.count].queue]
            queue.next_offset -= 1
            queue.size -= self.stored[self.count].size
            self.written -= self.stored[self.count].size
        self.keyed = self.stored[count - 1].keyed if count else 0
        memset(<unsigned char *> self.log_view.buf + self.written, 0, end - self.written)

    cpdef list finish(self):
        """Finish the run: all that was put can be read from now on. Return what was stored, by queue: the topic, how many
        messages, their bytes, the queue id, and how many frames brought them."""
        cdef RunQueue queue
        self.end()
        return [
            (queue.topic, queue.next_offset - queue.first_offset, queue.size, queue.queue_id, queue.frames)
            for queue in self.queues
            if queue.next_offset > queue.first_offset
        ]

    cdef end(self):
        """Do as `finish`. The queues of the run say what was stored."""
        if not self.is_running:
            self.queues = []
            return
        self.is_running = False
        PyBuffer_Release(&self.log_view)
        if not self.count:
            return
        cdef RunQueue queue
        cdef list listened = []
        offsets, indexer = self.commit_log.queue_offsets, self.indexer
        self.segment.written = self.written
        self.commit_log.store_timestamp_ms = self.now_ms  # after the bytes: a flush that reads this has flushed them
        for queue in self.queues:
            if queue.next_offset > queue.first_offset:
                entries = self.add_entries(queue)
                offsets[queue.key] = queue.next_offset
                if self.listens(queue.topic, queue.queue_id):
                    listened.append((queue.queue, entries))
        indexer.dispatched_ms = self.now_ms
        self.add_pairs()
        for found, entries in listened:
            notify_listener(indexer, self.segment, found, entries, self.now_ms)
        self.appended(self.base_offset + self.written)

    cdef add_pairs(self):
        """Add the index entries of the run to the index."""
        if self.keyed:
            pairs = PyBytes_FromStringAndSize(<char *> self.pairs, self.keyed * PAIR_BYTES)
            self.index_file.put_pairs(pairs, self.now_ms)

    cdef bytes add_entries(self, RunQueue queue):
        """Add the entries of its new messages to the store's queue, as `ConsumeQueue.put` does; return them."""
        entries = PyBytes_FromStringAndSize(NULL, 20 * (queue.next_offset - queue.first_offset))
        cdef unsigned char *into = <unsigned char *> PyBytes_AS_STRING(entries)
        cdef Stored *stored = self.stored
        cdef Py_ssize_t index, before, now
        cdef int64_t log_end = 0
        for index in range(self.count):
            if stored.queue == queue.index:
                put_64(into, <uint64_t> stored.log_offset)
                put_32(into + 8, <uint32_t> stored.size)
                put_64(into + 12, <uint64_t> <int64_t> stored.tags_code)
                into += 20
                log_end = stored.log_offset + stored.size
            stored += 1
        found = queue.queue
        tail = found.tail
        before = len(tail)
        tail += entries
        found.max_offset, found.max_log_offset = queue.next_offset, log_end
        now = len(tail)
        if before == 0 or now < before + PyBytes_GET_SIZE(entries):
            found.family.dirty.add(found)
        if now // TAIL_SIZE > before // TAIL_SIZE:
            found.write_full_tail()
        return entries


cdef inline uint32_t checksum(Bytes body, Py_ssize_t size) except? 0:
    return <uint32_t> (crc32(PyBytes_FromStringAndSize(<const char *> body, size)) & 0x7FFFFFFF)
