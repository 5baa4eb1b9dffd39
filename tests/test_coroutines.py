"""A coroutine test runs to its end, on the servers' kind of loop, and no error in it is lost."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from hanabi.remoting.loop import loop_factory
from tests.coroutines import run_strictly


async def fail() -> None:
    raise ValueError("lost")


async def test_a_coroutine_test_is_awaited_on_the_loop_that_the_servers_use(tmp_path: Path) -> None:
    await asyncio.sleep(0)
    with closing(loop_factory()()) as ours:
        assert type(asyncio.get_running_loop()) is type(ours)
    assert tmp_path.name


@pytest.mark.parametrize("number", [1, 2])
async def test_a_coroutine_test_has_its_parameters(number: int) -> None:
    assert number in (1, 2)


def test_what_a_coroutine_test_raises_is_its_failure() -> None:
    with pytest.raises(ValueError, match="lost"):
        run_strictly(fail(), asyncio.new_event_loop)


def test_the_error_of_a_task_that_is_never_awaited_fails_the_test() -> None:
    async def story() -> None:
        asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="never retrieved") as failure:
        run_strictly(story(), asyncio.new_event_loop)
    assert isinstance(failure.value.__cause__, ValueError)


def test_a_callback_that_raises_fails_the_test() -> None:
    async def story() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="unhandled") as failure:
        run_strictly(story(), asyncio.new_event_loop)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_tasks_that_are_left_over_are_cancelled_and_fail_the_test() -> None:
    ended: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(True)

    async def story() -> None:
        asyncio.get_running_loop().create_task(wait())
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="left over"):
        run_strictly(story(), asyncio.new_event_loop)
    assert ended == [True]
