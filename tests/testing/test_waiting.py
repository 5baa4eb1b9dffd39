"""Waiting ends as soon as what is waited for is true, and an error says what never became true."""

import asyncio

import pytest

from hanabi.testing.clock import ManualClock, MovableClock
from hanabi.testing.waiting import eventually, wait_until, within


async def test_eventually_returns_when_it_is_true() -> None:
    seen: list[int] = []
    asyncio.get_running_loop().call_later(0.01, seen.append, 1)
    await eventually(lambda: seen)


async def test_what_never_becomes_true_is_named() -> None:
    with pytest.raises(AssertionError, match=r"the last message did not happen within 0\.01 s"):
        await eventually(lambda: False, "the last message", 0.01)
    with pytest.raises(AssertionError, match="2 of 3 did not"):
        wait_until(lambda: False, lambda: "2 of 3", 0.01)
    with pytest.raises(TimeoutError):
        await within(asyncio.Event().wait(), 0.01)


def test_a_manual_clock_stands_still() -> None:
    clock = ManualClock(1_500)
    assert (clock(), clock.seconds()) == (1_500, 1.5)
    clock.ms += 500
    assert (clock(), clock.seconds()) == (2_000, 2.0)


def test_a_movable_clock_goes_ahead_and_tells_so() -> None:
    clock, moves = MovableClock(), []
    clock.on_move = lambda: moves.append(clock())
    before = clock()
    clock.advance(hours=1, seconds=0.5)
    assert moves[0] - before >= 3_600_500
    with pytest.raises(ValueError, match="would go back"):
        clock.advance(seconds=-1)
