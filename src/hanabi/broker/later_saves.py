"""Saves a table in a thread soon after it changed: one write for all that changed while the one before it ran.

For what clients bring into being. A client that starts makes a hundred groups with one heartbeat, and others make a
thousand topics in a second; each would hold up the loop for two waits for the disk, and for as long as it takes to
write the whole table. Whoever must not answer before a name is in the file awaits `unsaved[name]`.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hanabi.errors import MQError

RETRY_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class LaterSaves:
    """What of one table is not in its file yet. `run` writes it."""

    def __init__(self, write: Callable[[], Callable[[], None]], *, retry_seconds: float = RETRY_SECONDS) -> None:
        """*write* returns what writes the table as it is now: that will be called in a thread."""
        self.unsaved: dict[str, asyncio.Future[None]] = {}
        self._write, self._retry_seconds = write, retry_seconds
        self._next: asyncio.Future[None] | None = None  # of the names that the next write will bring to the file
        self._wake = asyncio.Event()

    def changed(self, name: str) -> None:
        """*name* is new in the table."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        self.unsaved[name] = self._next
        self._wake.set()

    async def run(self) -> None:
        """Write whenever something is new, until cancelled."""
        failed = False
        while True:
            await self._wait(self._retry_seconds if failed else None)
            written, self._next = self._next, None
            try:
                await asyncio.to_thread(self._write())
            except MQError as error:  # the disk is full, say; what is in memory stands, as the messages are stored
                if not failed:  # once an outage
                    logger.error("tried again every %g s: %s", self._retry_seconds, error)
                failed = True
            else:
                failed = False
            finally:
                self._settle(written)

    async def _wait(self, seconds: float | None) -> None:
        """Until something is new, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _settle(self, written: asyncio.Future[None] | None) -> None:
        """Nobody waits longer than one write, though it may have failed."""
        if written is not None:
            for name in [name for name, future in self.unsaved.items() if future is written]:
                del self.unsaved[name]
            written.set_result(None)
