"""Delays of answers to wrong signatures: how long, how many are remembered, and what is forgotten."""

import asyncio
import tracemalloc

import pytest

from hanabi.access.guesses import FORGET_SECONDS, KNOWN_MAX, WAITING_MAX, Failures, Guesses, delay_seconds
from hanabi.errors import NoPermission


class Wire:
    """A connection, as far as guesses know it."""

    def __init__(self) -> None:
        self.held: list[float] = []
        self.dropped = ""

    def hold(self, seconds: float) -> None:
        self.held.append(seconds)

    def drop(self, reason: str) -> None:
        self.dropped = reason


def test_the_first_ten_are_answered_at_once_and_the_delay_doubles() -> None:
    assert [delay_seconds(count, 1.0) for count in (1, 10, 11, 12, 13, 14, 15, 10**9)] == [
        *(0.0, 0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)
    ]


def test_a_pause_of_a_minute_ends_it() -> None:
    now = 0.0
    failures = Failures(lambda: now)
    assert [failures.failed("10.0.0.1") for _ in range(3)] == [1, 2, 3]
    now += FORGET_SECONDS - 1
    assert failures.failed("10.0.0.1") == 4
    now += FORGET_SECONDS
    assert failures.failed("10.0.0.1") == 1


@pytest.mark.parametrize("count", [30_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_wrong_signatures_of_a_million_names_take_bounded_memory(count: int) -> None:
    failures = Failures(lambda: 0.0)
    for number in range(KNOWN_MAX):
        failures.failed(f"account-{number}")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            failures.failed(f"other-{number}")
            failures.failed("victim")  # the one that is used stays
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(failures) == KNOWN_MAX
    assert failures.failed("victim") == count + 1
    assert grown < 4 << 20


async def test_an_account_is_delayed_though_each_guess_comes_from_another_address() -> None:
    guesses, wire = Guesses(1.0), Wire()
    for number in range(10):
        with pytest.raises(NoPermission):
            guesses.answer(NoPermission("wrong"), f"10.0.0.{number}", "app", wire)  # type: ignore[arg-type]
    answer = guesses.answer(NoPermission("wrong"), "10.0.1.1", "app", wire)  # type: ignore[arg-type]
    assert wire.held == [0.1]
    async with asyncio.timeout(60):
        assert ((await answer).code, (await answer).remark) == (16, "wrong")


async def test_too_many_waiting_answers_of_one_address_close_its_connections() -> None:
    guesses, wire, other = Guesses(60.0), Wire(), Wire()
    for _ in range(10):
        with pytest.raises(NoPermission):
            guesses.answer(NoPermission("wrong"), "10.0.0.1", None, wire)  # type: ignore[arg-type]
    answers = [
        guesses.answer(NoPermission("wrong"), "10.0.0.1", None, wire)  # type: ignore[arg-type]
        for _ in range(WAITING_MAX)
    ]
    with pytest.raises(NoPermission):
        guesses.answer(NoPermission("wrong"), "10.0.0.1", None, wire)  # type: ignore[arg-type]
    assert "wait for their answers" in wire.dropped
    with pytest.raises(NoPermission):  # the first of another address: at once
        guesses.answer(NoPermission("wrong"), "10.0.0.2", None, other)  # type: ignore[arg-type]
    assert not other.dropped
    for answer in answers:
        answer.cancel()
    await asyncio.sleep(0)
    again = guesses.answer(NoPermission("wrong"), "10.0.0.1", None, other)  # type: ignore[arg-type]
    assert not other.dropped
    again.cancel()
