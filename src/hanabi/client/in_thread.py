"""Slow or disk-bound work in a thread, outside the event loop.

Unlike `asyncio.to_thread` it works even after the main thread has ended: from then on Python's executors accept no
work, but other threads of the program may still send, and clients that were not shut down are.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return the result of *work*, or raise its exception. A cancelled caller does not wait for it."""
    try:
        working = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:  # no executor accepts it any more
        return work()
    return await working
