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
from collections.abc import Sequence
from typing import Final

from hanabi.store.consume_queue import ENTRY, ConsumeQueue
from hanabi.store.cut_properties import CutProperties
from hanabi.store.index_file import IndexFile
from hanabi.store.indexer import Dispatched
from hanabi.store.key_hash import key_hash_after
from hanabi.store.key_links import link_messages
from hanabi.store.message_store import MessageStore
from hanabi.store.segment import Segment
from hanabi.store.torn_writes import SEALABLE_BYTES_MAX
from hanabi.store.unique_key_hash import unique_key_hash
from hanabi.wire import sysflag
from hanabi.wire.crc import crc32
from hanabi.wire.record import BLANK_BYTES_MIN, MAGIC, TOPIC_BYTES_MAX, record_properties
from hanabi.wire.system_names import SCHEDULE_TOPIC

_PIECES: Final = 7  # of a record: head, body, topic, length of properties, and these, cut at the unique key
_HEAD: Final = struct.Struct(">iIiiiqqiq24siqi")  # of a record with two IPv4 hosts: see `wire.record`
_HOSTS_AND_TIME: Final = struct.Struct(">8sq8s")  # the 24 bytes of it that are the same in a whole run
_HOST_BYTES: Final = 8
_PLACES_MAX: Final = 40_000
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
_FIXED_BYTES: Final = _HEAD.size + _PROPERTIES_LENGTH.size
_PLAIN_FLAGS: Final = sysflag.COMPRESSED | sysflag.MULTI_TAGS | 7 << 8  # and how it is compressed

_pack_head, _pack_properties_length, _pack_entry = _HEAD.pack, _PROPERTIES_LENGTH.pack, ENTRY.pack


class Place:
    """A queue that is put into. What was put is that of the last run that had this place."""

    __slots__ = (
        "end",
        "entries",
        "fixed_bytes",
        "key",
        "next_offset",
        "prefix",
        "put_bytes",
        "puts",
        "queue",
        "queue_id",
        "sys_flag",
        "topic_field",
    )

    def __init__(self, queue: ConsumeQueue) -> None:
        name = queue.topic.encode()
        self.queue, self.key = queue, (queue.topic, queue.queue_id)
        self.queue_id = queue.queue_id
        self.topic_field = len(name).to_bytes(2)[1:] + name  # as a record has it
        self.fixed_bytes = _FIXED_BYTES + len(self.topic_field)  # of every record
        self.begin(0, 0, None)

    def begin(self, next_offset: int, sys_flag: int, prefix: int | None) -> None:
        """A run begins."""
        self.next_offset = next_offset
        self.sys_flag = sys_flag  # of all that is put there
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
        self._flusher, self._ahead, self._retention = store._log_flusher, store._work_ahead, store.retention
        self._now_ms = 0
        self._hosts_and_time = b""
        self._segment: Segment | None = None
        self._records: list[bytes] = []  # in _PIECES each
        self._end = self._end_max = self._body_bytes_max = 0
        self._index_file: IndexFile | None = None
        self._keyed: list[tuple[int, int]] = []  # hashes of keys, and log offsets of the messages that have them
        self._keyed_max = 0
        self.places: list[Place] = []  # of this run
        self._known: dict[tuple[str, int], Place] = {}

    def begin(self, born_host: bytes, store_host: bytes) -> bool:
        """A run begins, of messages from one client. False: the store is not as it usually is, and there is none."""
        store, log, indexer = self._store, self._log, self._indexer
        if store._closed or self._retention.refuses or indexer.failure is not None or indexer.unindexed:
            return False
        segment = log.active
        if segment is None or log.failure is not None:
            return False
        if len(born_host) != _HOST_BYTES or len(store_host) != _HOST_BYTES:
            return False
        self._segment = segment
        self._end = segment.base_offset + segment.written
        self._end_max = segment.base_offset + min(segment.size - BLANK_BYTES_MIN, segment.allocated)
        self._body_bytes_max = self._commit_log.message_bytes_max
        self._now_ms = max(self._commit_log._now_ms(), self._commit_log.store_timestamp_ms)
        self._hosts_and_time = _HOSTS_AND_TIME.pack(born_host, self._now_ms, store_host)
        self._index_file = file = self._growing_file()
        self._keyed_max = file.allocated_entries - file.next_entry if file is not None else 0
        self._records, self._keyed, self.places = [], [], []
        return True

    def _growing_file(self) -> IndexFile | None:
        """The index file that messages of this run go to; None if that is not known beforehand."""
        file = self._index._growing if self._index is not None else None
        return file if file is not None and file.next_entry > 1 and self._end > file.end_log_offset else None

    def add(self, topic: str, queue_id: int, sys_flag: int) -> Place | None:
        """The place for messages to this queue, all of which get *sys_flag*, too; None if the queue is not as it
        usually is."""
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
        place.begin(next_offset, sys_flag, self._index._prefixes.get(topic) if self._index is not None else None)
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
        properties: CutProperties,
        flag: int,
        sys_flag: int,
        born_ms: int,
        reconsumed: int,
    ) -> int | None:
        """One more record of the run, and where it will be; None: not for us, and what was put before it stays."""
        start, unique_key, end, tags_code, keys = properties
        sys_flag |= place.sys_flag
        body_bytes, properties_bytes = len(body), len(start) + len(unique_key) + len(end)
        log_offset = self._end
        size = place.fixed_bytes + body_bytes + properties_bytes
        log_end = log_offset + size
        if log_end > self._end_max or body_bytes > self._body_bytes_max or properties_bytes > SEALABLE_BYTES_MAX:
            return None
        if sys_flag & ~_PLAIN_FLAGS:
            return None
        if (unique_key or keys) and self._index is not None and not self._hash(place, unique_key, keys, log_offset):
            return None
        queue_offset = place.next_offset
        self._records += (
            _pack_head(
                size,
                MAGIC,
                crc32(body) & 0x7FFF_FFFF,
                place.queue_id,
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
            place.topic_field,
            _pack_properties_length(properties_bytes),
            start,
            unique_key,
            end,
        )
        place.entries.append(_pack_entry(log_offset, size, tags_code))
        place.next_offset = queue_offset + 1
        place.put_bytes += size
        place.end = self._end = log_end
        return log_offset

    def back_to(self, place: Place, count: int) -> None:
        """Take back the last messages, which all went to *place*, until *count* of that are left."""
        while len(place.entries) > count:
            log_offset, size, _ = ENTRY.unpack(place.entries.pop())
            del self._records[-_PIECES:]
            while self._keyed and self._keyed[-1][1] == log_offset:
                self._keyed.pop()
            place.next_offset -= 1
            place.put_bytes -= size
            place.end = self._end = log_offset

    def _hash(self, place: Place, unique_key: bytes, keys: Sequence[str], log_offset: int) -> bool:
        """Note the hashes of a message's keys for the index; False if that is not for us."""
        prefix, keyed = place.prefix, self._keyed
        if prefix is None or len(keyed) + len(keys) >= self._keyed_max:  # one more is for the unique key
            return False
        if unique_key:
            keyed.append((unique_key_hash(prefix, unique_key), log_offset))
        for key in keys:
            keyed.append((key_hash_after(prefix, key), log_offset))
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
        if self._end > self._ahead.due_at:
            self._ahead.wake()

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
