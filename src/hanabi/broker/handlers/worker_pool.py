"""Thread pool for one purpose, with a bound on waiting work.

Purposes share no pool: a thousand key queries must not delay the save of a new topic, whose sender waits for it. Excess
work is refused with SYSTEM_BUSY before it starts.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hanabi.errors import SystemBusy
from hanabi.remoting.started_threads import started_threads

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Runs work in threads, in the order of arrival. Used by one event loop.

    Running work keeps its thread until it ends, though its caller may be cancelled; waiting work is cancelled with its
    caller.
    """

    def __init__(self, purpose: str, *, threads: int, waiting_max: int) -> None:
        """*purpose* names the threads and appears in the refusal: "key queries"."""
        self._purpose, self._waiting_max = purpose, waiting_max
        self._threads = started_threads(threads, f"hanabi-{purpose.replace(' ', '-')}")
        self._free = asyncio.Semaphore(threads)
        self._waiting = 0

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *work* in a thread and return its result; raise SystemBusy if too much waits already."""
        if self._waiting >= self._waiting_max:
            raise SystemBusy(
                f"[OVERLOAD]system busy, start flow control for a while: {self._waiting} {self._purpose} wait already"
            )
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            running = asyncio.wrap_future(self._threads.submit(work, *args, **kwargs))
        except BaseException:  # the pool was stopped meanwhile
            self._free.release()
            raise
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, _: asyncio.Future[T]) -> None:
        self._free.release()

    def stop(self) -> None:
        """Start no more work, and wait until the running work is done."""
        self._threads.shutdown(cancel_futures=True)
