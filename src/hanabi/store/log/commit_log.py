"""The commit log: messages of all topics one behind the other, each with its place and its number in its queue.

    segment 0                                       segment 1
    ┌────────┬────────┬──────────────┬────────────┐ ┌────────┬────────┬─────────────────────┐
    │ record │ record │ record       │ blank      │ │ record │ record │ zeros               │
    └────────┴────────┴──────────────┴────────────┘ └────────┴────────┴─────────────────────┘
                                      i32 its size, u32 magic; at least these 8 bytes remain behind every record

The record's bytes are `hanabi.wire.message.record`'s. Agrees with Java's CommitLog.DefaultAppendMessageCallback. One
thread appends; nothing here waits for the disk, see `flush`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from hanabi.errors import MessageRefused, RemoteProtocolError, StoreError
from hanabi.store.config import StoreConfig
from hanabi.store.files.segment import Buffer, Segment
from hanabi.store.log.log import Log
from hanabi.store.log.torn_writes import mark_zeros
from hanabi.wire.message import sysflag
from hanabi.wire.message.message_id import encode_offset_id
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX
from hanabi.wire.message.record import BLANK_BYTES_MIN, decode_dispatch, encode_blank, encode_record, place_record

TOPIC_BYTES_MAX: Final = 255  # up to 127 in the layout of 4.9.8, above it in that of 5.x
_UNCOUNTED = sysflag.TRANSACTION_PREPARED  # this bit is in both types that get no place in a queue


class PendingMessage(msgspec.Struct, frozen=True, gc=False):
    """A message with everything but its place, for `append`. Hosts are as `hanabi.wire.message.hosts` encodes
    them."""

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    is_stored: bool = False  # made from one that the log has: the limit of bodies is for new ones


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The place where a message was appended."""

    log_offset: int
    size: int
    queue_offset: int
    store_timestamp_ms: int
    store_host: bytes

    @property
    def end_offset(self) -> int:
        """The message is durable when the log is flushed up to here."""
        return self.log_offset + self.size

    @property
    def offset_message_id(self) -> str:
        """The id by which a broker finds the message again: its own address and the place in its log."""
        return encode_offset_id(self.store_host, self.log_offset)


class CommitLog:
    """Appends messages and gives them their offsets. Errors leave it as it was: nothing of the message is stored."""

    def __init__(self, log: Log, *, now_ms: Callable[[], int], message_bytes_max: int = 4 << 20) -> None:
        self.log = log
        self.store_timestamp_ms = 0  # of the newest message; never goes back, even when the clock does
        self.now_ms = now_ms
        self.message_bytes_max = message_bytes_max  # of a body; may be changed
        self.queue_offsets: dict[tuple[str, int], int] = {}  # that the next message of each queue gets

    @classmethod
    def open(cls, config: StoreConfig, *, now_ms: Callable[[], int], crashed: bool = False) -> "CommitLog":
        """Return the commit log of a store. Its end and its queue offsets are still to be restored, see
        `Log.truncate_to`."""
        log = Log(config.commit_log_path, config.commit_log_segment_bytes, warm=config.warm_segments, crashed=crashed)
        return cls(log, now_ms=now_ms, message_bytes_max=config.message_bytes_max)

    # Appending

    def append(self, message: PendingMessage) -> AppendResult:
        """Store one message. Raises MessageRefused (a limit), StoreFull or another StoreError."""
        log = self.log
        if log.failure is not None:
            log.check_usable()
        now_ms = self.next_store_ms()
        queue = (message.topic, message.queue_id)
        counted = not message.sys_flag & _UNCOUNTED
        queue_offset = self.queue_offsets.get(queue, 0) if counted else 0
        segment = log.active
        log_offset = segment.base_offset + segment.written if segment is not None else 0
        record = self._encode(message, queue_offset, log_offset, now_ms)
        size = len(record)
        if segment is None or segment.written + size + BLANK_BYTES_MIN > segment.size:
            segment = self._roll(size)
            log_offset = segment.base_offset
            place_record(record, 0, queue_offset=queue_offset, log_offset=log_offset, store_timestamp_ms=now_ms)
        segment.append(record)
        if counted:
            self.queue_offsets[queue] = queue_offset + 1
        self.store_timestamp_ms = now_ms  # after the bytes: a thread that reads this and then flushes has flushed them
        return AppendResult(log_offset, size, queue_offset, now_ms, message.store_host)

    def append_batch(self, messages: Sequence[PendingMessage]) -> list[AppendResult]:
        """Store several messages of one queue, a record each, in one segment and with one timestamp: all or none."""
        log = self.log
        log.check_usable()
        if not messages:
            raise MessageRefused("a batch without messages")
        queue = (messages[0].topic, messages[0].queue_id)
        if any((message.topic, message.queue_id) != queue for message in messages):
            raise MessageRefused(f"a batch goes to one queue, and this one is not only for {queue[0]}-{queue[1]}")
        if any(sysflag.transaction_type(message.sys_flag) for message in messages):
            raise MessageRefused(f"{queue[0]}: a message of a transaction cannot be part of a batch")
        body_bytes = sum(len(message.body) for message in messages)
        if body_bytes > self.message_bytes_max:
            raise MessageRefused(f"{queue[0]}: a batch of {body_bytes} bytes, limit {self.message_bytes_max}")

        now_ms = self.next_store_ms()
        first_offset = self.queue_offsets.get(queue, 0)
        records = [self._encode(message, 0, 0, now_ms) for message in messages]
        size = sum(map(len, records))
        segment = log.active
        if segment is None or segment.written + size + BLANK_BYTES_MIN > segment.size:
            segment = self._roll(size)
        log_offset = segment.base_offset + segment.written
        results: list[AppendResult] = []
        for queue_offset, (message, record) in enumerate(zip(messages, records, strict=True), start=first_offset):
            place_record(record, 0, queue_offset=queue_offset, log_offset=log_offset, store_timestamp_ms=now_ms)
            results.append(AppendResult(log_offset, len(record), queue_offset, now_ms, message.store_host))
            log_offset += len(record)
        segment.append(b"".join(records))
        self.queue_offsets[queue] = first_offset + len(records)
        self.store_timestamp_ms = now_ms
        return results

    def append_copy(self, log_offset: int, data: Buffer) -> None:
        """Store bytes of another broker's log, which must follow this log's end: for a slave that copies its master."""
        if self.log.active is None:
            self.log.start_at(log_offset)
        if log_offset != self.log.end_offset:
            raise StoreError(f"the log ends at {self.log.end_offset}, so a copy cannot go on at {log_offset}")
        self.log.append(data)

    def _encode(self, message: PendingMessage, queue_offset: int, log_offset: int, now_ms: int) -> bytearray:
        topic = message.topic.encode()
        body, properties = message.body, message.properties
        if len(body) > self.message_bytes_max and not message.is_stored:
            raise MessageRefused(f"{message.topic}: a body of {len(body)} bytes, limit {self.message_bytes_max}")
        if b"\0" in properties:
            properties = mark_zeros(properties)
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise MessageRefused(
                f"{message.topic}: properties of {len(properties)} bytes, limit {PROPERTIES_BYTES_MAX}"
            )
        if not 0 < len(topic) <= TOPIC_BYTES_MAX:
            raise MessageRefused(f"a topic of {len(topic)} bytes, limit {TOPIC_BYTES_MAX}: {message.topic[:32]}...")
        return encode_record(
            topic=topic,
            body=body,
            properties=properties,
            queue_id=message.queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            store_timestamp_ms=now_ms,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset,
            queue_offset=queue_offset,
            log_offset=log_offset,
        )

    def _roll(self, size: int) -> Segment:
        """Return the next segment, for *size* bytes that do not fit in the active one."""
        log = self.log
        if size + BLANK_BYTES_MIN > log.segment_bytes:
            raise MessageRefused(f"{size} bytes do not fit in a log file of {log.segment_bytes}")
        room = log.segment_bytes - log.active.written if log.active is not None else 0
        return log.roll(encode_blank(room) if room else b"", room=size)

    def next_store_ms(self) -> int:
        """Return the store time for an append now: the clock's, but never less than that of an older message."""
        now_ms = self.now_ms()
        return now_ms if now_ms >= self.store_timestamp_ms else self.store_timestamp_ms

    # Queue offsets

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the number that the next message of this queue will get."""
        return self.queue_offsets.get((topic, queue_id), 0)

    def restore_queue_offsets(self, next_offsets: Mapping[tuple[str, int], int]) -> None:
        """Go on counting from *next_offsets*, by topic and queue; queues that are not there begin at 0."""
        self.queue_offsets = dict(next_offsets)

    def forget_queue(self, topic: str, queue_id: int) -> None:
        """Forget the next offset of a deleted queue: if it is made again, it begins at 0."""
        self.queue_offsets.pop((topic, queue_id), None)

    # Reading

    def read(self, log_offset: int, size: int) -> memoryview | None:
        """Return the record of *size* bytes at *log_offset* without a copy, or None if it is not (or no longer)
        there."""
        return self.log.read(log_offset, size)

    def read_record(self, log_offset: int) -> memoryview | None:
        """Return the record at *log_offset*, whose size only itself knows; None if no whole record can be there."""
        head = self.log.read(log_offset, 4)
        size = int.from_bytes(head, "big", signed=True) if head is not None else 0
        return self.log.read(log_offset, size) if size >= BLANK_BYTES_MIN else None

    def store_timestamp_at(self, log_offset: int, size: int) -> int | None:
        """Return the store time of the record of *size* bytes at *log_offset*; None if there is no such record."""
        record = self.log.read(log_offset, size)
        if record is None:
            return None
        try:
            return decode_dispatch(record).store_timestamp_ms
        except RemoteProtocolError:
            return None
