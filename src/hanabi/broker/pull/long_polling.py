"""Pulls that found nothing and wait: until a message that they want arrives, or until the time the client gave is over.

    hold ──> by queue: woken by `arrived`, which the store calls for every message
        └──> by time: one timer for all of them, set to the earliest

What waits costs nothing but its memory. An arrival looks at the pulls of its own queue only, and asks each one's
filter; one whose filter does not want the message waits on, from behind that message. When filters take too long, the
rest is woken without being asked: this is inside of a put, and reading has its turns. The answer is made in the next
turn of the loop and not inside the put that woke it, so that a batch is answered whole, and when many wait on one
queue, they do not keep the others waiting.

Knows nothing of stores and replies: `answer` makes the reply when the time has come. Does the work of Java's
PullRequestHoldService and NotifyMessageArrivingListener, which look at every held pull every 5 s; here nothing is
looked at without a reason, and a pull waits at most a three-hundredth longer than its client said.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.clock import monotonic_ms
from hanabi.remoting.connection.dispatch import Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.indexer import Dispatched
from hanabi.wire.headers.pull import PullMessageHeader

LATE_PARTS: Final = 300  # by so small a part of its time a pull may be late: several are answered by one timer, which
LATE_MS_MAX: Final = 50  # is a quarter of what ten thousand idle pulls cost
_TIMER_SECONDS_MAX: Final = 60.0
_TURN_SECONDS: Final = 0.002  # of answering, then the others have their turn
_ASKING_SECONDS_MAX: Final = 0.002  # of asking filters, in each of these:
_ASKING_PERIOD_SECONDS: Final = 0.01
_STALE_TIMES_MAX: Final = 1_000

Wants = Callable[[Dispatched], bool]


class HeldPull(asyncio.Future[Reply]):
    """One pull that waits; its result is the reply. The connection cancels it when it goes away.

    Not a coroutine: there are thousands, and each would be a task's worth of memory and of turns of the loop.
    """

    __slots__ = ("answer", "connection", "due_ms", "header", "is_held", "offset", "table", "wants")

    def __init__(
        self,
        table: "HeldPulls",
        header: PullMessageHeader,
        connection: Connection,
        answer: Callable[["HeldPull"], Reply],
        wants: Wants | None,
    ) -> None:
        super().__init__()
        self.table, self.header, self.connection, self.answer, self.wants = table, header, connection, answer, wants
        self.offset = header.queue_offset  # to read from: behind what arrived since and was not wanted
        self.due_ms = 0
        self.is_held = False

    def cancel(self, msg: object = None) -> bool:
        self.table.forget(self)
        return super().cancel(msg)


class HeldPulls:
    """All pulls that wait. Invariant: one is in its queue and at its time while `is_held`, and in neither otherwise."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int] = monotonic_ms) -> None:
        """*now_ms* is a clock that does not go backwards."""
        self._settings, self._now_ms = settings, now_ms
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self.awaited: Container[tuple[str, int]] = self._by_queue  # topic and queue id, to look at
        self._by_time: dict[int, dict[HeldPull, None]] = {}
        self._times: list[int] = []  # a heap of the keys of `_by_time`, and of some that were
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._count = 0
        self._ready: deque[HeldPull] = deque()  # to be answered; not empty: `_answer_ready` will be called
        self._released = False
        self._asking_began = self._asking_seconds = 0.0  # of the current period, and how much of it filters took

    def __len__(self) -> int:
        return self._count

    @property
    def being_answered(self) -> int:
        """How many have been woken and wait for their turn to be answered."""
        return len(self._ready)

    def hold(
        self,
        header: PullMessageHeader,
        connection: Connection,
        answer: Callable[[HeldPull], Reply],
        *,
        wait_ms: int,
        wants: Wants | None = None,
        wakes: bool = True,
    ) -> HeldPull | None:
        """Let a pull wait for *wait_ms*, or, if it *wakes*, for a message that it *wants* (None: any).

        Then call *answer* once, whose reply is the result. None if there is no room, or no time.
        """
        if self._released or wait_ms <= 0 or self._count >= self._settings.broker.held_pulls_max:
            return None
        held = HeldPull(self, header, connection, answer, wants)
        held.is_held = True
        self._count += 1
        if wakes:
            place = header.topic, header.queue_id
            waiting = self._by_queue.get(place)
            if waiting is None:
                waiting = self._by_queue[place] = {}
            waiting[held] = None
        step = min(max(wait_ms // LATE_PARTS, 1), LATE_MS_MAX)
        held.due_ms = due_ms = -(-(self._now_ms() + wait_ms) // step) * step
        due = self._by_time.get(due_ms)
        if due is None:
            due = self._add_time(due_ms)
        due[held] = None
        return held

    # Being woken

    def arrived(self, message: Dispatched) -> None:
        """A message can be read: wake whoever wants it. The store calls this for every message."""
        waiting = self._by_queue.get((message.topic, message.queue_id))
        if waiting is not None:
            self._offer(message, list(waiting))

    def _offer(self, message: Dispatched, waiting: list[HeldPull]) -> None:
        for held in waiting:
            wants = held.wants
            if wants is None or self._seems_wanted(wants, message):
                self.wake(held)
            elif held.offset == message.queue_offset:
                held.offset += 1

    def _seems_wanted(self, wants: Wants, message: Dispatched) -> bool:
        began = time.monotonic()
        if began - self._asking_began > _ASKING_PERIOD_SECONDS:
            self._asking_began, self._asking_seconds = began, 0.0
        if self._asking_seconds > _ASKING_SECONDS_MAX:
            return True
        wanted = wants(message)
        self._asking_seconds += time.monotonic() - began
        return wanted

    def wake(self, held: HeldPull) -> None:
        """Answer *held* now, whatever it waits for."""
        if held.is_held:
            self.forget(held)
            if not self._ready:
                held.get_loop().call_soon(self._answer_ready)
            self._ready.append(held)

    def release(self) -> None:
        """Answer all, and hold none from now on: the broker stops."""
        self._released = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for due in list(self._by_time.values()):
            for held in list(due):
                self.wake(held)

    def _answer_ready(self) -> None:
        ready, turn_ends = self._ready, time.monotonic() + _TURN_SECONDS
        while ready:
            held = ready[0]
            if not held.done():  # else its connection is gone
                try:
                    reply = held.answer(held)
                except Exception as error:  # noqa: BLE001 - whoever awaits it turns it into a reply
                    held.set_exception(error)
                else:
                    held.set_result(reply)
            ready.popleft()  # only now: a wake meanwhile must not call us once more
            if ready and time.monotonic() > turn_ends:
                held.get_loop().call_soon(self._answer_ready)
                return

    def forget(self, held: HeldPull) -> None:
        """*held* waits no more. It may not have been waiting."""
        if not held.is_held:
            return
        held.is_held = False
        self._count -= 1
        place = held.header.topic, held.header.queue_id
        waiting = self._by_queue.get(place)
        if waiting is not None:
            waiting.pop(held, None)
            if not waiting:
                del self._by_queue[place]
        due = self._by_time[held.due_ms]
        del due[held]
        if not due:
            del self._by_time[held.due_ms]

    # Time

    def expire(self) -> None:
        """Wake those whose time is over. The timer calls this."""
        times, by_time, now_ms = self._times, self._by_time, self._now_ms()
        while times and (times[0] <= now_ms or times[0] not in by_time):
            for held in list(by_time.get(heappop(times), ())):
                self.wake(held)

    def _add_time(self, due_ms: int) -> dict[HeldPull, None]:
        due = self._by_time[due_ms] = {}
        heappush(self._times, due_ms)
        if len(self._times) > 2 * len(self._by_time) + _STALE_TIMES_MAX:
            self._times = list(self._by_time)
            heapify(self._times)
        if self._timer is None or due_ms < self._timer_ms:
            self._set_timer(due_ms)
        return due

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = (due_ms - self._now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(min(seconds, _TIMER_SECONDS_MAX), self._time_has_come)
        self._timer_ms = due_ms

    def _time_has_come(self) -> None:
        self._timer = None
        self.expire()
        if self._times:
            self._set_timer(self._times[0])
