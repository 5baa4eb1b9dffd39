"""Turns on an event loop for work that can wait, so that many small pieces do not add up to one long stall.

Requests that store or read messages are answered as soon as they are read. What operators ask, and what clients say of
themselves, may come a thousand at a time, and one such request may have a thousand steps. All of this work on a loop
shares one allowance for each iteration; what exceeds it waits for a later iteration. Apache's broker has thread pools
for these requests, and refuses with SYSTEM_BUSY when their queues are full; so do we.

The allowance belongs to the loop: a name server and a broker in one process hold up each other's clients.
"""

import asyncio
import dataclasses
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from hanabi.errors import SystemBusy
from hanabi.remoting.connection.dispatch import Handler, InTurn, Reply
from hanabi.wire.command import Command

if TYPE_CHECKING:
    from hanabi.remoting.connection.protocol import Connection

TURN_SECONDS: Final = 0.003  # of such work in one iteration of the loop
WAITING_MAX: Final = 50_000  # requests, as the longest of Apache's queues
WAITING_BYTES_MAX: Final = 64 << 20  # of their bodies

Answer = Reply | Awaitable[Reply]
Handle = Callable[[Any, Command, "Connection"], Answer]
Call = Callable[[], bool]  # returns whether a task has the rest of the turn


class Turns:
    """The allowance of one loop, and the work that waits for it. *later* calls in the next iteration."""

    def __init__(
        self, later: Callable[[Callable[[], None]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._later, self._clock = later, clock
        self._ends: float | None = None  # of the turn in this iteration of the loop; None: it has not begun
        self._waiting: deque[Call] = deque()
        self._waiting_bytes = 0

    def is_over(self) -> bool:
        """Say whether this iteration's allowance is used up or promised."""
        return bool(self._waiting) or self._is_used_up()

    async def next(self) -> None:
        """Wait for a turn. The caller has it until it waits again, and should not take long."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wait(partial(_grant, granted))
        await granted

    def run(self, size: int, work: Callable[[], Answer]) -> Answer:
        """Return what *work* returns: now, or as a future. *size* is how many bytes it holds while it waits."""
        if not self.is_over():
            return work()
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
            waiting = f"{len(self._waiting)} requests with bodies of {self._waiting_bytes} bytes"
            raise SystemBusy(f"[REJECTREQUEST]system busy: {waiting} wait for their turn, try again later")
        self._waiting_bytes += size
        answer = InTurn()
        self._wait(partial(self._settle, answer, size, work))
        return answer

    def spread(self, steps: Iterator[object]) -> None:
        """Take *steps* now, and in later turns those for which there is no allowance left."""
        if self.is_over():
            self._wait(partial(self._take, steps))
        else:
            self._take(steps)

    def _take(self, steps: Iterator[object]) -> bool:
        for _ in steps:
            if self._is_used_up():
                self._waiting.appendleft(partial(self._take, steps))
                break
        return False

    def _is_used_up(self) -> bool:
        now = self._clock()
        if self._ends is None:
            self._ends = now + TURN_SECONDS
            self._later(self._begin)
        return now >= self._ends

    def _begin(self) -> None:
        self._ends = None
        while self._waiting and not self._is_used_up():
            if self._waiting.popleft()():
                break

    def _wait(self, call: Call) -> None:
        self._is_used_up()  # sees to it that another turn begins
        self._waiting.append(call)

    def _settle(self, answer: asyncio.Future[Reply], size: int, work: Callable[[], Answer]) -> bool:
        self._waiting_bytes -= size
        if answer.done():  # the connection has gone
            return False
        try:
            found = work()
        except Exception as error:  # noqa: BLE001 - dispatch makes a reply of it
            answer.set_exception(error)
            return False
        if isinstance(found, Reply):
            answer.set_result(found)
        else:
            _pass_on(asyncio.ensure_future(found), answer)
        return False


def _grant(granted: asyncio.Future[None]) -> bool:
    if granted.done():  # cancelled: the connection has gone
        return False
    granted.set_result(None)
    return True


def _pass_on(task: asyncio.Future[Reply], answer: asyncio.Future[Reply]) -> None:
    """Settle *answer* as *task* is, and cancel *task* with *answer*."""

    def settle(done: asyncio.Future[Reply]) -> None:
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None and not answer.done():
            answer.set_exception(error)
        elif not answer.done():
            answer.set_result(done.result())

    task.add_done_callback(settle)
    answer.add_done_callback(lambda ended: task.cancel() if ended.cancelled() else None)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Return those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turns(loop.call_soon)
    return found


def spread(steps: Iterator[object]) -> None:
    """Take *steps* in turns of the running loop."""
    turns().spread(steps)


def with_turns(table: Mapping[int, Handler]) -> dict[int, Handler]:
    """Return *table* with handlers that wait for their turn. Coroutines stay as they are: they pause by themselves."""
    return {code: _patient(handler) for code, handler in table.items()}


def _patient(handler: Handler) -> Handler:
    if inspect.iscoroutinefunction(handler.handle):
        return handler
    return dataclasses.replace(handler, handle=partial(_in_turn, handler.handle))


def _in_turn(handle: Handle, header: Any, request: Command, connection: "Connection") -> Answer:
    return turns().run(len(request.body), partial(handle, header, request, connection))
