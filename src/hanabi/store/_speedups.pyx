# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The functions of `store` that every message with keys needs, compiled. Optional: see `hanabi.wire._speedups`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from hanabi.wire._bytes cimport Bytes, get_32, get_64, is_ascii, put_32, put_64

from hanabi.wire.crc import crc32

cdef extern from "Python.h":
    enum:
        PyUnicode_1BYTE_KIND
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    CHUNK_BITS = 16  # as `hanabi.store.index_file.CHUNK_BITS`


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
    """Go back along a chain of the key index; see `hanabi.store.index_file.follow_chain`."""
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


cdef enum:
    MANY_SLICES = 4
    SHORT_SLICE_BYTES = 4096


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
) noexcept:
    """As `hanabi.store.plain_run`: where the records of entries are. False: one of them needs a second look."""
    cdef Bytes entries_end = entry + entries_bytes
    cdef Bytes record
    cdef int64_t log_offset, position
    cdef int32_t size, body_bytes
    cdef uint32_t magic
    run.count = run.total = run.pieces = 0
    if count_max > READ_MAX:
        count_max = READ_MAX
    while entry + 20 <= entries_end and run.count < count_max:
        size = <int32_t> get_32(entry + 8)
        if run.count and run.total + size > bytes_max:
            break
        log_offset = get_64(entry)
        position = log_offset - base
        if log_offset < log_offset_min or position < 0 or size < 88 or position + size > log_bytes:
            return False
        record = log + position
        magic = get_32(record + 4)
        if (
            <int32_t> get_32(record) != size
            or get_64(record + 28) != log_offset
            or get_64(record + 20) != offset
            or <int32_t> get_32(record + 12) != queue_id
            or (magic != 0xDAA320A7 and magic != 0xDAA320AB)
            or record[39] & 0x30
        ):
            return False
        body_bytes = <int32_t> get_32(record + 84)
        if (
            body_bytes < 0
            or 88 + <int64_t> body_bytes + topic_bytes > size
            or memcmp(record + 88 + body_bytes, topic, topic_bytes)
        ):
            return False
        if run.pieces and run.ends[run.pieces - 1] == position:
            run.ends[run.pieces - 1] = position + size
        else:
            run.starts[run.pieces], run.ends[run.pieces] = position, position + size
            run.pieces += 1
        run.last_log_offset, run.last_store_ms = log_offset, get_64(record + 56)
        run.total += size
        run.count += 1
        offset += 1
        entry += 20
    return run.count > 0


cdef void copy_run(Bytes log, Run *run, char *into) noexcept:
    """The records of *run*, one behind the other."""
    cdef Py_ssize_t piece
    for piece in range(run.pieces):
        memcpy(into, log + run.starts[piece], run.ends[piece] - run.starts[piece])
        into += run.ends[piece] - run.starts[piece]


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
    """The records of entries that need no second look; see `hanabi.store.plain_run`."""
    cdef Py_buffer buffer
    cdef Run run
    cdef Py_ssize_t piece
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if not find_run(
            <Bytes> buffer.buf,
            buffer.len,
            base,
            <Bytes> PyBytes_AS_STRING(entries),
            PyBytes_GET_SIZE(entries),
            <Bytes> PyBytes_AS_STRING(topic),
            PyBytes_GET_SIZE(topic),
            queue_id,
            first_offset,
            log_offset_min,
            count_max,
            bytes_max,
            &run,
        ):
            return None
        # To hand 32 pieces of 1 KiB to the socket one by one takes longer than to copy them.
        if run.pieces >= MANY_SLICES and run.total <= SHORT_SLICE_BYTES * run.pieces:
            joined = PyBytes_FromStringAndSize(NULL, run.total)
            copy_run(<Bytes> buffer.buf, &run, PyBytes_AS_STRING(joined))
            slices = [joined]
        else:
            slices = [view[run.starts[piece] : run.ends[piece]] for piece in range(run.pieces)]
    finally:
        PyBuffer_Release(&buffer)
    return slices, run.count, run.total, run.last_log_offset, run.last_store_ms


# The puts of plain messages. Everything they need is where `MessageStore.put` has it, in the same Python objects, which
# are read when a run begins and written when it ends: what a Python object costs is then shared by all that came in one
# read from a socket. Nothing else happens between the two: no other thread and no callback has a turn.

cdef enum:
    HEAD_BYTES = 88  # of a record with two IPv4 hosts
    BLANK_BYTES = 8  # remain behind every record
    TOPIC_BYTES_MAX = 127
    PROPERTIES_BYTES_MAX = 32758  # larger ones, and long runs of zeros, need `torn_writes`
    ZERO_RUN_BYTES = 512
    TAIL_BYTES = 4080
    PLAIN_FLAGS = 0x0703  # compressed, several tags, how it is compressed

cdef uint32_t MAGIC = 0xDAA320A7
cdef str SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


cdef inline uint32_t java_hash(uint32_t code, Bytes at, Bytes end) noexcept:
    while at < end:
        code = code * 31 + at[0]
        at += 1
    return code


cdef inline uint32_t positive(uint32_t code) noexcept:
    """As Java's Math.abs, and 0 for the one number that has no positive."""
    if code > 0x7FFFFFFF:
        code = 0 - code
        if code > 0x7FFFFFFF:
            return 0
    return code


cdef class Place:
    """A queue that is put into. What it knows of the queue is true from `PlainPuts.add` to the end of the run."""

    def __init__(self, str topic not None, queue_id):
        self.topic, self.queue_id, self.number = topic, queue_id, queue_id
        self.key = (topic, queue_id)
        self.run = 0


cdef class PlainPuts:
    """Puts of messages that need no second look: a run of them does what as many `MessageStore.put` would do.

        begin ─> add a place, put messages into it, perhaps take the last ones back ... ─> finish

    What is unusual in any way (a new queue, a full file, an extension, a delay, a key that is not ASCII...) is not for
    here: then nothing was changed, and the readable way takes over.
    """

    def __init__(self, store, dispatched):
        """*dispatched* makes what `on_append` gets."""
        self.store, self.dispatched = store, dispatched
        self.commit_log, self.log = store._commit_log, store._commit_log.log
        self.indexer, self.key_index = store._indexer, store._index
        self.topics, self.clock = store._queues._topics, store._commit_log._now_ms
        self.listens = store._indexer.listens
        self.retention, self.flusher, self.ahead = store.retention, store._log_flusher, store._work_ahead
        self.places, self.run, self.is_running = [], 0, False

    cdef bint begin(self) except -1:
        """A run begins. False: the store is not as it usually is, and there is none."""
        indexer, log, store = self.indexer, self.log, self.store
        if store._closed or self.retention.refuses or indexer.failure is not None or indexer.unindexed:
            return False
        segment = log.active
        if segment is None or log.failure is not None:
            return False
        self.segment, self.index_file = segment, None
        self.written = segment.written
        self.base_offset = segment.base_offset
        self.room = min(<int64_t> segment.size - BLANK_BYTES, <int64_t> segment.allocated)
        self.body_bytes_max = self.commit_log.message_bytes_max
        self.entries_left = 0
        if self.key_index is not None:
            file = self.key_index._growing
            if (
                file is not None
                and <Py_ssize_t> file.next_entry > 1
                and self.base_offset + self.written > <int64_t> file.end_log_offset
            ):
                self.index_file = file
                self.entries_left = <Py_ssize_t> file.allocated_entries - <Py_ssize_t> file.next_entry
        self.now_ms = max(<int64_t> self.clock(), <int64_t> self.commit_log.store_timestamp_ms)
        PyObject_GetBuffer(segment._map, &self.log_view, PyBUF_WRITABLE)
        self.places = []
        self.count = self.hashed = 0
        self.run += 1
        self.is_running = True
        return True

    cdef bint add(self, Place place) except -1:
        """Messages for *place* may follow. False: its queue is not as it usually is."""
        if place.run == self.run:
            return place.queue is not None
        place.run, place.queue, place.index, place.has_prefix = self.run, None, <int32_t> len(self.places), False
        cdef dict queues = self.topics.get(place.topic)
        queue = queues.get(place.queue_id) if queues is not None else None
        if queue is None or queue.ext is not None or place.topic == SCHEDULE_TOPIC:
            return False
        place.first_offset = place.next_offset = self.commit_log._queue_offsets.get(place.key, 0)
        if (
            place.next_offset != <int64_t> queue.max_offset
            or self.base_offset + self.written < <int64_t> queue.max_log_offset
        ):
            return False
        if self.key_index is not None:
            prefix = self.key_index._prefixes.get(place.topic)
            if prefix is not None:
                place.prefix, place.has_prefix = prefix, True
        place.bytes = place.times = 0
        place.queue = queue
        self.places.append(place)
        return True

    cdef bint put(self, Place place, Message *message) except -1:
        """One more record of the run. False: not for us; what was put before it stays."""
        cdef Py_ssize_t topic_bytes
        cdef const char *topic = PyUnicode_AsUTF8AndSize(place.topic, &topic_bytes)
        cdef int64_t size = HEAD_BYTES + message.body_bytes + 3 + topic_bytes + message.properties_bytes
        cdef Stored *stored = self.stored + self.count
        cdef Py_ssize_t hashed
        if (
            self.count == RUN_MAX
            or not 0 < topic_bytes <= TOPIC_BYTES_MAX
            or message.sys_flag & ~PLAIN_FLAGS
            or message.body_bytes > self.body_bytes_max
            or message.properties_bytes > PROPERTIES_BYTES_MAX
            or (message.properties_bytes and message.properties[message.properties_bytes - 1] == 0)
            or (
                message.properties_bytes >= ZERO_RUN_BYTES
                and memchr(message.properties, 0, message.properties_bytes) != NULL
            )
            or self.written + size > self.room
        ):
            return False
        hashed = self.index_of(place, message, &stored.tags_code)
        if hashed < 0:
            return False
        cdef unsigned char *record = <unsigned char *> self.log_view.buf + self.written
        put_32(record, <uint32_t> size)
        put_32(record + 4, MAGIC)
        put_32(record + 8, checksum(message.body, message.body_bytes))
        put_32(record + 12, <uint32_t> place.number)
        put_32(record + 16, <uint32_t> message.flag)
        put_64(record + 20, <uint64_t> place.next_offset)
        put_64(record + 28, <uint64_t> (self.base_offset + self.written))
        put_32(record + 36, <uint32_t> message.sys_flag)
        put_64(record + 40, <uint64_t> message.born_ms)
        memcpy(record + 48, message.born_host, 8)
        put_64(record + 56, <uint64_t> self.now_ms)
        memcpy(record + 64, message.store_host, 8)
        put_32(record + 72, <uint32_t> message.reconsumed)
        put_64(record + 76, 0)
        put_32(record + 84, <uint32_t> message.body_bytes)
        record += HEAD_BYTES
        memcpy(record, message.body, message.body_bytes)
        record += message.body_bytes
        record[0] = <unsigned char> topic_bytes
        memcpy(record + 1, topic, topic_bytes)
        record += 1 + topic_bytes
        record[0] = <unsigned char> (message.properties_bytes >> 8)
        record[1] = <unsigned char> (message.properties_bytes & 0xFF)
        memcpy(record + 2, message.properties, message.properties_bytes)
        stored.log_offset, stored.size = self.base_offset + self.written, <int32_t> size
        stored.place, stored.properties_bytes = place.index, <int32_t> message.properties_bytes
        stored.hashes = self.hashed = hashed
        self.written += size
        self.count += 1
        place.next_offset += 1
        place.bytes += size
        return True

    cdef Py_ssize_t index_of(self, Place place, Message *message, int32_t *tags_code) except -2:
        """Find the tags and hash the keys of a message; how many hashes the run has then, or -1."""
        cdef Bytes at = message.properties
        cdef Bytes end = at + message.properties_bytes
        cdef Bytes pair_end
        cdef Bytes value
        cdef Bytes keys = NULL
        cdef Bytes keys_end = NULL
        cdef Bytes unique = NULL
        cdef Bytes unique_end = NULL
        cdef Py_ssize_t hashed = self.hashed
        tags_code[0] = 0
        while at < end:
            pair_end = <Bytes> memchr(at, 2, end - at)
            if pair_end == NULL:
                pair_end = end
            value = <Bytes> memchr(at, 1, pair_end - at)
            if value != NULL and value + 1 < pair_end:
                value += 1
                if value - at == 5 and not memcmp(at, b"TAGS", 4):
                    if not is_ascii(value, pair_end - value):
                        return -1
                    tags_code[0] = <int32_t> java_hash(0, value, pair_end)
                elif value - at == 5 and not memcmp(at, b"KEYS", 4):
                    keys, keys_end = value, pair_end
                elif value - at == 9 and not memcmp(at, b"UNIQ_KEY", 8):
                    unique, unique_end = value, pair_end
            at = pair_end + 1
        if self.key_index is None or (unique == NULL and keys == NULL):
            return hashed
        if self.index_file is None or not place.has_prefix:
            return -1
        if unique != NULL:
            if not is_ascii(unique, unique_end - unique) or hashed == HASHES_MAX:
                return -1
            self.hashes[hashed] = positive(java_hash(place.prefix, unique, unique_end))
            hashed += 1
        if keys != NULL and not is_ascii(keys, keys_end - keys):
            return -1
        while keys < keys_end:
            value = <Bytes> memchr(keys, 32, keys_end - keys)
            if value == NULL:
                value = keys_end
            if value > keys:
                if hashed == HASHES_MAX:
                    return -1
                self.hashes[hashed] = positive(java_hash(place.prefix, keys, value))
                hashed += 1
            keys = value + 1
        return hashed if hashed <= self.entries_left else -1

    cdef back_to(self, Py_ssize_t count):
        """Take back what was put behind the first *count* records, in the file too: after a kill it must not be found."""
        cdef Place place
        cdef int64_t end = self.written
        while self.count > count:
            self.count -= 1
            place = <Place> self.places[self.stored[self.count].place]
            place.next_offset -= 1
            place.bytes -= self.stored[self.count].size
            self.written -= self.stored[self.count].size
        self.hashed = self.stored[count - 1].hashes if count else 0
        memset(<unsigned char *> self.log_view.buf + self.written, 0, end - self.written)

    cdef finish(self):
        """The run is over: all that was put can be read from now on. `places` says until the next run where it is."""
        if not self.is_running:
            return
        self.is_running = False
        PyBuffer_Release(&self.log_view)
        if not self.count:
            return
        commit_log, indexer = self.commit_log, self.indexer
        self.segment.written = self.written
        commit_log.store_timestamp_ms = self.now_ms
        cdef Place place
        for place in self.places:
            if place.next_offset > place.first_offset:
                commit_log._queue_offsets[place.key] = place.next_offset
                self.add_entries(place)
        indexer.dispatched_ms = self.now_ms
        if self.hashed:
            self.link()
        if indexer._on_append is not None:
            for place in self.places:
                if place.next_offset > place.first_offset and self.listens(place.topic, place.queue_id):
                    self.tell(place)
        self.flusher.appended()
        if self.base_offset + self.written > <int64_t> self.ahead.due_at:
            self.ahead.wake()

    cdef add_entries(self, Place place):
        """As `ConsumeQueue.put` for each record of *place*."""
        queue = place.queue
        tail = queue._tail
        packed = PyBytes_FromStringAndSize(NULL, 20 * (place.next_offset - place.first_offset))
        cdef unsigned char *into = <unsigned char *> PyBytes_AS_STRING(packed)
        cdef Stored *stored = self.stored
        cdef Py_ssize_t index, before = len(tail), after = before + PyBytes_GET_SIZE(packed)
        cdef int64_t log_end = 0
        for index in range(self.count):
            if stored.place == place.index:
                put_64(into, <uint64_t> stored.log_offset)
                put_32(into + 8, <uint32_t> stored.size)
                put_64(into + 12, <uint64_t> <int64_t> stored.tags_code)
                into += 20
                log_end = stored.log_offset + stored.size
            stored += 1
        tail += packed
        queue.max_offset = place.next_offset
        queue.max_log_offset = log_end
        # Looks at the tail after the append: another thread that empties it in between finds these entries, or we do.
        cdef Py_ssize_t now = len(tail)
        if before == 0 or now < after:
            queue.family.dirty.add(queue)
        if now // TAIL_BYTES > before // TAIL_BYTES:
            queue.write_full_tail()

    cdef link(self):
        """As `IndexFile.put_all` for each record with keys, for a file that is not empty."""
        file = self.index_file
        cdef int64_t begin_ms = file.begin_ms, seconds = 0, log_offset = 0, slots = file.slots
        cdef Py_ssize_t number = file.next_entry, used = file.slots_used, index, hash_at = 0, previous
        cdef Py_buffer view
        cdef unsigned char *base
        cdef unsigned char *slot
        cdef unsigned char *entry
        if 0 < begin_ms < self.now_ms:
            seconds = min((self.now_ms - begin_ms) // 1000, 0x7FFFFFFF)
        PyObject_GetBuffer(file._map, &view, PyBUF_WRITABLE)
        base = <unsigned char *> view.buf
        for index in range(self.count):
            if hash_at < self.stored[index].hashes:
                log_offset = self.stored[index].log_offset
            while hash_at < self.stored[index].hashes:
                slot = base + 40 + <int64_t> self.hashes[hash_at] % slots * 4
                entry = base + 40 + slots * 4 + number * 20
                previous = <int32_t> get_32(slot)
                if not 0 < previous < number:
                    previous = 0
                    used += 1
                put_32(entry, self.hashes[hash_at])
                put_64(entry + 4, <uint64_t> log_offset)
                put_32(entry + 12, <uint32_t> seconds)
                put_32(entry + 16, <uint32_t> previous)
                put_32(slot, <uint32_t> number)
                number += 1
                hash_at += 1
        put_64(base + 8, <uint64_t> self.now_ms)
        put_64(base + 24, <uint64_t> log_offset)
        put_32(base + 32, <uint32_t> used)
        put_32(base + 36, <uint32_t> number)
        PyBuffer_Release(&view)
        file.slots_used = used
        file.is_synced = False
        file.next_entry = number
        file.end_log_offset = log_offset
        file.end_ms = self.now_ms

    cdef tell(self, Place place):
        """As the end of `Indexer.appended` for each record of *place*."""
        cdef Py_ssize_t index
        cdef Stored *stored
        cdef int64_t offset = place.first_offset, end
        view = memoryview(self.segment._map)
        for index in range(self.count):
            stored = self.stored + index
            if stored.place != place.index:
                continue
            end = stored.log_offset + stored.size - self.base_offset
            self.indexer._on_append(
                self.dispatched(
                    place.topic,
                    place.queue_id,
                    offset,
                    stored.log_offset,
                    stored.size,
                    stored.tags_code,
                    self.now_ms,
                    bytes(view[end - stored.properties_bytes : end]),
                )
            )
            offset += 1


cdef inline uint32_t checksum(Bytes body, Py_ssize_t size) except? 0:
    return <uint32_t> (crc32(PyBytes_FromStringAndSize(<const char *> body, size)) & 0x7FFFFFFF)
