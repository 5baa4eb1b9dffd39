"""Coalesced saves of one table in a thread: one write covers all changes made during the previous write.

The loop waits neither for the disk nor for the encoding of a table, and a thousand new topics in a second cost a few
writes. The thread is the table's own: no other work delays a save for which a sender waits. A caller that must not
answer before its change is in the file awaits the future that `changed` returns, or `unsaved[name]`. A write that fails
is tried again until it succeeds; those that wait for it are told why it failed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from hanabi.errors import MQError, StoreClosed, StoreError

RETRY_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)

Write = Callable[[], None]


class LaterSaves:
    """The changes of one table that are not in its file yet. `run` writes them."""

    def __init__(
        self,
        begin: Callable[[], Write],
        *,
        ended: Callable[[bool], None] = lambda _: None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """*begin* returns the write of the table as it is now, which is called in a thread. *ended* is called after it,
        with whether it succeeded, before those that wait are told. Both run in the loop's thread."""
        self.unsaved: dict[str, asyncio.Future[None]] = {}
        self._begin, self._ended, self._retry_seconds = begin, ended, retry_seconds
        self._next: asyncio.Future[None] | None = None  # of what the next write will bring to the file
        self._wake = asyncio.Event()

    def changed(self, names: Iterable[str] = ()) -> asyncio.Future[None]:
        """There is something to write, *names* among it; the future is done when all of it is in the file."""
        self._wake.set()
        return self._wait_for_next(names)

    async def run(self) -> None:
        """Write whenever something changed, until cancelled. A write that has begun is waited for."""
        failed = False
        thread = ThreadPoolExecutor(1, thread_name_prefix="hanabi-saves")
        try:
            while True:
                await self._wait(self._retry_seconds if failed else None)
                written, self._next = self._next, None
                writing = asyncio.ensure_future(_run_in(thread, self._begin()))
                try:
                    await asyncio.wait((writing,))
                except asyncio.CancelledError:
                    await asyncio.wait((writing,))  # a thread cannot be stopped
                    raise
                finally:
                    error = _error_of(writing)
                    if error is not None and not failed:  # once an outage
                        logger.error("tried again every %g s: %s", self._retry_seconds, error)
                    failed = error is not None
                    self._settle(written, error)
        finally:
            thread.shutdown(wait=False)
            self._fail(StoreClosed("the broker stops"))

    async def _wait(self, seconds: float | None) -> None:
        """Wait until something changed, at most for *seconds*."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _wait_for_next(self, names: Iterable[str]) -> asyncio.Future[None]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        for name in names:
            self.unsaved[name] = self._next
        return self._next

    def _settle(self, written: asyncio.Future[None] | None, error: MQError | None) -> None:
        self._ended(error is None)
        if error is not None:
            _set_error(written, error)
            self._fail(error)  # what came meanwhile may build on what failed
        elif written is not None:
            for name in [name for name, future in self.unsaved.items() if future is written]:
                del self.unsaved[name]
            if not written.cancelled():
                written.set_result(None)

    def _fail(self, error: MQError) -> None:
        """Tell all that wait; the names are to be written all the same."""
        waiting, self._next = self._next, None
        _set_error(waiting, error)
        if self.unsaved:
            self._wait_for_next(list(self.unsaved))


async def _run_in(thread: ThreadPoolExecutor, write: Write) -> None:
    await asyncio.get_running_loop().run_in_executor(thread, write)


def _set_error(future: asyncio.Future[None] | None, error: MQError) -> None:
    if future is not None and not future.done():
        future.set_exception(error)
        future.exception()  # it is no mistake if nothing waits for it


def _error_of(writing: asyncio.Future[None]) -> MQError | None:
    error = writing.exception()
    if error is None or isinstance(error, MQError):
        return error
    logger.error("a table could not be saved", exc_info=error)
    return StoreError(f"a table could not be saved: {error}")
