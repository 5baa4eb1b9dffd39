"""Held pops: those that found no message wait until there may be one, or until the client's timeout.

    hold ──> by topic and group: woken by `arrived`, which the store calls for every message, and by `wake`
        └──> by deadline: one timer for all of them

A woken pop is tried in the next loop iteration, so that a batch is answered whole. While one group's pops of a topic
are being tried, further messages wake no more of them: those that find something are answered in the order in which
they came, until one finds nothing. Does not know requests: `attempt` tries again, `give_up` makes the last answer.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from hanabi.clock import monotonic_ms
from hanabi.deadlines import Deadlines
from hanabi.store.indexer import Dispatched

ANY_QUEUE: Final = -1
HELD_MAX: Final = 100_000
HELD_A_QUEUE_MAX: Final = 1_024  # of one topic, group and asked queue
# A deadline is rounded up by this part of the wait, so that few timers answer thousands of pops, as with held pulls.
_LATE_PART: Final = 300
_LATE_MS_MAX: Final = 50
_TURN_SECONDS: Final = 0.002  # of answering, then other requests are served

R = TypeVar("R")


class HeldPop(asyncio.Future[R], Generic[R]):
    """One held pop. The connection cancels it when it closes."""

    __slots__ = ("attempt", "due_key", "give_up", "is_choosy", "place", "queue_id", "table")

    def __init__(
        self,
        table: "HeldPops",
        place: tuple[str, str],
        queue_id: int,
        attempt: Callable[[], R | None],
        give_up: Callable[[], R],
        *,
        is_choosy: bool,
    ) -> None:
        super().__init__()
        self.table, self.place, self.queue_id = table, place, queue_id
        self.attempt, self.give_up, self.is_choosy = attempt, give_up, is_choosy
        self.due_key = 0

    def cancel(self, msg: object = None) -> bool:
        self.table.forget(self)
        return super().cancel(msg)


class _Waiting:
    """Held pops of one topic and group, by asked queue; and the queues that may have something for them."""

    __slots__ = ("by_queue", "is_scheduled", "woken")

    def __init__(self) -> None:
        self.by_queue: dict[int, dict[HeldPop[Any], None]] = {}
        self.woken: set[int] = set()  # ANY_QUEUE: all
        self.is_scheduled = False


class HeldPops:
    """All held pops. *now_ms* is a monotonic clock."""

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._now_ms = now_ms
        self.by_topic: dict[str, dict[str, _Waiting]] = {}  # topic, then group; read-only for other parts
        self._deadlines: Deadlines[HeldPop[Any]] = Deadlines(now_ms, self._expired)
        self._ready: deque[tuple[str, str]] = deque()
        self._count = 0
        self._released = False
        self._is_started = False

    def __len__(self) -> int:
        return self._count

    def count_of(self, topic: str, group: str, queue_id: int) -> int:
        """Return how many pops wait for one queue, or for any queue."""
        waiting = self.by_topic.get(topic, {}).get(group)
        return len(waiting.by_queue.get(queue_id, ())) if waiting is not None else 0

    def hold(
        self,
        topic: str,
        group: str,
        queue_id: int,
        attempt: Callable[[], R | None],
        give_up: Callable[[], R],
        *,
        wait_ms: int,
        is_choosy: bool,
    ) -> "HeldPop[R] | None":
        """Hold a pop for *wait_ms*. *attempt* returns None while there is nothing; *give_up* answers at the deadline.

        *is_choosy*: another pop of the group may find something where this one does not. Return None if there is no
        room; the caller checks that there is time.
        """
        if self._released or self._count >= HELD_MAX:
            return None
        waiting = self.by_topic.setdefault(topic, {}).setdefault(group, _Waiting())
        held_here = waiting.by_queue.setdefault(queue_id, {})
        if len(held_here) >= HELD_A_QUEUE_MAX:
            return None
        held = HeldPop(self, (topic, group), queue_id, attempt, give_up, is_choosy=is_choosy)
        held_here[held] = None
        self._count += 1
        if not self._is_started:
            self._is_started = True
            self._deadlines.start()
        step_ms = max(1, min(wait_ms // _LATE_PART, _LATE_MS_MAX))
        held.due_key = self._deadlines.add(held, -(-(self._now_ms() + wait_ms) // step_ms) * step_ms)
        return held

    def forget(self, held: HeldPop[Any]) -> None:
        """Remove *held*, if it is there."""
        topic, group = held.place
        groups = self.by_topic.get(topic)
        waiting = groups.get(group) if groups is not None else None
        queue = waiting.by_queue.get(held.queue_id) if waiting is not None else None
        if groups is None or waiting is None or queue is None or held not in queue:
            return
        del queue[held]
        self._count -= 1
        self._deadlines.discard(held, held.due_key)
        if not queue:
            del waiting.by_queue[held.queue_id]
        if not waiting.by_queue:
            del groups[group]
            if not groups:
                del self.by_topic[topic]

    # Waking

    def arrived(self, message: Dispatched) -> None:
        """Wake pops of the topic of a new message. The store calls this for every message."""
        groups = self.by_topic.get(message.topic)
        if groups is not None:
            for group in groups:
                self.wake(message.topic, group, message.queue_id)

    def wake(self, topic: str, group: str, queue_id: int = ANY_QUEUE) -> None:
        """Try the pops of a topic and group again: this queue may have something for them."""
        waiting = self.by_topic.get(topic, {}).get(group)
        if waiting is None:
            return
        waiting.woken.add(queue_id)
        if not waiting.is_scheduled:
            waiting.is_scheduled = True
            if not self._ready:
                asyncio.get_running_loop().call_soon(self._try_ready)
            self._ready.append((topic, group))

    def release(self) -> None:
        """Answer all pops, and hold none from now on: the broker stops."""
        self._released = True
        self._deadlines.stop()
        groups = [waiting for groups in self.by_topic.values() for waiting in groups.values()]
        self._expired([held for waiting in groups for held in _all(waiting)])

    def _try_ready(self) -> None:
        ready, turn_ends = self._ready, time.monotonic() + _TURN_SECONDS
        while ready:
            topic, group = ready[0]
            waiting = self.by_topic.get(topic, {}).get(group)
            is_done = waiting is None or self._try_waiting(waiting, turn_ends)
            ready.popleft()
            if waiting is not None:
                waiting.is_scheduled = not is_done
                if not is_done:
                    ready.append((topic, group))
            if ready and time.monotonic() > turn_ends:
                asyncio.get_running_loop().call_soon(self._try_ready)
                return

    def _try_waiting(self, waiting: _Waiting, turn_ends: float) -> bool:
        """Try pops until one finds nothing; return False if the turn ended before."""
        woken, waiting.woken = waiting.woken, set()
        queues = list(waiting.by_queue) if ANY_QUEUE in woken else [*woken, ANY_QUEUE]
        for queue_id in queues:
            for held in list(waiting.by_queue.get(queue_id, ())):
                if not self._answer(held, held.attempt) and not held.is_choosy:
                    break
                if time.monotonic() > turn_ends:
                    waiting.woken |= woken
                    return False
        return not waiting.woken

    def _answer(self, held: HeldPop[Any], make: Callable[[], Any]) -> bool:
        """Answer *held* with what *make* returns; return False if that is None, and it waits on."""
        if held.done():
            self.forget(held)
            return True
        try:
            result = make()
        except Exception as error:  # noqa: BLE001 - the awaiting caller turns it into a reply
            self.forget(held)
            held.set_exception(error)
            return True
        if result is None:
            return False
        self.forget(held)
        held.set_result(result)
        return True

    def _expired(self, due: list[HeldPop[Any]]) -> None:
        for held in due:
            self._answer(held, held.give_up)


def _all(waiting: _Waiting) -> list[HeldPop[Any]]:
    return [held for queue in waiting.by_queue.values() for held in queue]
