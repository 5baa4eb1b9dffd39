"""Busy is what does not empty, not what was full once."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.send.flow_control import STANDING_SAMPLES, FlowControl, flush_ms_max
from hanabi.store.config import FlushMode, StoreConfig
from tests.broker.send.test_intake import MESSAGE
from tests.broker.sending import Taking


class Seconds:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def taking(tmp_path: Path) -> Taking:
    return Taking(tmp_path)


def test_a_loop_that_was_late_once_or_twice_is_not_busy(taking: Taking) -> None:
    flow = taking.flow
    for late_seconds in (0.0, 5.0, 5.0, 0.1, 5.0, 5.0, 0.2):
        flow.sample(late_seconds)
        assert flow.busy is None
    taking.close()


def test_a_loop_that_stays_late_is_busy_until_it_is_in_time_again(taking: Taking) -> None:
    flow = taking.flow
    for _ in range(STANDING_SAMPLES):
        assert flow.busy is None
        flow.sample(0.35)
    assert flow.busy == "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 350ms"
    flow.sample(0.2)
    assert flow.busy is None
    taking.close()


def test_the_limit_can_be_changed_and_the_whole_turned_off_at_run_time(taking: Taking) -> None:
    flow, settings = taking.flow, taking.settings
    settings.update("waitTimeMillsInSendQueue=1000")
    for _ in range(5):
        flow.sample(0.9)
    assert flow.busy is None
    settings.update("waitTimeMillsInSendQueue=500")
    for _ in range(5):
        flow.sample(0.9)
    assert flow.busy is not None
    settings.update("brokerFastFailureEnable=false")
    flow.sample(0.9)
    assert flow.busy is None
    taking.close()


@pytest.mark.parametrize("mode", list(FlushMode))
def test_a_disk_that_takes_nothing_for_too_long_is_busy_until_it_does(tmp_path: Path, mode: FlushMode) -> None:
    clock = Seconds()
    taking = Taking(tmp_path, flush_mode=mode)
    flow = FlowControl(taking.store, taking.settings, clock=clock)
    limit = flush_ms_max(taking.store.config) / 1000
    clock.now += 3_600.0  # nothing to flush: nothing is behind
    flow.sample(0.0)
    assert flow.busy is None
    taking.intake.put(MESSAGE)
    flow.sample(0.0)  # from here on it counts
    clock.now += limit
    taking.intake.put(MESSAGE)
    flow.sample(0.0)
    assert flow.busy is None
    clock.now += 0.5
    flow.sample(0.0)
    assert flow.busy == (
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, "
        f"the disk is {int(limit * 1000) + 500}ms behind"
    )
    taking.store.flush(log_only=True)
    flow.sample(0.0)
    assert flow.busy is None
    taking.close()


def test_a_disk_that_is_always_a_little_behind_is_not_busy(tmp_path: Path) -> None:
    clock = Seconds()
    taking = Taking(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    flow = FlowControl(taking.store, taking.settings, clock=clock)
    for _ in range(20):
        taking.intake.put(MESSAGE)
        flow.sample(0.0)
        taking.intake.put(MESSAGE)
        clock.now += 3.0
        taking.store.flush(log_only=True)
        taking.intake.put(MESSAGE)
        flow.sample(0.0)
        assert flow.busy is None
    taking.close()


def test_the_patience_with_a_disk_is_what_its_flush_mode_plans_and_a_second() -> None:
    config = StoreConfig()
    assert flush_ms_max(config) == 500 + 10_000 + 1_000
    assert flush_ms_max(msgspec.structs.replace(config, flush_mode=FlushMode.SYNC_FLUSH)) == 5_000 + 1_000


@pytest.mark.parametrize(("limit_ms", "seconds"), [(200, 0.05), (0, 0.01), (100_000, 0.1)])
def test_samples_are_taken_some_times_within_the_limit(taking: Taking, limit_ms: int, seconds: float) -> None:
    taking.settings.update(f"waitTimeMillsInSendQueue={limit_ms}")
    assert taking.flow.interval_seconds == seconds
    taking.close()


async def test_the_timer_measures_how_late_it_is(tmp_path: Path) -> None:
    taking = Taking(tmp_path)
    taking.settings.update("waitTimeMillsInSendQueue=20")
    seconds, is_busy = Seconds(), asyncio.Event()

    def slow_clock() -> float:
        """Return the loop takes half a second for everything."""
        seconds.now += 0.5
        if flows and flows[0].busy is not None:
            is_busy.set()
        return seconds.now

    flows: list[FlowControl] = []
    flows.append(FlowControl(taking.store, taking.settings, clock=slow_clock))
    task = asyncio.create_task(flows[0].run())
    async with asyncio.timeout(60):
        await is_busy.wait()
    task.cancel()
    assert "period in queue: 490ms" in (flows[0].busy or "")
    taking.close()
