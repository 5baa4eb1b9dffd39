"""Guard that shuts down a client when its event loop ends and the program did not.

`asyncio.run` cancels all tasks at its end, and waits for them. A guard is such a task: it lets the tasks of the program
end first, as they may shut the client down themselves, and otherwise does it for them.

A bare `loop.close()` cancels nothing, and nothing can run after it: then the client is marked as lost at once. An event
loop drops its timers when it is closed, which frees an object that only such a timer holds.
"""

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary, WeakSet, finalize, ref

YEAR_SECONDS: Final = 365 * 86_400.0
SECONDS: Final = 3.0  # for the shutdown of a client that the program did not shut down

logger = logging.getLogger(__name__)

# Guards by loop: they do not wait for each other.
_guards: "WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[asyncio.Task[None]]]" = WeakKeyDictionary()

# Guards of closed loops, kept alive: asyncio would report each as destroyed when freed; our own report is clearer.
_lost_tasks: "list[asyncio.Task[None]]" = []


class LoopGuard:
    """Guard of one client, named *what* in errors, until `end`. *lost* is called if the loop is closed."""

    def __init__(self, what: str, shutdown: Callable[[], Awaitable[None]], lost: Callable[[], None]) -> None:
        self._what, self._shutdown, self._lost = what, shutdown, lost
        self._over = False
        self._loop = loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"{what} is guarded")
        _guards.setdefault(loop, WeakSet()).add(self._task)
        held = _Held()
        self._timer = ref(loop.call_later(YEAR_SECONDS, held.expire))  # weak: only the loop holds it
        self._closed = finalize(held, self._loop_closed)
        self._closed.atexit = False

    async def end(self) -> None:
        """End the guard: the client was shut down regularly."""
        self._over = True
        self._closed.detach()
        if (timer := self._timer()) is not None:
            timer.cancel()
        if asyncio.current_task() is not self._task:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _loop_closed(self) -> None:
        if self._loop.is_closed() and not self._over:
            _lost_tasks.append(self._task)
            self._lost()
            self._warn("was closed: await shutdown() before loop.close(), or use `async with` and asyncio.run()")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_future()
        except asyncio.CancelledError:
            if self._over:
                raise
        while not self._over and (others := asyncio.all_tasks() - set(_guards[loop])):
            await asyncio.wait(others)
        if not self._over:
            await self._forgotten()

    async def _forgotten(self) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                await self._shutdown()
        except TimeoutError:
            logger.warning("%s was not shut down by the program, and could not be within %g s", self._what, SECONDS)
        self._warn("ended: use `async with`, or await shutdown()")

    def _warn(self, end: str) -> None:
        warnings.warn(
            f"{self._what} was not shut down before its event loop {end}", ResourceWarning, stacklevel=1, source=self
        )


class _Held:
    """Object that lives as long as the timer that holds it."""

    def expire(self) -> None:
        """Do nothing: the timer is never due."""
