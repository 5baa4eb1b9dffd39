"""The lookup of a queue's message by store time: a binary search over store times in the commit log.

Store times do not go back within a queue. Messages that the log no longer has count as older than everything.
"""

import enum
from collections.abc import Callable

from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue

StoreTimeOf = Callable[[int, int], int]  # (log offset, size) -> store time in ms, negative if there is no such message


class BoundaryType(enum.Enum):
    """The side to take, as in RocketMQ 5: the first message at or after the time, or the last at or before it."""

    LOWER = "lower"
    UPPER = "upper"


def offset_by_time(
    queue: ConsumeQueue,
    time_ms: int,
    store_time_of: StoreTimeOf,
    *,
    log_offset_min: int,
    end: int,
    boundary: BoundaryType | None = None,
) -> int:
    """Return the queue offset for *time_ms* among the messages below the queue offset *end*.

    Without a *boundary* the nearest message, as RocketMQ 4.9.8 answers. LOWER: *end* if all are older. UPPER:
    `min_offset` if all are younger. As in Apache, if the log lacks the time of a message that it should have, 0,
    or with a boundary `min_offset`.
    """
    times = _Times(queue, store_time_of, log_offset_min)
    try:
        if boundary is None:
            return _nearest(queue, time_ms, times, end)
        if boundary is BoundaryType.LOWER:
            return times.first_from(queue.min_offset, end, time_ms)
        after = times.first_from(queue.min_offset, end, time_ms + 1)
        return max(after - 1, queue.min_offset)
    except _UnknownTime:
        return 0 if boundary is None else queue.min_offset


class _UnknownTime(Exception):
    """The log has no message where an entry says there is one."""


class _Times:
    """The store time of each message of a queue, -1 for those that the log no longer has."""

    def __init__(self, queue: ConsumeQueue, store_time_of: StoreTimeOf, log_offset_min: int) -> None:
        self._queue, self._store_time_of, self._log_offset_min = queue, store_time_of, log_offset_min

    def __getitem__(self, queue_offset: int) -> int:
        entry = self._queue.entry(queue_offset)
        if entry is None:
            raise _UnknownTime
        log_offset, size, _ = entry
        if log_offset < self._log_offset_min:
            return -1
        time_ms = self._store_time_of(log_offset, size)
        if time_ms < 0:
            raise _UnknownTime
        return time_ms

    def first_from(self, low: int, high: int, time_ms: int) -> int:
        """Return the first offset in [low, high) with that time or a later one, or *high*."""
        while low < high:
            middle = (low + high) // 2
            if self[middle] < time_ms:
                low = middle + 1
            else:
                high = middle
        return low


def _nearest(queue: ConsumeQueue, time_ms: int, times: _Times, end: int) -> int:
    """Choose a file, then search only there, as ConsumeQueue.getOffsetInQueueByTime of 4.9.8 does.

    Apache chooses the first file that was last changed at or after the time. The time of a file's last message says the
    same and does not depend on when the system wrote a page.
    """
    bases = [base for base in queue.bases() if base // ENTRY_BYTES < end]
    if not bases:
        return queue.min_offset if queue.bases() else 0
    low_file, high_file = 0, len(bases) - 1
    while low_file < high_file:
        middle_file = (low_file + high_file) // 2
        if times[(bases[middle_file] + queue.family.file_bytes) // ENTRY_BYTES - 1] < time_ms:
            low_file = middle_file + 1
        else:
            high_file = middle_file
    base = bases[low_file]
    low = max(base // ENTRY_BYTES, queue.min_offset)
    high = min((base + queue.family.file_bytes) // ENTRY_BYTES, end) - 1
    left = right = left_time = right_time = -1
    while low <= high:
        middle = (low + high) // 2
        found = times[middle]
        if found == time_ms:
            return middle
        if found > time_ms:
            high = middle - 1
            right, right_time = middle, found
        else:
            low = middle + 1
            if found >= 0:
                left, left_time = middle, found
    if left < 0:
        # Apache computes an offset before the file if everything in it is gone; the minimum is what it means.
        return right if right >= 0 else queue.min_offset
    if right < 0 or abs(time_ms - left_time) <= abs(time_ms - right_time):
        return left
    return right
