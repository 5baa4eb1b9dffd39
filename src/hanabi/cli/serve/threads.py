"""Threads of a server: all that its loop hands work to are started before it serves.

Otherwise a save or a delivery would fail when the system refuses a thread. At the start a refusal is one sentence.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hanabi.errors import ConfigError
from hanabi.remoting.started_threads import started_threads

POOL_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)  # as many as asyncio's own pool may have
_REFUSED: Final = "can't start new thread"  # of CPython's RuntimeError


def start_pool(loop: asyncio.AbstractEventLoop, count: int = POOL_THREADS) -> None:
    """Give *loop* a pool for `to_thread` whose threads run already."""
    loop.set_default_executor(started_threads(count, "hanabi-pool"))


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
