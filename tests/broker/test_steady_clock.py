"""The broker's clock: what counts of a time of day that somebody sets."""

import logging

import pytest

from hanabi.broker.steady_clock import HELD_MS, LEAP_MS, UNSETTLED_MS, SteadyClock
from hanabi.testing.clock import START_MS

DAYS_100_MS = 100 * 86_400_000


class Machine:
    """A time of day and a monotonic clock."""

    def __init__(self) -> None:
        self.wall_ms, self.monotonic_ms = START_MS, 5_000
        self.clock = SteadyClock(lambda: self.wall_ms * 1_000_000, lambda: self.monotonic_ms)

    def pass_ms(self, ms: int, *, called_every_ms: int = 1_000) -> None:
        for _ in range(0, ms, called_every_ms):
            self.wall_ms += called_every_ms
            self.monotonic_ms += called_every_ms
            self.clock()


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_it_is_the_time_of_day(machine: Machine) -> None:
    machine.pass_ms(10_000)
    assert machine.clock() == machine.wall_ms
    machine.wall_ms -= DAYS_100_MS
    assert machine.clock() == machine.wall_ms
    machine.wall_ms += LEAP_MS - 1
    assert machine.clock() == machine.wall_ms
    assert machine.clock.is_settled


def test_a_leap_that_does_not_last_is_not_seen(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.wall_ms += DAYS_100_MS
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            machine.pass_ms(1_000)
            assert machine.clock() == machine.wall_ms - DAYS_100_MS - 1_000  # since it was called first
    assert caplog.text.count("the clock went ahead by 100 days") == len(caplog.records) == 1
    machine.wall_ms -= DAYS_100_MS
    assert machine.clock() == machine.wall_ms
    machine.pass_ms(86_400_000, called_every_ms=60_000)
    machine.wall_ms += DAYS_100_MS
    assert machine.clock() == machine.wall_ms - DAYS_100_MS


def test_a_leap_that_lasts_counts_after_a_minute(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.wall_ms += DAYS_100_MS
    machine.clock()
    machine.pass_ms(HELD_MS - 1_000)
    assert machine.clock() < START_MS + DAYS_100_MS
    machine.pass_ms(1_000)
    assert machine.clock() == machine.wall_ms
    assert "stays 100 days ahead" in caplog.text


def test_nothing_is_to_be_deleted_for_an_hour_after_a_leap(machine: Machine) -> None:
    machine.wall_ms += DAYS_100_MS
    machine.clock()
    machine.pass_ms(UNSETTLED_MS - 1_000)
    assert not machine.clock.is_settled
    machine.pass_ms(1_000)
    assert machine.clock.is_settled


def test_a_process_that_was_stopped_for_hours_does_not_take_them_for_a_leap(machine: Machine) -> None:
    machine.wall_ms += DAYS_100_MS
    machine.monotonic_ms += DAYS_100_MS
    assert machine.clock() == machine.wall_ms
    assert machine.clock.is_settled


def test_a_second_leap_is_held_as_the_first(machine: Machine) -> None:
    for _ in range(2):
        machine.wall_ms += DAYS_100_MS
        before = machine.clock()
        assert before < machine.wall_ms
        machine.pass_ms(HELD_MS)
        assert machine.clock() == machine.wall_ms
