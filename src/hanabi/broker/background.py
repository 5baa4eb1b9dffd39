"""What a broker does beside answering: work at intervals, and tasks that run as long as it does.

Work that fails is logged and done again at its next time: no failure of a table to be saved ends the serving. Every
interval is asked for anew, since it may be changed at run time.
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
        """Do *work* again and again, the first time after the first pause."""
        self._start(name, self._repeat(name, seconds, work))

    def run(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Let *work* run until the stop. Should it end before, with an error, it begins again."""
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
                logger.error("%s failed, the next time may be better: %s", name, error)
            except Exception:
                logger.exception("%s failed, the next time may be better", name)

    async def _keep_running(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                logger.exception("%s failed and begins again", name)
            else:
                return
            await asyncio.sleep(self._restart_seconds)

    async def stop(self) -> None:
        """End everything, and wait until it has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
