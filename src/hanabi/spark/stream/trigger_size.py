"""Size of a trigger: offsets in, offsets out. Pure: the clock is a parameter.

A queue that is not in the checkpoint is new, and begins at its oldest message. A queue that is gone keeps its offset.
"""

from collections.abc import Callable, Mapping

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.ranges import share_out


def begun(start: Mapping[MessageQueue, int], firsts: Mapping[MessageQueue, int]) -> Offsets:
    """Return *start* with the first offsets of new queues added."""
    return {**firsts, **start}


def capped(ends: Mapping[MessageQueue, int], target: Mapping[MessageQueue, int]) -> Offsets:
    """Return *ends*, limited to *target*."""
    return {queue: min(end, target[queue]) for queue, end in ends.items() if queue in target}


def next_offsets(start: Offsets, ends: Mapping[MessageQueue, int], rows_max: int | None) -> Offsets:
    """Return the end of a trigger that begins at *start*. No queue ends before its start."""
    reachable = {queue: max(ends.get(queue, offset), offset) for queue, offset in start.items()}
    return reachable if rows_max is None else share_out(start, reachable, rows_max)


def backlog(start: Offsets, ends: Mapping[MessageQueue, int]) -> int:
    return sum(max(0, ends.get(queue, offset) - offset) for queue, offset in start.items())


class SmallTriggers:
    """Delay of a trigger with fewer than *least* messages, for at most *seconds*."""

    def __init__(self, least: int | None, seconds: float, clock: Callable[[], float]) -> None:
        self._least, self._seconds, self._clock = least, seconds, clock
        self._since: float | None = None  # when the first waiting message was seen

    def put_off(self, count: int) -> bool:
        """Return whether a trigger with *count* messages must still wait."""
        now = self._clock()
        if self._least is None or count >= self._least:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._seconds:
            return True
        self._since = None
        return False
