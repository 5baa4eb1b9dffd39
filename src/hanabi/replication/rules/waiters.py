"""Puts that wait until an offset is acknowledged. Pure: moments are given by the caller, in seconds of one clock.

Offsets and deadlines come in ascending order, as one thread appends, so releasing and expiring take from the left. The
answers of one loop iteration wait together: their owner adds them once, with the end of the last message.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hanabi.store.message_store import PutStatus

OnDone = Callable[[PutStatus], None]


class _Waiter(NamedTuple):
    offset: int
    deadline: float
    on_done: OnDone


class Waiters:
    """The puts that wait for one kind of acknowledgement, at most *count_max* of them."""

    def __init__(self, count_max: int) -> None:
        self._waiting: deque[_Waiter] = deque()
        self._count_max = count_max

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline: float, on_done: OnDone) -> bool:
        """Call *on_done* once: when *offset* is acknowledged, or at *deadline*. False if there is no room: not called.

        An offset or a deadline below the last one waits as long as that: no answer is early.
        """
        waiting = self._waiting
        if len(waiting) >= self._count_max:
            return False
        if waiting:
            offset, deadline = max(offset, waiting[-1].offset), max(deadline, waiting[-1].deadline)
        waiting.append(_Waiter(offset, deadline, on_done))
        return True

    def release(self, acked: int) -> int:
        """End all that wait for *acked* or less with PUT_OK; return how many."""
        ended = self._take(lambda waiter: waiter.offset <= acked)
        return _finish(ended, PutStatus.PUT_OK)

    def expire(self, now: float) -> int:
        """End all whose deadline has come with FLUSH_SLAVE_TIMEOUT; return how many."""
        ended = self._take(lambda waiter: waiter.deadline <= now)
        return _finish(ended, PutStatus.FLUSH_SLAVE_TIMEOUT)

    def end_all(self, status: PutStatus) -> int:
        """End all with *status*; return how many."""
        ended, self._waiting = [*self._waiting], deque()
        return _finish(ended, status)

    @property
    def next_deadline(self) -> float | None:
        """When the first of them expires; None if none waits."""
        return self._waiting[0].deadline if self._waiting else None

    def _take(self, is_over: Callable[[_Waiter], bool]) -> list[_Waiter]:
        """Remove those at the left that are over, before any of them is told: a callback may add others."""
        waiting, ended = self._waiting, []
        while waiting and is_over(waiting[0]):
            ended.append(waiting.popleft())
        return ended


def _finish(ended: list[_Waiter], status: PutStatus) -> int:
    for waiter in ended:
        waiter.on_done(status)
    return len(ended)
