"""Waits in tests for other tasks, threads and processes.

await eventually(lambda: len(received) == 3, "three messages") wait_until(lambda: process.poll() is not None, "the end
of the process")
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
What = str | Callable[[], str]

# Enough on a slow machine; less than the 20 s after which consumers rebalance without a notification.
SECONDS: Final = 18.0
_PAUSE_S: Final = 0.005


async def eventually(true: Callable[[], object], what: What = "it", seconds: float = SECONDS) -> None:
    """Wait until *true()* is; after *seconds*, fail with the text *what*."""
    deadline = time.monotonic() + seconds
    while not true():
        _check(deadline, what, seconds)
        await asyncio.sleep(_PAUSE_S)


def wait_until(true: Callable[[], object], what: What = "it", seconds: float = SECONDS) -> None:
    """Block until *true()* is; the counterpart of `eventually` for threads."""
    deadline = time.monotonic() + seconds
    while not true():
        _check(deadline, what, seconds)
        time.sleep(_PAUSE_S)


async def within(work: Awaitable[T], seconds: float = SECONDS) -> T:
    """Return the result of *work*; raise TimeoutError if it takes more than *seconds*."""
    async with asyncio.timeout(seconds):
        return await work


def _check(deadline: float, what: What, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"{what if isinstance(what, str) else what()} did not happen within {seconds:g} s")
