"""Changes in many steps that go on to their end, whatever becomes of the connection that asked for them."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_at_work: set[asyncio.Task[Any]] = set()  # a loop alone would not keep them


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Await *work*. A caller that is cancelled does not cancel it."""
    task = asyncio.get_running_loop().create_task(work)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await asyncio.shield(task)
