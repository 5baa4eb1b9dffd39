"""The messages of a store that match a request, one after the other.

One queue is read through its entries. Everything else is a scan of the log, which needs neither queues nor index and
so shows what they have lost; files whose times cannot match are left out.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from hanabi.errors import StoreError
from hanabi.store.inspection.expected import expected_entries
from hanabi.store.inspection.home import DataFile, FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.log_scan import Broken, LogScan, read_record
from hanabi.store.inspection.queues import QueueOnDisk, find_queues
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES, is_blank, is_present
from hanabi.wire.message.record import Dispatch, Record, RecordState, check_record, decode_dispatch, decode_record

T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria for messages. All that are given must match; None matches everything."""

    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None  # this one, and later ones
    key: str | None = None  # one of the keys, or the unique key
    from_ms: int | None = None  # stored then or later
    to_ms: int | None = None  # stored before
    log_offset: int | None = None  # at this log offset, or behind it
    count: int | None = None

    def matches(self, record: Dispatch) -> bool:
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.queue_offset is None or record.queue_offset >= self.queue_offset)
            and (self.log_offset is None or record.log_offset >= self.log_offset)
            and (self.from_ms is None or record.store_timestamp_ms >= self.from_ms)
            and (self.to_ms is None or record.store_timestamp_ms < self.to_ms)
            and (self.key is None or self.key == record.unique_key or self.key in record.keys.split())
        )


def find_messages(home: StoreHome, wanted: Wanted, on_broken: Callable[[str], None]) -> Iterator[Record]:
    """Yield the messages that *wanted* describes, oldest first. *on_broken* gets a sentence for each damaged part."""
    with FileReader() as reader:
        if wanted.topic is not None and wanted.queue_id is not None:
            queue = find_queue(home, wanted.topic, wanted.queue_id)
            records = _from_queue(home, queue, wanted, reader, on_broken)
        else:
            records = _of_known_topic(home, wanted.topic, _from_log(home, wanted, reader, on_broken))
        yield from at_most(records, wanted.count)


def _of_known_topic(home: StoreHome, topic: str | None, records: Iterator[Record]) -> Iterator[Record]:
    """Yield *records*. Raise if there are none and the topic has no queue either: its name may be wrong."""
    first = next(records, None)
    if first is None:
        if topic is not None:
            check_topic(home, topic)
        return
    yield first
    yield from records


def _from_log(
    home: StoreHome, wanted: Wanted, reader: FileReader, on_broken: Callable[[str], None]
) -> Iterator[Record]:
    files = _files_between(home.log_files(), reader, wanted.from_ms, wanted.to_ms)
    for piece in LogScan(files, reader, start=wanted.log_offset):
        if isinstance(piece, Broken):
            on_broken(
                f"{home.relative(piece.file.path)}: no valid record from log offset {piece.log_offset}"
                f" to {piece.until}: {piece.reason}"
            )
        elif wanted.matches(piece.dispatch):
            yield decode_record(piece.buffer, piece.position, piece.end, check_crc=False)  # it was checked


def _files_between(files: list[DataFile], reader: FileReader, from_ms: int | None, to_ms: int | None) -> list[DataFile]:
    """Return those of *files* that can have messages stored in [from_ms, to_ms). Store times rise from file to file."""
    if from_ms is None and to_ms is None:
        return files
    times = [_stored_ms(read_record(reader, file, 0)) for file in files]
    first, end = 0, len(files)
    for number, stored_ms in enumerate(times):
        if stored_ms is not None and from_ms is not None and stored_ms < from_ms:
            first = number
        if stored_ms is not None and to_ms is not None and stored_ms >= to_ms:
            end = min(end, number)
    return files[first:end]


def _stored_ms(data: bytes) -> int | None:
    if check_record(data, check_crc=False).state is not RecordState.WHOLE:
        return None
    return decode_dispatch(data).store_timestamp_ms


def check_topic(home: StoreHome, topic: str) -> None:
    """Raise StoreError if there is no queue of *topic*."""
    if not any(queue.topic == topic for queue in find_queues(home.queues)):
        raise StoreError(f"{home.root} has no queue of topic {topic}")


def find_queue(home: StoreHome, topic: str, queue_id: int) -> QueueOnDisk:
    """Return one queue. Raises StoreError if there is none."""
    queue = QueueOnDisk(f"{home.queues}/{topic}/{queue_id}", topic, queue_id)
    if not queue.files:
        raise StoreError(f"{home.root} has no queue {topic}/{queue_id}")
    return queue


def _from_queue(
    home: StoreHome, queue: QueueOnDisk, wanted: Wanted, reader: FileReader, on_broken: Callable[[str], None]
) -> Iterator[Record]:
    log = LogLookup(home, reader)
    # A light queue (%LMQ%) has messages of other topics: the queue lists its messages, the record confirms it.
    rest = msgspec.structs.replace(wanted, topic=None, queue_id=None, queue_offset=None)
    with FileReader() as queue_reader:
        start = max(queue.first_offset, wanted.queue_offset or 0)
        if wanted.from_ms is not None:
            start = max(start, _first_from(queue, queue_reader, log, wanted.from_ms))
        for queue_offset, log_offset in _entries(queue, queue_reader, start):
            if log_offset < log.min_offset:
                continue
            data = log.read(log_offset) or b""
            checked = check_record(data)
            record = decode_dispatch(data) if checked.state is RecordState.WHOLE else None
            if record is None or not _is_message(record, queue, queue_offset, log_offset):
                lies = "no valid record lies" if record is None else "another message lies"
                on_broken(
                    f"message {queue_offset} of {queue.topic}/{queue.queue_id}: {lies} at log offset {log_offset}"
                )
            elif wanted.to_ms is not None and record.store_timestamp_ms >= wanted.to_ms:
                return
            elif rest.matches(record):
                yield decode_record(data, 0, checked.size, check_crc=False)


def _is_message(record: Dispatch, queue: QueueOnDisk, queue_offset: int, log_offset: int) -> bool:
    place = queue.topic, queue.queue_id, queue_offset
    return record.log_offset == log_offset and any(entry[:3] == place for entry in expected_entries(record, None))


def _entries(queue: QueueOnDisk, reader: FileReader, start: int) -> Iterator[tuple[int, int]]:
    """Yield queue offset and log offset of every entry from *start* on."""
    for file, position, data in queue.pieces(reader, start):
        for queue_offset, (log_offset, size, _) in enumerate(
            ENTRY.iter_unpack(data), (file.base + position) // ENTRY_BYTES
        ):
            if is_present(log_offset, size) and not is_blank(log_offset, size):
                yield queue_offset, log_offset


def _first_from(queue: QueueOnDisk, reader: FileReader, log: LogLookup, from_ms: int) -> int:
    """Return the first message stored at *from_ms* or later: binary search. Unreadable ones count as later."""
    low, high = queue.first_offset, queue.end_offset(reader)
    while low < high:
        middle = (low + high) // 2
        entry = queue.entry(reader, middle)
        stored_ms = _stored_ms(log.read(entry[0]) or b"") if entry is not None else None
        is_gone = entry is not None and entry[0] < log.min_offset
        if is_gone or (stored_ms is not None and stored_ms < from_ms):
            low = middle + 1
        else:
            high = middle
    return low


def at_most(items: Iterator[T], count: int | None) -> Iterator[T]:
    """Return the first *count* of *items*; all of them for None."""
    return items if count is None else islice(items, count)
