"""Marks of a store's queues: the message before an offset, read from the files."""

from collections.abc import Mapping

from hanabi.errors import RemoteProtocolError
from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.queue_marks import Mark, Marks
from hanabi.spark.store.time_search import TimeBoundary
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueOnDisk
from hanabi.wire.message.record import decode_dispatch


def marks_in_store(home: StoreHome, offsets: Mapping[MessageQueue, int]) -> Marks:
    """Return the message before each offset; queues without one are left out."""
    found: Marks = {}
    with FileReader() as reader, FileReader() as log_reader:
        log = LogLookup(home, log_reader)
        for queue, offset in offsets.items():
            mark = _mark(_on_disk(home, queue), reader, log, offset - 1) if offset else None
            if mark is not None:
                found[queue] = mark
    return found


def since_in_store(
    home: StoreHome, times_ms: Mapping[MessageQueue, int], first: Mapping[MessageQueue, int], end: Offsets
) -> Offsets:
    """Return the first offset of each queue stored at its time or later; the queue's end if there is none."""
    with FileReader() as reader, FileReader() as log_reader:
        log = LogLookup(home, log_reader)
        return {
            queue: TimeBoundary(time_ms, log, unknown_is_older=False).first_in(
                _on_disk(home, queue), reader, first[queue], end[queue]
            )
            for queue, time_ms in times_ms.items()
        }


def _on_disk(home: StoreHome, queue: MessageQueue) -> QueueOnDisk:
    return QueueOnDisk(f"{home.queues}/{queue.topic}/{queue.queue_id}", queue.topic, queue.queue_id)


def _mark(queue: QueueOnDisk, reader: FileReader, log: LogLookup, offset: int) -> Mark | None:
    entry = queue.entry(reader, offset)
    if entry is None:
        return None
    try:
        record = decode_dispatch(log.read(entry[0]) or b"")
    except RemoteProtocolError:  # damaged: not comparable
        return None
    is_it = (record.log_offset, record.queue_offset) == (entry[0], offset)
    return Mark(record.log_offset, record.store_timestamp_ms) if is_it else None
