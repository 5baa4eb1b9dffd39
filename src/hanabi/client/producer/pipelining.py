"""Doing the same for many values at once, a bounded number of them at a time, with the results in order.

A few tasks share the work, so that a value costs no task of its own. Knows nothing of messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sized
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_UNDER_WAY: Final = RuntimeError("not done yet")  # holds the place of a result


async def pipelined(values: Iterable[T], do: Callable[[T], Awaitable[R]], depth: int) -> list[R | Exception]:
    """*do* for each of *values*, begun in their order, at most *depth* under way. What one raises is its result.

    What *values* itself raises is raised when everything that was begun has ended.
    """
    source = iter(values)
    results: list[R | Exception] = []
    source_errors: list[Exception] = []

    async def work() -> None:
        while True:
            try:
                value = next(source)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - raised below
                source_errors.append(error)
                return
            index = len(results)
            results.append(_UNDER_WAY)
            try:
                results[index] = await do(value)
            except Exception as error:  # noqa: BLE001 - it is a result
                results[index] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(depth, len(values)) if isinstance(values, Sized) else depth):
            group.create_task(work())
    if source_errors:
        raise source_errors[0]
    return results
