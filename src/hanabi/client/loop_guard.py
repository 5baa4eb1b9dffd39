"""Shuts a client down that its program forgot, when its event loop is about to end.

`asyncio.run` cancels all tasks at its end, and waits for them. A guard is such a task: it lets the tasks of the program
end first, as they may shut the client down themselves, and does it in their stead if they did not.
"""

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

SECONDS: Final = 3.0  # for the shutdown of a forgotten client

logger = logging.getLogger(__name__)

# Those of each loop: guards do not wait for each other.
_guards: "WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[asyncio.Task[None]]]" = WeakKeyDictionary()


class LoopGuard:
    """Guards one client, which errors call *what*, from now until `end`."""

    def __init__(self, what: str, shutdown: Callable[[], Awaitable[None]]) -> None:
        self._what, self._shutdown = what, shutdown
        self._over = False
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"{what} is guarded")
        _guards.setdefault(loop, WeakSet()).add(self._task)

    async def end(self) -> None:
        """The client is shut down in order."""
        self._over = True
        if asyncio.current_task() is not self._task:
            self._task.cancel()
            await asyncio.wait((self._task,))

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
            logger.warning("%s was forgotten, and could not be shut down within %g s", self._what, SECONDS)
        warnings.warn(
            f"{self._what} was not shut down before its event loop ended: use `async with`, or await shutdown()",
            ResourceWarning,
            stacklevel=1,
            source=self,
        )
