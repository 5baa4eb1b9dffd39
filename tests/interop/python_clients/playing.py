"""Plays every scenario against one broker, all at the same time: most of their time is waiting."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import NamedTuple

from tests.interop.python_clients import (
    batches,
    commands,
    grouping,
    later,
    leaving,
    pulling,
    pushing,
    sending,
    transactions,
)
from tests.interop.python_clients.stage import Stage

AT_ONCE = 15

_MODULES = (batches, commands, grouping, later, leaving, pulling, pushing, sending, transactions)


def scenario(name: str) -> Callable[[Stage], Awaitable[None]]:
    """Return the scenario that the Java driver has under this name."""
    function: Callable[[Stage], Awaitable[None]] = next(
        getattr(module, name) for module in _MODULES if hasattr(module, name)
    )
    return function


class Ending(NamedTuple):
    """Outcome of a scenario: None is well; otherwise what went wrong, in full."""

    error: str | None
    seconds: float


async def play(namesrv: str, names: Iterable[str]) -> dict[str, Ending]:
    """Play these; what goes wrong in one does not stop the others."""
    wanted = list(names)
    gate = asyncio.Semaphore(AT_ONCE)

    async def play_one(name: str) -> Ending:
        async with gate:
            began = time.monotonic()
            error = None
            try:
                async with AsyncExitStack() as stack:
                    await scenario(name)(Stage(namesrv, name, stack))
            except Exception:  # noqa: BLE001 - it is the result
                error = traceback.format_exc()
            return Ending(error, time.monotonic() - began)

    return dict(zip(wanted, await asyncio.gather(*map(play_one, wanted)), strict=True))
