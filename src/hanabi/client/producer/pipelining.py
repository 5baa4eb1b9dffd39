"""Bounded concurrency over many values, with the results in order.

A few tasks share the work, so that a value costs no task of its own. Independent of messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sized
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_UNDER_WAY: Final = RuntimeError("not done yet")  # placeholder for a pending result


async def pipelined(values: Iterable[T], do: Callable[[T], Awaitable[R]], depth: int) -> list[R | Exception]:
    """Run *do* for each of *values*, started in order, at most *depth* in flight. An exception becomes the value's
    result.

    An exception of *values* itself is raised when all started work has ended.
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
