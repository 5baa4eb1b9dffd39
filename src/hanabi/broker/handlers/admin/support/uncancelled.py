"""Multi-step changes that complete even if the requesting connection ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_at_work: set[asyncio.Task[Any]] = set()  # references: the loop keeps only weak ones


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Await *work* without cancelling it when the caller is cancelled."""
    task = asyncio.get_running_loop().create_task(work)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await asyncio.shield(task)
