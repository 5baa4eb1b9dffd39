"""Every test of the transport runs on both event loops."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `tests.remoting.peers` is found

TEST_SECONDS_MAX = 60.0


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Runs a test's coroutine, with a limit on its time. Nothing may fail behind its back or be left behind."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
    behind_our_back: list[dict[str, Any]] = []

    async def limited(main: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: behind_our_back.append(context))
        async with asyncio.timeout(TEST_SECONDS_MAX):
            await main
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def run(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited(main))

    yield run
    gc.collect(1)  # what was not closed says so now, in this test
    assert behind_our_back == []
