"""Bounded concurrent calls, one coroutine per item, so that one slow peer does not delay the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

A = TypeVar("A")
T = TypeVar("T")

AT_ONCE: Final = 256


async def for_each(work: Callable[[A], Awaitable[T]], items: Iterable[A], *, at_once: int = AT_ONCE) -> list[T]:
    """Return the results of *work* for all *items*, in order. A failure or a cancellation cancels the calls in flight,
    and is raised when all of them have ended.
    """
    room = asyncio.Semaphore(at_once)

    async def one(item: A) -> T:
        async with room:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    if not tasks:
        return []
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()  # raises the failure that cancelled the rest
    return [task.result() for task in tasks]
