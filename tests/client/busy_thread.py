"""A loop whose threads are all busy, so that a test sees what is done in one and what is not."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class BusyThread(ThreadPoolExecutor):
    """One thread that has something else to do until it is `freed`; counts what is asked of it meanwhile."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked = 0
        self.freed = threading.Event()
        self.submit(self.freed.wait)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        self.asked += 1
        return super().submit(fn, *args, **kwargs)


@contextmanager
def busy_thread() -> Iterator[BusyThread]:
    """Make this the only thread of the running loop."""
    thread = BusyThread()
    asyncio.get_running_loop().set_default_executor(thread)
    try:
        yield thread
    finally:
        thread.freed.set()
