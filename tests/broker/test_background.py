"""Work beside the serving goes on after a failure, and ends with the stop."""

import asyncio

import pytest

from hanabi.broker.background import Background
from hanabi.errors import StoreFull


async def test_work_at_an_interval_goes_on_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    enough = asyncio.Event()
    calls: list[int] = []

    def work() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise OSError("no room")
        if len(calls) == 3:
            enough.set()

    background.every("counting", lambda: 0.0, work)
    await enough.wait()
    await background.stop()
    count = len(calls)
    await asyncio.sleep(0)
    assert len(calls) == count

    assert "counting failed, retrying at the next interval" in caplog.text


async def test_a_failure_that_has_a_name_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    failed = asyncio.Event()

    def work() -> None:
        failed.set()
        raise StoreFull("no room on the disk")

    background.every("saving", lambda: 0.0, work)
    await failed.wait()
    await background.stop()

    assert caplog.records[0].getMessage() == "saving failed, retrying at the next interval: no room on the disk"
    assert caplog.records[0].exc_info is None


async def test_work_may_be_something_to_wait_for() -> None:
    background = Background()
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    background.every("waiting", lambda: 0.0, work)
    await done.wait()
    await background.stop()


async def test_a_task_that_fails_begins_again_and_one_that_ends_does_not(caplog: pytest.LogCaptureFixture) -> None:
    background = Background(restart_seconds=0.0)
    calls: list[int] = []
    ended = asyncio.Event()

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise RuntimeError("not yet")
        ended.set()

    background.run("trying", work)
    await ended.wait()
    await asyncio.sleep(0)
    assert len(calls) == 3
    await background.stop()

    assert caplog.text.count("trying failed, restarting it") == 2
