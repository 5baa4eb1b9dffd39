"""Coalesced saves of one table in a thread: one write covers all changes made during the previous write.

The loop waits neither for the disk nor for the encoding of a table, and a thousand new topics in a second cost a few
writes. Each table has its own thread: no other work delays a save for which a sender waits. A caller that must not
answer before its change is in the file awaits the future that `changed` returns; one that must not act before a name is
in the file passes the act to `when_saved`. A failed write is retried until it succeeds; its waiters get the error.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, TypeVar

from hanabi.errors import MQError, StoreClosed, StoreError
from hanabi.remoting.started_threads import started_threads

RETRY_SECONDS: Final = 1.0
_SLICE_SECONDS: Final = 0.002

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Act = Callable[[MQError | None], None]
Write = Callable[[], None]


class DeferredSave:
    """Changes of one table that are not in its file yet. `run` writes them."""

    def __init__(
        self,
        begin: Callable[[], Write],
        *,
        ended: Callable[[bool], None] = lambda _: None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """*begin* returns the write of the table as it is now, which is called in a thread. *ended* is called after it,
        with whether it succeeded, before the waiters are notified. Both run in the loop's thread."""
        self.unsaved: dict[str, asyncio.Future[None]] = {}
        self.failure: MQError | None = None  # of the last write
        self._begin, self._ended, self._retry_seconds = begin, ended, retry_seconds
        self._next: asyncio.Future[None] | None = None  # done with the next write
        self._acts: dict[asyncio.Future[None], deque[_Act]] = {}  # to call after it
        self._wake = asyncio.Event()

    def changed(self, names: Iterable[str] = ()) -> asyncio.Future[None]:
        """Schedule a write that includes *names*; the future is done when the change is in the file."""
        self._wake.set()
        return self._wait_for_next(names)

    def when_saved(self, name: str, act: Callable[[], T]) -> asyncio.Future[T]:
        """Call *act* when *name*, one of `unsaved`, is in the file; the acts for a name keep their order.

        The future has its result, or raises the reason why the name is not in the file; then *act* was not called.
        """
        saved = self.unsaved[name]
        outcome: asyncio.Future[T] = saved.get_loop().create_future()

        def go_on(error: MQError | None) -> None:
            try:
                if error is not None:
                    raise error.with_traceback(None)
                outcome.set_result(act())
            except Exception as problem:  # noqa: BLE001 - it is raised where the outcome is awaited
                outcome.set_exception(problem)

        self._acts.setdefault(saved, deque()).append(go_on)
        return outcome

    async def run(self) -> None:
        """Write after each change, until cancelled. A write that has begun is waited for."""
        thread = started_threads(1, "hanabi-saves")
        try:
            while True:
                await self._wait(self._retry_seconds if self.failure is not None else None)
                written, self._next = self._next, None
                writing = asyncio.ensure_future(_run_in(thread, self._begin()))
                try:
                    await asyncio.wait((writing,))
                except asyncio.CancelledError:
                    await asyncio.wait((writing,))  # a thread cannot be stopped
                    raise
                finally:
                    self._settle(written, _error_of(writing))
        finally:
            thread.shutdown(wait=False)
            self._fail(StoreClosed("the broker stops"))

    async def _wait(self, seconds: float | None) -> None:
        """Wait for a change, at most for *seconds*."""
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
        if error is not None and self.failure is None:  # once per outage
            logger.error("a table could not be saved, retrying every %g s: %s", self._retry_seconds, error)
        self.failure = error
        self._ended(error is None)
        if error is not None:
            self._refuse(written, error)
            self._fail(error)  # later changes may build on the failed one
        elif written is not None:
            self._go_on(written)

    def _go_on(self, written: asyncio.Future[None]) -> None:
        """Call the acts for saved names, a slice at a time: new acts for the same names wait their turn."""
        acts, until = self._acts.get(written), time.monotonic() + _SLICE_SECONDS
        while acts:
            acts.popleft()(None)
            if time.monotonic() >= until:
                written.get_loop().call_soon(self._go_on, written)
                return
        self._acts.pop(written, None)
        for name in [name for name, future in self.unsaved.items() if future is written]:
            del self.unsaved[name]
        written.set_result(None)

    def _fail(self, error: MQError) -> None:
        """Fail all waiters of the next write; the names stay scheduled for writing."""
        waiting, self._next = self._next, None
        self._refuse(waiting, error)

    def _refuse(self, waiting: asyncio.Future[None] | None, error: MQError) -> None:
        if waiting is None:
            return
        names = [name for name, future in self.unsaved.items() if future is waiting]
        if names:
            self._wait_for_next(names)
        for act in self._acts.pop(waiting, ()):
            act(error)
        waiting.set_exception(error)
        waiting.exception()  # marks the exception as retrieved: there may be no waiter


async def _run_in(thread: Executor, write: Write) -> None:
    await asyncio.get_running_loop().run_in_executor(thread, write)


def _error_of(writing: asyncio.Future[None]) -> MQError | None:
    error = writing.exception()
    if error is None or isinstance(error, MQError):
        return error
    logger.error("a table could not be saved", exc_info=error)
    return StoreError(f"a table could not be saved: {error}")
