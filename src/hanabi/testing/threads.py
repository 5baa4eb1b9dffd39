"""An asynchronous context in a thread of its own, for tests that block: the blocking clients, the command line, Spark.

with in_thread(Proxy(("127.0.0.1", 10911))) as running:
    running.it.port                        the proxy; read plain attributes only
    running.do(Proxy.swallow)              a method that must run in its event loop
    running.run(some_coroutine())
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, Generic, TypeVar

from hanabi.remoting.loop import run

T = TypeVar("T")
R = TypeVar("R")

SECONDS: Final = 60.0  # for one call, and for the end


class Running(Generic[T]):
    """The context's value *it*, and calls to its event loop."""

    def __init__(self, it: T, loop: asyncio.AbstractEventLoop) -> None:
        self.it, self._loop = it, loop

    def run(self, work: Coroutine[Any, Any, R], seconds: float = SECONDS) -> R:
        """Run *work* on the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def do(self, function: Callable[[T], R]) -> R:
        """Call *function* with the context's value, on the loop."""

        async def work() -> R:
            return function(self.it)

        return self.run(work())


@contextmanager
def in_thread(context: AbstractAsyncContextManager[T]) -> Iterator[Running[T]]:
    """Enter *context* on the event loop of a new thread, and leave it there at the end."""
    entered: list[Running[T]] = []
    failures: list[BaseException] = []
    ready = threading.Event()
    stop: asyncio.Event = asyncio.Event()

    async def main() -> None:
        async with context as it:
            entered.append(Running(it, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    def body() -> None:
        try:
            run(main())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=body, name="in_thread", daemon=True)
    thread.start()
    ready.wait()
    try:
        if entered:
            yield entered[0]
    finally:
        if entered and thread.is_alive():
            entered[0].do(lambda _: stop.set())
        thread.join(SECONDS)
        if thread.is_alive():
            raise TimeoutError(f"the context has not ended within {SECONDS:g} s")
        if failures:
            raise failures[0]
