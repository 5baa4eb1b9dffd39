"""Tests of work in threads, also when threads take no more."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from hanabi.client.in_thread import in_thread
from tests.client.busy_thread import busy_thread


async def test_work_that_is_given_up_leaves_no_trace_of_its_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with busy_thread():

        def work() -> None:
            raise ValueError("bad")

        given_up = asyncio.create_task(in_thread(work))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    with pytest.raises(ValueError, match="bad"):
        await in_thread(work)

    assert caplog.records == []


async def test_what_no_thread_takes_any_more_is_done_all_the_same() -> None:
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    executor.shutdown()
    assert await in_thread(lambda: "done") == "done"
