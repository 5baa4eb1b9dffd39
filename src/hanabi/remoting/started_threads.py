"""A pool of threads that run already.

A thread that is started when it is needed may be refused then (pids.max of a container, ulimit -u), and CPython's pool
keeps the work in its queue though it has raised. A pool that was started whole refuses nothing later.

Rare work that waits for a disk has a thread for itself: in the loop's own pool a few such writes would delay all that
goes there, name look-ups among it.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def started_threads(count: int, name: str) -> ThreadPoolExecutor:
    """Start *count* threads. RuntimeError if the system refuses one."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    started = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(started.wait)  # each keeps its thread until all are there
    except RuntimeError:
        started.abort()
        pool.shutdown(cancel_futures=True)
        raise
    started.wait()
    return pool


async def in_own_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what *work* returns, run in a thread that ends with it. It runs to its end, though the caller may not."""
    thread = started_threads(1, f"hanabi-{getattr(work, '__name__', 'work')}")
    try:
        return await asyncio.wrap_future(thread.submit(work, *args, **kwargs))
    finally:
        thread.shutdown(wait=False)
