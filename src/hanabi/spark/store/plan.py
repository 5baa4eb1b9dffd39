"""Plan of a read: the log is cut at messages into tasks with about the same number of wanted bytes.

Queue entries hold the positions of messages, so the plan needs no scan. A sample of a few thousand entries gives the
cuts, and a binary search finds each queue's first message after every cut.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from hanabi.spark.decode.fields import Positions
from hanabi.spark.shared.selection import Selection
from hanabi.spark.store.entries import Span, raw_entries
from hanabi.spark.store.options import LIGHT_QUEUE_PREFIX, StoreOptions
from hanabi.spark.store.time_search import TimeBoundary
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueOnDisk, find_queues

SAMPLES: Final = 256
_SAMPLES_PER_TASK: Final = 64
_READ_WHOLE_MAX: Final = 4_096  # entries; a shorter queue is read whole


@dataclass(frozen=True)
class QueueTask(InputPartition):
    """Messages that one task reads, as listed in the consume queues."""

    spans: tuple[Span, ...]


@dataclass(frozen=True)
class WantedQueue:
    """Wanted messages [first, end) of a queue."""

    queue: QueueOnDisk
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


def plan_queue_tasks(options: StoreOptions, selection: Selection) -> list[QueueTask]:
    """Return the tasks for the messages of *selection*, in the order of the log."""
    with FileReader() as reader:
        queues = wanted_queues(options.home, selection, reader)
    return cut_tasks(queues, options)


def cut_tasks(queues: list[WantedQueue], options: StoreOptions) -> list[QueueTask]:
    """Return the tasks for the messages of *queues*, in the order of the log.

    Deterministic for the same files and queues.
    """
    with FileReader() as reader:
        sample = take_sample(queues, reader, SAMPLES)
        count = task_count(sample, options)
        if count > SAMPLES // _SAMPLES_PER_TASK:
            sample = take_sample(queues, reader, count * _SAMPLES_PER_TASK)
        cuts = sample.cuts(count)
        spans: list[list[Span]] = [[] for _ in range(len(cuts) + 1)]
        for each in queues:
            borders = [each.first, *_first_behind(each, reader, cuts), each.end]
            for number, (first, end) in enumerate(pairwise(borders)):
                if first < end:
                    spans[number].append(_span(each.queue, reader, first, end))
    return [QueueTask(tuple(mine)) for mine in spans if mine]


def _span(queue: QueueOnDisk, reader: FileReader, first: int, end: int) -> Span:
    last = queue.entry(reader, end - 1)
    return Span(queue.topic, queue.queue_id, first, end, -1 if last is None else last[0])


def wanted_queues(home: StoreHome, selection: Selection, reader: FileReader) -> list[WantedQueue]:
    """Return every queue with messages that may match.

    Light queues are skipped: they refer to messages of other queues.
    """
    log = LogLookup(home, reader)
    from_ms, to_ms = selection.from_ms, selection.to_ms
    begin = None if from_ms is None else TimeBoundary(from_ms, log, unknown_is_older=False)
    stop = None if to_ms is None else TimeBoundary(to_ms, log, unknown_is_older=True)
    wanted: list[WantedQueue] = []
    with FileReader() as queue_reader:
        for queue in find_queues(home.queues):
            is_light = queue.topic.startswith(LIGHT_QUEUE_PREFIX)
            if is_light or not selection.has_queue(queue.topic, queue.queue_id):
                continue
            end = queue.end_offset(queue_reader)
            first = queue.min_offset(queue_reader, end, log.min_offset)
            first, end = selection.offsets_of(queue.topic, queue.queue_id, first, end)
            if begin is not None:
                first = begin.first_in(queue, queue_reader, first, end)
            if stop is not None:
                end = stop.first_in(queue, queue_reader, first, end)
            if first < end:
                wanted.append(WantedQueue(queue, first, end))
    return wanted


@dataclass(frozen=True)
class Sample:
    """Sampled entries by log offset, with the wanted bytes that each represents."""

    log_offsets: Positions
    weights: NDArray[np.float64]
    messages: int

    @property
    def bytes(self) -> float:
        return float(self.weights.sum())

    def cuts(self, count: int) -> Positions:
        """Return at most count - 1 log offsets that divide the bytes into *count* parts. A message begins at each."""
        if count < 2:
            return np.empty(0, np.int64)
        reached = np.cumsum(self.weights)
        at = np.searchsorted(reached, reached[-1] * np.arange(1, count) / count)
        return np.unique(self.log_offsets[np.minimum(at + 1, len(reached) - 1)])


def task_count(sample: Sample, options: StoreOptions) -> int:
    wanted = max(options.partitions_min, -(-int(sample.bytes) // options.partition_bytes))
    return max(1, min(wanted, sample.messages))


def take_sample(queues: list[WantedQueue], reader: FileReader, count: int) -> Sample:
    """Return about *count* entries, spread evenly over all; at least one per queue."""
    messages = sum(map(len, queues))
    places: list[tuple[int, float]] = []
    for each in queues:
        mine = min(len(each), -(-len(each) * count // messages))
        for number in range(mine):
            entry = each.queue.entry(reader, each.first + (2 * number + 1) * len(each) // (2 * mine))
            if entry is not None:
                places.append((entry[0], entry[1] * len(each) / mine))
    places.sort()
    return Sample(
        np.array([at for at, _ in places], np.int64), np.array([weight for _, weight in places], np.float64), messages
    )


def _first_behind(each: WantedQueue, reader: FileReader, cuts: Positions) -> list[int]:
    """Return for each cut the first wanted message at or after it."""
    if len(each) <= _READ_WHOLE_MAX:
        log_offsets = raw_entries(each.queue, reader, each.first, each.end)["log_offset"].astype(np.int64)
        # Damaged entries may have any position. It is enough that some task contains them.
        found = each.first + np.searchsorted(np.maximum.accumulate(log_offsets), cuts)
        return [int(at) for at in found]
    borders: list[int] = []
    low = each.first
    for cut in cuts.tolist():
        high = each.end
        while low < high:
            middle = (low + high) // 2
            entry = each.queue.entry(reader, middle)
            if entry is not None and entry[0] < cut:
                low = middle + 1
            else:
                high = middle
        borders.append(low)
    return borders
