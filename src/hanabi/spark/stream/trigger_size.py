"""How far one trigger goes: offsets in, offsets out. Pure: the clock is handed in.

A queue that is not in the checkpoint is new, and begins at its oldest message. One that is gone keeps its offset.
"""

from collections.abc import Callable, Mapping

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets
from hanabi.spark.shared.ranges import share_out


def begun(start: Mapping[MessageQueue, int], firsts: Mapping[MessageQueue, int]) -> Offsets:
    """*start*, and the beginnings of the queues that are new."""
    return {**firsts, **start}


def capped(ends: Mapping[MessageQueue, int], target: Mapping[MessageQueue, int]) -> Offsets:
    """Return what of *ends* was there when *target* was taken."""
    return {queue: min(end, target[queue]) for queue, end in ends.items() if queue in target}


def next_offsets(start: Offsets, ends: Mapping[MessageQueue, int], rows_max: int | None) -> Offsets:
    """Return where a trigger that begins at *start* stops. No queue stops before it begins."""
    reachable = {queue: max(ends.get(queue, offset), offset) for queue, offset in start.items()}
    return reachable if rows_max is None else share_out(start, reachable, rows_max)


def backlog(start: Offsets, ends: Mapping[MessageQueue, int]) -> int:
    return sum(max(0, ends.get(queue, offset) - offset) for queue, offset in start.items())


class SmallTriggers:
    """Puts a trigger off while it has fewer than *least* messages, but no longer than *seconds*."""

    def __init__(self, least: int | None, seconds: float, clock: Callable[[], float]) -> None:
        self._least, self._seconds, self._clock = least, seconds, clock
        self._since: float | None = None  # when the first of the waiting messages was seen

    def put_off(self, count: int) -> bool:
        """Return whether a trigger with *count* messages is too small yet."""
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
