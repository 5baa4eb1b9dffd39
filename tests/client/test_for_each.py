"""Many at a time, results in order; a failure or a cancellation leaves nothing running."""

import asyncio

import pytest

from hanabi.client.for_each import for_each


async def test_results_come_in_the_order_of_the_items_and_no_more_run_at_once_than_allowed() -> None:
    running = most = 0

    async def double(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(10 - item):
            await asyncio.sleep(0)
        running -= 1
        return 2 * item

    assert await for_each(double, range(10), at_once=3) == [2 * item for item in range(10)]
    assert most == 3
    assert await for_each(double, []) == []


async def test_a_failure_ends_the_others_and_is_raised_when_they_have_ended() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        if item == 1:
            raise ValueError("one")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(item)

    with pytest.raises(ValueError, match="one"):
        await for_each(work, [0, 1, 2])
    assert ended == [0, 2]


async def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(item)

    task = asyncio.create_task(for_each(work, [0, 1]))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert ended == [0, 1]
