"""Puts that wait for the acknowledgement of an offset. Pure: the caller passes moments in seconds of one clock.

Offsets and deadlines are ascending, as one thread appends, so releasing and expiring take from the left. The replies of
one loop iteration wait together: their owner adds them once, with the end of the last message.
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
    """Puts that wait for one kind of acknowledgement, at most *count_max* of them."""

    def __init__(self, count_max: int) -> None:
        self._waiting: deque[_Waiter] = deque()
        self._count_max = count_max

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline: float, on_done: OnDone) -> bool:
        """Call *on_done* once: when *offset* is acknowledged, or at *deadline*. Return False, without a call, if it is
        full.

        An offset or a deadline below the last one waits as long as the last: no reply is early.
        """
        waiting = self._waiting
        if len(waiting) >= self._count_max:
            return False
        if waiting:
            offset, deadline = max(offset, waiting[-1].offset), max(deadline, waiting[-1].deadline)
        waiting.append(_Waiter(offset, deadline, on_done))
        return True

    def release(self, acked: int) -> int:
        """End all that wait for *acked* or less with PUT_OK; return their number."""
        waiting, ended = self._waiting, list[_Waiter]()  # taken before any is called: a callback may add new ones
        while waiting and waiting[0].offset <= acked:
            ended.append(waiting.popleft())
        return _finish(ended, PutStatus.PUT_OK)

    def expire(self, now: float) -> int:
        """End all whose deadline has passed with FLUSH_SLAVE_TIMEOUT; return their number."""
        waiting, ended = self._waiting, list[_Waiter]()
        while waiting and waiting[0].deadline <= now:
            ended.append(waiting.popleft())
        return _finish(ended, PutStatus.FLUSH_SLAVE_TIMEOUT)

    def end_all(self, status: PutStatus) -> int:
        """End all with *status*; return their number."""
        ended, self._waiting = [*self._waiting], deque()
        return _finish(ended, status)

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if none waits."""
        return self._waiting[0].deadline if self._waiting else None


def _finish(ended: list[_Waiter], status: PutStatus) -> int:
    for waiter in ended:
        waiter.on_done(status)
    return len(ended)
