"""A bound on what is under way."""

import asyncio
from typing import Any

import pytest

from hanabi.client.producer.back_pressure import BackPressure
from hanabi.client.producer.pipelining import pipelined
from hanabi.errors import TooManyRequestsError


async def test_who_would_be_one_too_many_waits_its_turn() -> None:
    gate = BackPressure(2, 1000)
    order: list[str] = []

    async def enter(name: str, size: int) -> None:
        await gate.enter(size, 5)
        order.append(name)

    await enter("first", 1)
    await enter("second", 1)
    waiting = [asyncio.create_task(enter(name, 1)) for name in ("third", "fourth")]
    await asyncio.sleep(0)
    assert order == ["first", "second"]
    assert not gate.enter_at_once(1)
    gate.leave(1)
    await waiting[0]
    assert order == ["first", "second", "third"]
    gate.leave(1)
    await waiting[1]
    gate.leave(1)
    gate.leave(1)
    assert gate.sends == 0


async def test_bytes_are_counted_and_a_large_message_passes_when_it_is_alone() -> None:
    gate = BackPressure(100, 10)
    assert gate.enter_at_once(6)
    assert not gate.enter_at_once(5)
    assert gate.enter_at_once(4)
    large = asyncio.create_task(gate.enter(5000, 5))
    await asyncio.sleep(0)
    gate.leave(6)
    await asyncio.sleep(0)
    assert not large.done()
    gate.leave(4)
    await large
    assert not gate.enter_at_once(1)
    gate.leave(5000)
    assert gate.enter_at_once(1)


async def test_waiting_too_long_is_an_error_that_says_what_is_under_way() -> None:
    gate = BackPressure(1, 100)
    assert gate.enter_at_once(40)
    with pytest.raises(TooManyRequestsError, match="1 sends of 40 bytes are in flight, limits 1 and 100"):
        await gate.enter(1, 0.01)
    gate.leave(40)
    assert gate.enter_at_once(1)


async def test_a_waiter_that_is_cancelled_takes_no_place() -> None:
    gate = BackPressure(1, 100)
    assert gate.enter_at_once(1)
    waiting = [asyncio.create_task(gate.enter(1, 5)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave(1)  # lets the second in, unless it still believes in the first
    await waiting[1]
    waiting[2].cancel()
    await asyncio.wait(waiting)
    gate.leave(1)
    assert gate.sends == 0


async def test_one_that_is_let_in_and_cancelled_in_the_same_moment_gives_its_place_back() -> None:
    gate = BackPressure(1, 100)
    assert gate.enter_at_once(1)
    waiting = asyncio.create_task(gate.enter(1, 5))
    await asyncio.sleep(0)
    gate.leave(1)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert gate.sends == 0


async def test_until_empty_waits_for_the_last_or_for_the_time() -> None:
    gate = BackPressure(5, 100)
    assert await gate.until_empty(0)
    gate.enter_at_once(1)
    assert not await gate.until_empty(0.01)
    waiting = asyncio.create_task(gate.until_empty(5))
    await asyncio.sleep(0)
    gate.leave(1)
    assert await waiting


async def test_a_pipeline_keeps_its_depth_and_the_order_of_results() -> None:
    under_way, most = 0, 0

    async def double(value: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (value % 3))
        under_way -= 1
        if value == 5:
            raise ValueError("five")
        return 2 * value

    results = await pipelined((value for value in range(20)), double, 4)
    assert most == 4
    assert isinstance(results[5], ValueError)
    assert [result for result in results if isinstance(result, int)] == [2 * v for v in range(20) if v != 5]
    assert await pipelined([], double, 4) == []


async def test_what_the_values_raise_is_raised_after_the_rest_has_ended() -> None:
    done: list[int] = []

    def values() -> Any:
        yield 1
        yield 2
        raise LookupError("no third")

    async def do(value: int) -> None:
        await asyncio.sleep(0)
        done.append(value)

    with pytest.raises(LookupError, match="no third"):
        await pipelined(values(), do, 3)
    assert done == [1, 2]


# When brokers have too much to do


async def test_half_as_many_may_be_under_way_after_a_wave_was_refused_and_slowly_more_again() -> None:
    gate = BackPressure(1000, 1000)
    for _ in range(64):
        assert gate.enter_at_once(0)
    for _ in range(64):  # all of them were sent before anybody knew
        gate.slow_down(began=10.0, now=11.0)
    assert gate.limit == 32
    gate.slow_down(began=10.9, now=12.0)
    assert gate.limit == 32, "that one was of the same wave"
    gate.slow_down(began=11.5, now=12.5)
    assert gate.limit == 16
    assert not gate.enter_at_once(0)
    for _ in range(64):
        gate.leave(0)
    assert 16 < gate.limit < 64
    for _ in range(9_000):
        assert gate.enter_at_once(0)
        gate.leave(0)
    assert gate.limit == 1000


async def test_one_may_always_be_under_way() -> None:
    gate = BackPressure(8, 1000)
    for moment in range(20):
        gate.slow_down(began=moment + 0.5, now=moment + 1.0)
    assert gate.limit == 1
    assert gate.enter_at_once(5)
    waiting = asyncio.create_task(gate.enter(5, None))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.leave(5)
    await waiting


async def test_what_comes_again_at_once_is_waited_for_too() -> None:
    gate = BackPressure(8, 1000)
    assert gate.enter_at_once(1)
    empty = asyncio.create_task(gate.until_empty(5.0))
    await asyncio.sleep(0)
    gate.leave(1)
    assert gate.enter_at_once(1)
    await asyncio.sleep(0.01)
    assert not empty.done()
    gate.leave(1)
    assert await empty
