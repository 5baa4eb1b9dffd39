"""Entries of consume queues as arrays: the log positions of a task's messages."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanabi.spark.decode.fields import Mask, Positions
from hanabi.spark.shared.data_loss import DataLost
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.queues import QueueOnDisk
from hanabi.store.queues.consume_queue import ENTRY_BYTES
from hanabi.wire.system_names import SCHEDULE_TOPIC

ENTRY_DTYPE: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_EXT_ADDRESS_MAX: Final = -(2**31) - 1  # as in consume_queue_ext: codes up to this one are addresses in it


class Span(NamedTuple):
    """Messages [first, end) of one queue.

    *last_at* is the log offset of the last message at planning time, -1 if its entry could not be read.
    """

    topic: str
    queue_id: int
    first: int
    end: int
    last_at: int = -1


@dataclass(frozen=True)
class Entries:
    """Entries of several queues, by log offset. All arrays have one element per entry.

    For a missing entry, the size is 0 and the log offset is that of the message before it.
    """

    log_offsets: Positions
    sizes: Positions
    queue_offsets: Positions
    spans: Positions  # index of the entry's span in the task

    def __len__(self) -> int:
        return len(self.log_offsets)


def raw_entries(queue: QueueOnDisk, reader: FileReader, first: int, end: int) -> NDArray[np.void]:
    """Return the entries [first, end) as stored; zeros for missing ones."""
    found = np.zeros(end - first, ENTRY_DTYPE)
    at = first
    while at < end and queue.file_bytes:
        data = queue.read(reader, at, (end - at) * ENTRY_BYTES)
        count = len(data) // ENTRY_BYTES
        found[at - first : at - first + count] = np.frombuffer(data, ENTRY_DTYPE, count)
        in_file = queue.file_bytes // ENTRY_BYTES
        at = at + count if count else at - at % in_file + in_file  # a file is missing or truncated: go to the next
    return found


def task_entries(home: StoreHome, spans: tuple[Span, ...], tags_codes: list[int] | None) -> Entries:
    """Return the entries of *spans*, without those whose tags cannot match.

    Raises DataLost if a topic was re-created after planning.
    """
    parts: list[tuple[Positions, Positions, Positions, Positions]] = []
    with FileReader() as reader:
        for number, span in enumerate(spans):
            queue = QueueOnDisk(f"{home.queues}/{span.topic}/{span.queue_id}", span.topic, span.queue_id)
            raw = raw_entries(queue, reader, span.first, span.end)
            _check_same_queue(span, raw[-1])
            log_offsets, sizes = raw["log_offset"].astype(np.int64), raw["size"].astype(np.int64)
            is_missing = (log_offsets < 0) | (sizes <= 0)
            if is_missing.any():
                sizes[is_missing] = 0
                log_offsets[is_missing] = 0
                log_offsets[is_missing] = np.maximum.accumulate(log_offsets)[is_missing]
            queue_offsets = np.arange(span.first, span.end)
            wanted = is_missing | _may_have(raw["tags_code"].astype(np.int64), tags_codes, span.topic)
            numbers = np.full(len(raw), number)
            parts.append((log_offsets[wanted], sizes[wanted], queue_offsets[wanted], numbers[wanted]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 4
    order = np.argsort(columns[0], kind="stable")
    return Entries(*(column[order] for column in columns))


def _check_same_queue(span: Span, last: NDArray[np.void]) -> None:
    """Raise DataLost if the last entry of *span* differs from the plan.

    A missing or truncated entry is damage instead.
    """
    if span.last_at >= 0 and last["size"] > 0 and last["log_offset"] != span.last_at:
        raise DataLost(
            f"topic {span.topic}, queue {span.queue_id}: another message stands at {span.end - 1} than was planned: the"
            " topic was re-created while it was read; restart the query"
        )


def _may_have(codes: Positions, wanted: list[int] | None, topic: str) -> Mask:
    """Return a mask of the messages that may have the wanted tags.

    Some entries hold another value instead of a tags code.
    """
    if wanted is None or topic == SCHEDULE_TOPIC:
        return np.ones(len(codes), np.bool_)
    return np.isin(codes, wanted) | (codes <= _EXT_ADDRESS_MAX)
