"""Work that takes long, or waits for the disk, done in a thread beside the event loop.

Unlike `asyncio.to_thread` it is done also when the main thread has ended: from then on Python's own threads take
nothing more, but other threads of the program may still send, and what was forgotten is shut down.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What *work* returns or raises. Whoever is cancelled meanwhile does not wait for it."""
    try:
        working = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:  # no thread takes it any more
        return work()
    return await working
