"""Threads of a server: all that its loop hands work to are started before it serves.

A thread that is started when it is needed may be refused then (pids.max of a container, ulimit -u), and a save or a
delivery would fail at a moment that nobody chose. At the start a refusal is one sentence.
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from hanabi.errors import ConfigError

POOL_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)  # as many as asyncio's own pool may have
_REFUSED: Final = "can't start new thread"  # of CPython's RuntimeError


def start_pool(loop: asyncio.AbstractEventLoop, count: int = POOL_THREADS) -> None:
    """Give *loop* a pool for `to_thread` whose threads run already."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="hanabi-pool")
    started = threading.Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(started.wait)
    except RuntimeError:
        started.abort()
        pool.shutdown()
        raise
    started.wait()
    loop.set_default_executor(pool)


@contextmanager
def enough_threads() -> Iterator[None]:
    """Say in one sentence that the system lets us start no more threads."""
    try:
        yield
    except RuntimeError as error:
        if _REFUSED not in str(error):
            raise
        raise ConfigError(
            f"no thread can be started: a server needs about {POOL_THREADS + 10}; raise the limit of processes"
            " (pids.max of the container, ulimit -u)"
        ) from error
