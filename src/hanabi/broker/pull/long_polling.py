"""Held pulls: those that found no message wait until a matching one arrives, or until the client's timeout.

    hold ──> by queue: woken by `arrived`, which the store calls for every message
        └──> by time: one timer for all of them, set to the earliest

A held pull costs only memory. An arrival looks only at the pulls of its own queue and evaluates each one's filter; a
pull whose filter rejects the message stays held, from behind that message. When filters take too long, the rest is
woken unevaluated: this runs inside a put, while reads are limited by a time slice. The reply is made in the next loop
iteration and not inside the put, so that a batch is answered whole, and many pulls held on one queue do not delay other
requests.

Does not know stores or replies: `answer` makes the reply. Does the work of Java's PullRequestHoldService and
NotifyMessageArrivingListener, which check every held pull every 5 s; here there is no polling, and a pull is held at
most 1/300 longer than its client said.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.clock import monotonic_ms
from hanabi.deadlines import Deadlines
from hanabi.remoting.connection.dispatch import Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.indexer import Dispatched
from hanabi.wire.headers.pull import PullMessageHeader

LATE_PARTS: Final = 300  # deadlines are rounded up by this part of the wait, so that pulls share timers: saves
LATE_MS_MAX: Final = 50  # 75 % of the idle cost at 10,000 held pulls
_TURN_SECONDS: Final = 0.002  # of answering, then other requests are served
_ASKING_SECONDS_MAX: Final = 0.002  # of evaluating filters, in each of these:
_ASKING_PERIOD_SECONDS: Final = 0.01

Wants = Callable[[Dispatched], bool]


class HeldPull(asyncio.Future[Reply]):
    """One held pull; its result is the reply. The connection cancels it when it closes.

    Not a coroutine: there are thousands, and each would cost a task's memory and loop time.
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
        self.offset = header.queue_offset  # to read from: behind the messages that its filter rejected
        self.due_ms = 0
        self.is_held = False

    def cancel(self, msg: object = None) -> bool:
        self.table.forget(self)
        return super().cancel(msg)


class HeldPulls:
    """All held pulls. Invariant: a pull is indexed by queue and by deadline while `is_held`, and in neither
    otherwise."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int] = monotonic_ms) -> None:
        """*now_ms* is a monotonic clock."""
        self._settings, self._now_ms = settings, now_ms
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self.awaited: Container[tuple[str, int]] = self._by_queue  # topic and queue id; read-only
        self._deadlines: Deadlines[HeldPull] = Deadlines(now_ms, self._wake_all)
        self._deadlines.start()
        self._count = 0
        self._ready: deque[HeldPull] = deque()  # to be answered; not empty: `_answer_ready` is scheduled
        self._released = False
        self._asking_began = self._asking_seconds = 0.0  # of the current period, and the filters' time in it

    def __len__(self) -> int:
        return self._count

    @property
    def being_answered(self) -> int:
        """Return the number of woken pulls that are not answered yet."""
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
        """Hold a pull for *wait_ms*, or, if it *wakes*, until a message that it *wants* (None: any).

        Then call *answer* once; its reply is the result. Return None if there is no room, or no time.
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
        held.due_ms = self._deadlines.add(held, self._now_ms() + wait_ms, step)
        return held

    # Waking

    def arrived(self, message: Dispatched) -> None:
        """Wake the pulls that match a new message. The store calls this for every message."""
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
        """Answer *held* now, unconditionally."""
        if held.is_held:
            self.forget(held)
            if not self._ready:
                held.get_loop().call_soon(self._answer_ready)
            self._ready.append(held)

    def release(self) -> None:
        """Answer all pulls, and hold none from now on: the broker stops."""
        self._released = True
        self._deadlines.stop()
        self._wake_all(self._deadlines)

    def _answer_ready(self) -> None:
        ready, turn_ends = self._ready, time.monotonic() + _TURN_SECONDS
        while ready:
            held = ready[0]
            if not held.done():  # else its connection is closed
                try:
                    reply = held.answer(held)
                except Exception as error:  # noqa: BLE001 - the awaiting caller turns it into a reply
                    held.set_exception(error)
                else:
                    held.set_result(reply)
            ready.popleft()  # only now: a wake-up meanwhile must not schedule this again
            if ready and time.monotonic() > turn_ends:
                held.get_loop().call_soon(self._answer_ready)
                return

    def forget(self, held: HeldPull) -> None:
        """Remove *held* from the indexes, if it is there."""
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
        self._deadlines.discard(held, held.due_ms)

    def expire(self) -> None:
        """Wake the pulls whose deadline has passed."""
        self._wake_all(self._deadlines.take_due())

    def _wake_all(self, pulls: Iterable[HeldPull]) -> None:
        for held in pulls:
            self.wake(held)
