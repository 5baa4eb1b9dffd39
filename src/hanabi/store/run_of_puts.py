"""The puts of messages that need no second look, many at a time: a run of them does what as many `MessageStore.put` do.

    begin ─> add a place, put messages into it, perhaps take the last ones back ... ─> finish

What all messages of a run share (the file, the time, where queues and index end) is read once, when it begins, and
written once, when it ends. Until then nothing is in any file: one write brings all records into the log, one more for
each queue its entries.

What is unusual in any way (a new queue, a full file, an extension, a delay, a key that is not ASCII...) is not for
here: then nothing was changed, and `MessageStore.put` takes over. `PlainPuts` in `_speedups` is the same, compiled;
both need to know what `MessageStore` keeps to itself.
"""

import struct
from typing import Final

from hanabi.store.consume_queue import ENTRY, ConsumeQueue
from hanabi.store.index_file import IndexFile
from hanabi.store.indexer import SCHEDULE_TOPIC, Dispatched
from hanabi.store.key_hash import key_hash_after
from hanabi.store.key_links import link_messages
from hanabi.store.message_store import MessageStore
from hanabi.store.segment import Segment
from hanabi.store.unique_key_hash import unique_key_hash
from hanabi.wire import sysflag
from hanabi.wire.crc import crc32
from hanabi.wire.properties import PROPERTIES_BYTES_MAX
from hanabi.wire.record import BLANK_BYTES_MIN, MAGIC, TOPIC_BYTES_MAX, record_properties
from hanabi.wire.tags import tags_code

_PIECES: Final = 5  # of a record: head, body, topic, length of properties, properties
_HEAD: Final = struct.Struct(">iIiiiqqiq24siqi")  # of a record with two IPv4 hosts: see `wire.record`
_HOSTS_AND_TIME: Final = struct.Struct(">8sq8s")  # the 24 bytes of it that are the same in a whole run
_HOST_BYTES: Final = 8
_PLACES_MAX: Final = 40_000
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
_FIXED_BYTES: Final = _HEAD.size + _PROPERTIES_LENGTH.size
_PLAIN_FLAGS: Final = sysflag.COMPRESSED | sysflag.MULTI_TAGS | 7 << 8  # and how it is compressed

# With the separators around them. Where one of them is empty, another one of that name would count: not for us.
_TAGS: Final = "\x02TAGS\x01"
_KEYS: Final = "\x02KEYS\x01"
_UNIQUE_KEY: Final = "\x02UNIQ_KEY\x01"

_pack_head, _pack_properties_length, _pack_entry = _HEAD.pack, _PROPERTIES_LENGTH.pack, ENTRY.pack


class Place:
    """A queue that is put into. What was put is that of the last run that had this place."""

    __slots__ = ("end", "entries", "key", "next_offset", "prefix", "put_bytes", "puts", "queue", "topic_field")

    def __init__(self, queue: ConsumeQueue) -> None:
        name = queue.topic.encode()
        self.queue, self.key = queue, (queue.topic, queue.queue_id)
        self.topic_field = len(name).to_bytes(2)[1:] + name  # as a record has it
        self.begin(0, None)

    def begin(self, next_offset: int, prefix: int | None) -> None:
        """A run begins."""
        self.next_offset = next_offset
        self.prefix = prefix  # of the hashes of its keys; None: not known yet
        self.entries: list[bytes] = []  # of what was put, for the queue
        self.end = 0  # in the log, of the last one
        self.put_bytes = 0
        self.puts = 0  # by how many calls, for who counts these


class PlainPuts:
    """Puts into one store. `places` and what they say is true until the next run begins."""

    def __init__(self, store: MessageStore) -> None:
        self._store, self._commit_log, self._log = store, store._commit_log, store._commit_log.log
        self._indexer, self._index, self._queues = store._indexer, store._index, store._queues
        self._flusher, self._pages, self._retention = store._log_flusher, store._pages_ahead, store.retention
        self._now_ms = 0
        self._hosts_and_time = b""
        self._segment: Segment | None = None
        self._records: list[bytes] = []  # in _PIECES each
        self._end = self._end_max = self._body_bytes_max = 0
        self._index_file: IndexFile | None = None
        self._keyed: list[tuple[int, list[int]]] = []  # log offsets of messages with keys, and the hashes of these
        self._hashes_left = 0
        self.places: list[Place] = []  # of this run
        self._known: dict[tuple[str, int], Place] = {}

    def begin(self, born_host: bytes, store_host: bytes) -> bool:
        """A run begins, of messages from one client. False: the store is not as it usually is, and there is none."""
        store, log, indexer = self._store, self._log, self._indexer
        if store._closed or self._retention.refuses or indexer.failure is not None or indexer.unindexed:
            return False
        segment = log.active
        if segment is None or log.failure is not None or segment.buffer is not None:
            return False
        if len(born_host) != _HOST_BYTES or len(store_host) != _HOST_BYTES:
            return False
        self._segment = segment
        self._end = segment.base_offset + segment.written
        self._end_max = segment.base_offset + min(segment.size - BLANK_BYTES_MIN, log.prepare_at)
        self._body_bytes_max = self._commit_log.message_bytes_max
        self._now_ms = max(self._commit_log._now_ms(), self._commit_log.store_timestamp_ms)
        self._hosts_and_time = _HOSTS_AND_TIME.pack(born_host, self._now_ms, store_host)
        self._index_file = file = self._growing_file()
        self._hashes_left = file.entries_max - file.next_entry if file is not None else 0
        self._records, self._keyed, self.places = [], [], []
        return True

    def _growing_file(self) -> IndexFile | None:
        """The index file that messages of this run go to; None if that is not known beforehand."""
        file = self._index._growing if self._index is not None else None
        return file if file is not None and file.next_entry > 1 and self._end > file.end_log_offset else None

    def add(self, topic: str, queue_id: int) -> Place | None:
        """The place for messages to this queue; None if the queue is not as it usually is."""
        key = topic, queue_id
        queues = self._queues._topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        place = self._known.get(key)
        if place is None or place.queue is not queue:
            place = self._make_place(queue)
            if place is None:
                return None
        next_offset = self._commit_log._queue_offsets.get(key, 0)
        if next_offset != place.queue.max_offset or self._end < place.queue.max_log_offset:
            return None
        place.begin(next_offset, self._index._prefixes.get(topic) if self._index is not None else None)
        self.places.append(place)
        return place

    def _make_place(self, queue: ConsumeQueue | None) -> Place | None:
        if queue is None or queue.ext is not None or queue.topic == SCHEDULE_TOPIC:
            return None
        if not 0 < len(queue.topic.encode()) <= TOPIC_BYTES_MAX:
            return None
        if len(self._known) >= _PLACES_MAX:  # some may have been deleted long ago
            self._known.clear()
        place = self._known[queue.topic, queue.queue_id] = Place(queue)
        return place

    def put(
        self,
        place: Place,
        body: bytes,
        properties: str,
        flag: int,
        sys_flag: int,
        born_ms: int,
        reconsumed: int,
    ) -> int | None:
        """One more record of the run, and where it will be; None: not for us, and what was put before it stays.

        The *properties* have a separator at both ends.
        """
        if sys_flag & ~_PLAIN_FLAGS or not properties.isascii() or properties[-2] == "\0":
            return None
        stored_properties = properties[1:-1].encode()
        topic_field, body_bytes, properties_bytes = place.topic_field, len(body), len(stored_properties)
        log_offset = self._end
        size = _FIXED_BYTES + body_bytes + len(topic_field) + properties_bytes
        end = log_offset + size
        if end > self._end_max or body_bytes > self._body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX:
            return None
        _, has_tags, tags = properties.rpartition(_TAGS)
        tags = tags.partition("\x02")[0] if has_tags else ""
        if (has_tags and not tags) or not self._hash_keys(place, properties, log_offset):
            return None
        queue_offset = place.next_offset
        self._records += (
            _pack_head(
                size,
                MAGIC,
                crc32(body) & 0x7FFF_FFFF,
                place.queue.queue_id,
                flag,
                queue_offset,
                log_offset,
                sys_flag,
                born_ms,
                self._hosts_and_time,
                reconsumed,
                0,
                body_bytes,
            ),
            body,
            topic_field,
            _pack_properties_length(properties_bytes),
            stored_properties,
        )
        place.entries.append(_pack_entry(log_offset, size, tags_code(tags)))
        place.next_offset = queue_offset + 1
        place.put_bytes += size
        place.end = self._end = end
        return log_offset

    def back_to(self, place: Place, count: int) -> None:
        """Take back the last messages, which all went to *place*, until *count* of that are left."""
        while len(place.entries) > count:
            log_offset, size, _ = ENTRY.unpack(place.entries.pop())
            del self._records[-_PIECES:]
            if self._keyed and self._keyed[-1][0] == log_offset:
                self._hashes_left += len(self._keyed.pop()[1])
            place.next_offset -= 1
            place.put_bytes -= size
            place.end = self._end = log_offset

    def _hash_keys(self, place: Place, properties: str, log_offset: int) -> bool:
        """Note the hashes of a message's keys for the index; False if that is not for us."""
        _, has_unique, unique_key = properties.rpartition(_UNIQUE_KEY)
        _, has_keys, keys = properties.rpartition(_KEYS)
        if self._index is None or not (has_unique or has_keys):
            return True
        prefix = place.prefix
        if self._index_file is None or prefix is None:
            return False
        hashes: list[int] = []
        if has_unique:
            unique_key = unique_key.partition("\x02")[0]
            hashes.append(unique_key_hash(prefix, unique_key))
        if has_keys:
            keys = keys.partition("\x02")[0]
            hashes += [key_hash_after(prefix, key) for key in keys.split(" ") if key]
        if (has_unique and not unique_key) or (has_keys and not keys) or len(hashes) > self._hashes_left:
            return False
        if hashes:
            self._hashes_left -= len(hashes)
            self._keyed.append((log_offset, hashes))
        return True

    def finish(self) -> None:
        """The run is over: all that was put can be read from now on."""
        segment, self._segment = self._segment, None
        if segment is None or not self._records:
            return
        commit_log, indexer, now_ms = self._commit_log, self._indexer, self._now_ms
        segment.append(b"".join(self._records))
        self._records = []  # bodies may be large, and the next run far
        commit_log.store_timestamp_ms = now_ms
        for place in self.places:
            if place.entries:
                queue = place.queue
                commit_log._queue_offsets[place.key] = place.next_offset
                queue.append_bytes(b"".join(place.entries))
                queue.max_offset, queue.max_log_offset = place.next_offset, place.end
        indexer.dispatched_ms = now_ms
        if self._index_file is not None and self._keyed:
            link_messages(self._index_file, self._keyed, now_ms)
        if indexer._on_append is not None:
            for place in self.places:
                if place.entries and indexer.listens(*place.key):
                    self._tell(place, segment)
        self._flusher.appended()
        if self._end > self._pages.due_at:
            self._pages.wake()

    def _tell(self, place: Place, segment: Segment) -> None:
        """As the end of `Indexer.appended` for each message of *place*."""
        on_append, queue, base_offset = self._indexer._on_append, place.queue, segment.base_offset
        if on_append is None:
            return
        first_offset = place.next_offset - len(place.entries)
        for queue_offset, entry in enumerate(place.entries, start=first_offset):
            log_offset, size, code = ENTRY.unpack(entry)
            position = log_offset - base_offset
            properties = record_properties(segment._map, position, position + size)
            where = queue.topic, queue.queue_id, queue_offset, log_offset, size
            on_append(Dispatched(*where, code, self._now_ms, properties))
