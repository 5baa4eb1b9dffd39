"""Delayed and timed messages while the process can open no file: they come later, and none is declared gone."""

import asyncio
import logging

import msgspec
import pytest

from hanabi.errors import StoreError
from hanabi.testing.waiting import eventually
from tests.broker.delay.world import SECOND, World, message
from tests.store.open_files import no_free_descriptors


def close_queue_files(world: World) -> None:
    world.store.flush()
    world.store._queues.descriptors.close()


def test_delayed_messages_are_delivered_when_their_queue_can_be_read_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(150):  # more than one file of the queue
        world.put(message(b"%d" % number, DELAY=1))
    close_queue_files(world)
    world.clock.ms += SECOND
    with no_free_descriptors():
        for _ in range(50):
            world.levels.step()
    world.levels.save()
    assert world.bodies() == []
    assert "are gone" not in caplog.text
    world.pass_time(10 * SECOND)
    assert world.bodies() == [b"%d" % number for number in range(150)]
    assert msgspec.json.decode((world.home / "config" / "delayOffset.json").read_bytes())["offsetTable"] in (
        {},
        {"1": 0},
    )


def test_a_level_that_cannot_be_read_does_not_hold_up_the_others(world: World) -> None:
    world.put(message(b"first", DELAY=1))
    close_queue_files(world)
    world.put(message(b"second", DELAY=2))  # its entry is in memory
    world.clock.ms += 5 * SECOND
    with no_free_descriptors():
        for _ in range(50):
            world.levels.step()
        assert [pending.body for pending in world.deliveries] == [b"second"]
    world.pass_time(10 * SECOND)
    assert sorted(world.bodies()) == [b"first", b"second"]


def test_a_start_without_descriptors_forgets_no_delayed_message(world: World) -> None:
    for number in range(25):
        world.put(message(b"%d" % number, DELAY=1))
    close_queue_files(world)
    levels = world.levels
    with no_free_descriptors():
        for level in levels._levels.values():
            levels._begin_level(level)
    world.pass_time(20 * SECOND)
    assert world.bodies() == [b"%d" % number for number in range(25)]


def test_timed_messages_are_noted_when_their_queue_can_be_read_again(world: World) -> None:
    due = world.clock.ms + 5 * SECOND
    for number in range(150):
        world.put(message(b"%d" % number, TIMER_DELIVER_MS=due))
    world.timer._begin(None)  # as after a start: all has to be read from the timer topic
    close_queue_files(world)
    with no_free_descriptors():
        for _ in range(50):
            with pytest.raises(StoreError, match="Too many open files"):
                world.timer.step()
    world.pass_time(5 * SECOND)
    assert world.bodies() == [b"%d" % number for number in range(150)]


def test_the_files_of_the_timer_are_not_made_anew_because_they_cannot_be_opened(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.put(message(b"x", TIMER_DELIVER_MS=world.clock.ms + 3_000 * SECOND))
    world = world.next_life()
    world.timer.step()
    world.clock.ms += 3_000 * SECOND
    with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
        world.timer.step()
    assert "rebuilding the timer's files" not in caplog.text
    world.pass_time(0)
    assert world.bodies() == [b"x"]
    world.store.close()


async def test_an_error_of_the_system_is_logged_once_and_without_a_traceback(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.put(message(b"x", DELAY=1))
    close_queue_files(world)

    async def main() -> None:
        task = asyncio.create_task(world.levels.run())
        with no_free_descriptors():
            world.clock.ms += SECOND
            world.levels._alarm.wake()
            await eventually(lambda: caplog.records)
        world.clock.ms += 10 * SECOND
        world.levels._alarm.wake()
        await eventually(world.bodies)
        task.cancel()
        await asyncio.wait((task,))

    with caplog.at_level(logging.WARNING):
        await main()
    (record,) = (record for record in caplog.records if "Too many open files" in record.getMessage())
    assert record.exc_info is None
