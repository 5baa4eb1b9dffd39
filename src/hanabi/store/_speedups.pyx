# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The functions of `store` that every message with keys needs, compiled. Optional: see `hanabi.wire._speedups`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from zlib import crc32

cdef extern from "Python.h":
    enum:
        PyUnicode_1BYTE_KIND
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


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


cdef enum:
    RUN_MAX = 1024  # records of one run
    MANY_SLICES = 4
    SHORT_SLICE_BYTES = 4096


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
    cdef const unsigned char *entry = <const unsigned char *> PyBytes_AS_STRING(entries)
    cdef const unsigned char *entries_end = entry + PyBytes_GET_SIZE(entries)
    cdef const unsigned char *record
    cdef int64_t log_offset = 0, position, offset = first_offset, store_ms = 0
    cdef int64_t starts[RUN_MAX]
    cdef int64_t ends[RUN_MAX]
    cdef int32_t size, body_bytes
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic), count = 0, total = 0, runs = 0, run
    cdef uint32_t magic
    cdef char *into
    if count_max > RUN_MAX:
        count_max = RUN_MAX
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while entry + 20 <= entries_end and count < count_max:
            size = <int32_t> get_32(entry + 8)
            if count and total + size > bytes_max:
                break
            log_offset = get_64(entry)
            position = log_offset - base
            if log_offset < log_offset_min or position < 0 or size < 88 or position + size > buffer.len:
                return None
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
                return None
            body_bytes = <int32_t> get_32(record + 84)
            if (
                body_bytes < 0
                or 88 + <int64_t> body_bytes + topic_bytes > size
                or memcmp(record + 88 + body_bytes, PyBytes_AS_STRING(topic), topic_bytes)
            ):
                return None
            if runs and ends[runs - 1] == position:
                ends[runs - 1] = position + size
            else:
                starts[runs], ends[runs] = position, position + size
                runs += 1
            store_ms = get_64(record + 56)
            total += size
            count += 1
            offset += 1
            entry += 20
        if not count:
            return None
        # To hand 32 pieces of 1 KiB to the socket one by one takes longer than to copy them.
        if runs >= MANY_SLICES and total <= SHORT_SLICE_BYTES * runs:
            joined = PyBytes_FromStringAndSize(NULL, total)
            into = PyBytes_AS_STRING(joined)
            for run in range(runs):
                memcpy(into, <char *> buffer.buf + starts[run], ends[run] - starts[run])
                into += ends[run] - starts[run]
            slices = [joined]
        else:
            slices = [view[starts[run] : ends[run]] for run in range(runs)]
    finally:
        PyBuffer_Release(&buffer)
    return slices, count, total, log_offset, store_ms


# The put of a plain message. Everything it needs is where `MessageStore.put` has it, in the same Python objects.

cdef enum:
    HEAD_BYTES = 88  # of a record with two IPv4 hosts
    BLANK_BYTES = 8  # remain behind every record
    TOPIC_BYTES_MAX = 127
    PROPERTIES_BYTES_MAX = 32767
    PARTS_MAX = 256
    HASHES_MAX = 1024
    TAIL_BYTES = 4080
    PLAIN_FLAGS = 0x0703  # compressed, several tags, how it is compressed

cdef uint32_t MAGIC = 0xDAA320A7
cdef str SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


cdef inline void put_64(unsigned char *at, uint64_t value) noexcept:
    put_32(at, <uint32_t> (value >> 32))
    put_32(at + 4, <uint32_t> value)


cdef inline uint32_t java_hash(uint32_t code, const unsigned char *at, const unsigned char *end) noexcept:
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


cdef inline bint is_ascii(const unsigned char *at, const unsigned char *end) noexcept:
    while at < end:
        if at[0] & 0x80:
            return False
        at += 1
    return True


cdef struct Part:  # a message that is about to be stored
    const unsigned char *body
    Py_ssize_t body_bytes
    const unsigned char *properties
    Py_ssize_t properties_bytes
    int32_t flag
    int32_t tags_code
    Py_ssize_t hashes  # up to here in the hashes of all


cdef class PlainPuts:
    """Puts of messages that need no second look: `put` does what `MessageStore.put` and `put_batch` do, or nothing.

    What is unusual in any way (a new queue, a full file, an extension, a delay, a key that is not ASCII...) is not for
    here: `put` returns None before anything is changed, and the readable way takes over.
    """

    cdef object store, commit_log, log, indexer, index, retention, flusher, clock, dispatched
    cdef dict topics
    cdef Part parts[PARTS_MAX]
    cdef uint32_t hashes[HASHES_MAX]

    def __init__(self, store, dispatched):
        """*dispatched* makes what `on_append` gets."""
        self.store, self.dispatched = store, dispatched
        self.commit_log, self.log = store._commit_log, store._commit_log.log
        self.indexer, self.index = store._indexer, store._index
        self.topics, self.clock = store._queues._topics, store._commit_log._now_ms
        self.retention, self.flusher = store.retention, store._log_flusher

    def put(
        self,
        str topic not None,
        queue_id,
        bytes frame not None,
        list messages not None,
        int64_t born_ms,
        bytes born_host not None,
        bytes store_host not None,
        int32_t sys_flag,
        int32_t reconsumed,
    ):
        """Store *messages*, which are (body at, body bytes, flag, properties) with bodies in *frame*: the first one's
        queue offset, how many bytes they are, and the log offset of each; or None."""
        store, indexer, log, commit_log = self.store, self.indexer, self.log, self.commit_log
        if store._closed or self.retention.refuses or indexer.failure is not None or indexer.unindexed:
            return None
        cdef dict queues = self.topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        segment = log.active
        if queue is None or segment is None or log.failure is not None or segment.buffer is not None:
            return None
        cdef Py_ssize_t topic_bytes
        cdef const char *topic_at = PyUnicode_AsUTF8AndSize(topic, &topic_bytes)
        cdef int64_t written = segment.written, log_offset = segment.base_offset + written
        place = (topic, queue_id)
        queue_offsets = commit_log._queue_offsets
        cdef int64_t queue_offset = queue_offsets.get(place, 0)
        if (
            not 0 < topic_bytes <= TOPIC_BYTES_MAX
            or PyBytes_GET_SIZE(born_host) != 8
            or PyBytes_GET_SIZE(store_host) != 8
            or sys_flag & ~PLAIN_FLAGS
            or queue.ext is not None
            or topic == SCHEDULE_TOPIC
            or queue_offset != <int64_t> queue.max_offset
            or log_offset < <int64_t> queue.max_log_offset
        ):
            return None
        file, prefix = None, None
        if self.index is not None:
            file, prefix = self.index._growing, self.index._prefixes.get(topic)
        cdef Py_ssize_t count = self.prepare(frame, messages, commit_log.message_bytes_max, file, prefix)
        if count <= 0:
            return None
        cdef Part *part = self.parts
        cdef Py_ssize_t index
        cdef int64_t total = 0
        for index in range(count):
            total += HEAD_BYTES + part[index].body_bytes + 3 + topic_bytes + part[index].properties_bytes
        if written + total + BLANK_BYTES > <int64_t> segment.size or written + total > <int64_t> log.prepare_at:
            return None
        cdef Py_ssize_t hashes = part[count - 1].hashes, entry = 0
        if hashes:
            entry = file.next_entry
            if log_offset <= <int64_t> file.end_log_offset or entry + hashes > <Py_ssize_t> file.entries_max:
                return None

        cdef int64_t now_ms = self.clock()
        cdef int64_t newest_ms = commit_log.store_timestamp_ms
        if now_ms < newest_ms:
            now_ms = newest_ms
        cdef Py_buffer view
        cdef unsigned char *record
        cdef int64_t at = log_offset, size
        cdef list offsets = []
        packed = PyBytes_FromStringAndSize(NULL, 20 * count)  # the entries in the queue
        cdef unsigned char *packed_at = <unsigned char *> PyBytes_AS_STRING(packed)
        PyObject_GetBuffer(segment._map, &view, PyBUF_WRITABLE)
        try:
            for index in range(count):
                part = self.parts + index
                record = <unsigned char *> view.buf + written + (at - log_offset)
                size = HEAD_BYTES + part.body_bytes + 3 + topic_bytes + part.properties_bytes
                put_32(record, <uint32_t> size)
                put_32(record + 4, MAGIC)
                put_32(record + 8, checksum(part.body, part.body_bytes))
                put_32(record + 12, <uint32_t> <int32_t> queue_id)
                put_32(record + 16, <uint32_t> part.flag)
                put_64(record + 20, <uint64_t> (queue_offset + index))
                put_64(record + 28, <uint64_t> at)
                put_32(record + 36, <uint32_t> sys_flag)
                put_64(record + 40, <uint64_t> born_ms)
                memcpy(record + 48, PyBytes_AS_STRING(born_host), 8)
                put_64(record + 56, <uint64_t> now_ms)
                memcpy(record + 64, PyBytes_AS_STRING(store_host), 8)
                put_32(record + 72, <uint32_t> reconsumed)
                put_64(record + 76, 0)
                put_32(record + 84, <uint32_t> part.body_bytes)
                record += HEAD_BYTES
                memcpy(record, part.body, part.body_bytes)
                record += part.body_bytes
                record[0] = <unsigned char> topic_bytes
                memcpy(record + 1, topic_at, topic_bytes)
                record += 1 + topic_bytes
                record[0] = <unsigned char> (part.properties_bytes >> 8)
                record[1] = <unsigned char> (part.properties_bytes & 0xFF)
                memcpy(record + 2, part.properties, part.properties_bytes)
                put_64(packed_at, <uint64_t> at)
                put_32(packed_at + 8, <uint32_t> size)
                put_64(packed_at + 12, <uint64_t> <int64_t> part.tags_code)
                packed_at += 20
                offsets.append(at)
                at += size
        finally:
            PyBuffer_Release(&view)
        segment.written = written + total
        queue_offsets[place] = queue_offset + count
        commit_log.store_timestamp_ms = now_ms
        add_entries(queue, packed, queue_offset + count, at)
        indexer.dispatched_ms = now_ms
        if hashes:
            link_plain(file, entry, self.parts, count, self.hashes, offsets, now_ms)
        if indexer._on_append is not None:
            tell(indexer._on_append, self.dispatched, topic, queue_id, queue_offset, messages, offsets, at, self.parts, now_ms)
        self.flusher.appended()
        return queue_offset, total, offsets

    cdef Py_ssize_t prepare(self, bytes frame, list messages, Py_ssize_t body_bytes_max, file, prefix) except -1:
        """What of *messages* is stored and indexed, in `parts` and `hashes`: how many they are; 0: not for us."""
        cdef Py_ssize_t count = 0, hashed = 0, total = 0, body_at
        cdef Part *part
        if len(messages) > PARTS_MAX:
            return 0
        for message in messages:
            part = self.parts + count
            body_at, part.body_bytes, part.flag, properties = <tuple> message
            if body_at < 0 or part.body_bytes < 0 or body_at + part.body_bytes > PyBytes_GET_SIZE(frame):
                return 0
            part.body = <const unsigned char *> PyBytes_AS_STRING(frame) + body_at
            part.properties = <const unsigned char *> PyBytes_AS_STRING(properties)
            part.properties_bytes = PyBytes_GET_SIZE(properties)
            total += part.body_bytes
            if (
                total > body_bytes_max
                or part.properties_bytes > PROPERTIES_BYTES_MAX
                or (part.properties_bytes and part.properties[part.properties_bytes - 1] == 0)
            ):
                return 0
            hashed = self.index_part(part, hashed, file, prefix)
            if hashed < 0:
                return 0
            part.hashes = hashed
            count += 1
        return count

    cdef Py_ssize_t index_part(self, Part *part, Py_ssize_t hashed, file, prefix) except -2:
        """Find the tags and hash the keys of one message; how many hashes there are then, or -1."""
        cdef const unsigned char *at = part.properties
        cdef const unsigned char *end = at + part.properties_bytes
        cdef const unsigned char *pair_end
        cdef const unsigned char *value
        cdef const unsigned char *keys = NULL
        cdef const unsigned char *keys_end = NULL
        cdef const unsigned char *unique = NULL
        cdef const unsigned char *unique_end = NULL
        cdef uint32_t start
        part.tags_code = 0
        while at < end:
            pair_end = <const unsigned char *> memchr(at, 2, end - at)
            if pair_end == NULL:
                pair_end = end
            value = <const unsigned char *> memchr(at, 1, pair_end - at)
            if value != NULL and value + 1 < pair_end:
                value += 1
                if value - at == 5 and not memcmp(at, b"TAGS", 4):
                    if not is_ascii(value, pair_end):
                        return -1
                    part.tags_code = <int32_t> java_hash(0, value, pair_end)
                elif value - at == 5 and not memcmp(at, b"KEYS", 4):
                    keys, keys_end = value, pair_end
                elif value - at == 9 and not memcmp(at, b"UNIQ_KEY", 8):
                    unique, unique_end = value, pair_end
            at = pair_end + 1
        if self.index is None or (unique == NULL and keys == NULL):
            return hashed
        if file is None or prefix is None or <Py_ssize_t> file.next_entry <= 1:
            return -1
        start = prefix
        if unique != NULL:
            if not is_ascii(unique, unique_end) or hashed == HASHES_MAX:
                return -1
            self.hashes[hashed] = positive(java_hash(start, unique, unique_end))
            hashed += 1
        if keys != NULL and not is_ascii(keys, keys_end):
            return -1
        while keys < keys_end:
            value = <const unsigned char *> memchr(keys, 32, keys_end - keys)
            if value == NULL:
                value = keys_end
            if value > keys:
                if hashed == HASHES_MAX:
                    return -1
                self.hashes[hashed] = positive(java_hash(start, keys, value))
                hashed += 1
            keys = value + 1
        return hashed


cdef inline uint32_t checksum(const unsigned char *body, Py_ssize_t size) except? 0:
    return <uint32_t> (crc32(PyBytes_FromStringAndSize(<const char *> body, size)) & 0x7FFFFFFF)


cdef add_entries(queue, bytes packed, int64_t next_offset, int64_t log_end):
    """As `ConsumeQueue.put` for each of the *packed* entries."""
    tail = queue._tail
    cdef Py_ssize_t before = len(tail), after = before + PyBytes_GET_SIZE(packed)
    tail += packed
    queue.max_offset = next_offset
    queue.max_log_offset = log_end
    # Looks at the tail after the append: another thread that empties it in between finds these entries, or we do.
    cdef Py_ssize_t now = len(tail)
    if before == 0 or now < after:
        queue.family.dirty.add(queue)
    if now // TAIL_BYTES > before // TAIL_BYTES:
        queue.write_full_tail()


cdef tell(on_append, dispatched, topic, queue_id, int64_t queue_offset, list messages, list offsets, int64_t end, Part *parts, int64_t now_ms):
    cdef Py_ssize_t index, count = len(offsets)
    cdef int64_t at, next_at
    for index in range(count):
        at = offsets[index]
        next_at = offsets[index + 1] if index + 1 < count else end
        on_append(
            dispatched(
                topic,
                queue_id,
                queue_offset + index,
                at,
                next_at - at,
                parts[index].tags_code,
                now_ms,
                (<tuple> messages[index])[3],
            )
        )


cdef link_plain(file, Py_ssize_t number, Part *parts, Py_ssize_t count, uint32_t *hashes, list offsets, int64_t store_ms):
    """As `IndexFile.put_all` for each message, for a file that is not empty."""
    cdef int64_t begin_ms = file.begin_ms, seconds = 0, log_offset = 0
    cdef int64_t slots = file.slots
    cdef Py_ssize_t used = file.slots_used, index, hash_at = 0, previous
    cdef Py_buffer view
    cdef unsigned char *base
    cdef unsigned char *slot
    cdef unsigned char *entry
    if 0 < begin_ms < store_ms:
        seconds = min((store_ms - begin_ms) // 1000, 0x7FFFFFFF)
    PyObject_GetBuffer(file._map, &view, PyBUF_WRITABLE)
    base = <unsigned char *> view.buf
    for index in range(count):
        if hash_at < parts[index].hashes:
            log_offset = offsets[index]
        while hash_at < parts[index].hashes:
            slot = base + 40 + <int64_t> hashes[hash_at] % slots * 4
            entry = base + 40 + slots * 4 + number * 20
            previous = <int32_t> get_32(slot)
            if not 0 < previous < number:
                previous = 0
                used += 1
            put_32(entry, hashes[hash_at])
            put_64(entry + 4, <uint64_t> log_offset)
            put_32(entry + 12, <uint32_t> seconds)
            put_32(entry + 16, <uint32_t> previous)
            put_32(slot, <uint32_t> number)
            number += 1
            hash_at += 1
    put_64(base + 8, <uint64_t> store_ms)
    put_64(base + 24, <uint64_t> log_offset)
    put_32(base + 32, <uint32_t> used)
    put_32(base + 36, <uint32_t> number)
    PyBuffer_Release(&view)
    file.slots_used = used
    file.is_synced = False
    file.next_entry = number
    file.end_log_offset = log_offset
    file.end_ms = store_ms
