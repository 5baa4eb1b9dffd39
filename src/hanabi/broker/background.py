"""Background work of a broker: periodic work and long-running tasks.

Failed work is logged and retried at the next interval: a table that cannot be saved does not stop the broker. The
interval is read before each wait, since it may change at run time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from hanabi.errors import MQError

RESTART_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class Background:
    """Tasks of one broker, from their start to `stop`."""

    def __init__(self, *, restart_seconds: float = RESTART_SECONDS) -> None:
        self._restart_seconds = restart_seconds
        self._tasks: set[asyncio.Task[None]] = set()

    def every(self, name: str, seconds: Callable[[], float], work: Callable[[], object | Awaitable[object]]) -> None:
        """Repeat *work*, first after one interval."""
        self._start(name, self._repeat(name, seconds, work))

    def run(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run *work* until the stop; restart it if it ends early with an error."""
        self._start(name, self._keep_running(name, work))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(
        self, name: str, seconds: Callable[[], float], work: Callable[[], object | Awaitable[object]]
    ) -> None:
        while True:
            await asyncio.sleep(seconds())
            try:
                result = work()
                if isinstance(result, Awaitable):
                    await result
            except MQError as error:  # a full disk, say
                logger.error("%s failed, retrying at the next interval: %s", name, error)
            except Exception:
                logger.exception("%s failed, retrying at the next interval", name)

    async def _keep_running(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                logger.exception("%s failed, restarting it", name)
            else:
                return
            await asyncio.sleep(self._restart_seconds)

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
