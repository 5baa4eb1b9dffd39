"""Pulls that wait: who is woken by what, when their time is over, and what they cost while they wait."""

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.pull.long_polling import HeldPull, HeldPulls, Wants
from hanabi.broker.settings import Settings
from hanabi.errors import NoPermission
from hanabi.remoting.connection.dispatch import Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Dispatched
from hanabi.testing.clock import ManualClock
from hanabi.testing.waiting import within
from hanabi.wire.headers.pull import PullMessageHeader
from tests.steps import steps

NOBODY = cast(Connection, object())  # kept and handed back, never looked at


def pull(topic: str = "T", queue_id: int = 0, offset: int = 0) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="g",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=2,
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
    )


def arrival(topic: str = "T", queue_id: int = 0, offset: int = 0, *, tags_code: int = 0) -> Dispatched:
    return Dispatched(topic, queue_id, offset, 0, 100, tags_code, 0, b"")


class Table:
    """Held pulls with a clock that stands still, and what was answered in which order."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(0)
        self.settings = Settings(BrokerConfig(broker_name="broker-a", **settings), StoreConfig())
        self.held_pulls = HeldPulls(self.settings, self.clock)
        self.answered: list[HeldPull] = []

    def hold(
        self,
        header: PullMessageHeader | None = None,
        *,
        wait_ms: int = 15_000,
        wants: Wants | None = None,
        wakes: bool = True,
        answer: Callable[[HeldPull], Reply] | None = None,
    ) -> HeldPull:
        held = self.held_pulls.hold(
            header or pull(), NOBODY, answer or self._answer, wait_ms=wait_ms, wants=wants, wakes=wakes
        )
        assert held is not None
        return held

    def _answer(self, held: HeldPull) -> Reply:
        self.answered.append(held)
        return Reply(remark=f"{held.header.topic}/{held.header.queue_id} from {held.offset}")

    async def after(self, ms: int) -> None:
        """Advance the clock, and wait until the expired ones are answered."""
        self.clock.ms += ms
        self.held_pulls.expire()
        await settled()


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_pull_is_woken_by_a_message_of_its_queue_and_no_other() -> None:
    table = Table()
    held = table.hold(pull("T", 1))
    for other in (arrival("T", 0), arrival("U", 1)):
        table.held_pulls.arrived(other)
    await settled()
    assert not held.done()
    table.held_pulls.arrived(arrival("T", 1))
    assert not held.done()  # not inside the put that wakes it
    assert (await held).remark == "T/1 from 0"
    assert len(table.held_pulls) == 0


async def test_all_pulls_on_one_queue_are_woken_in_the_order_in_which_they_came() -> None:
    table = Table()
    held = [table.hold() for _ in range(5)]
    table.held_pulls.arrived(arrival())
    await asyncio.gather(*held)
    assert table.answered == held


async def test_a_woken_pull_is_answered_once_however_many_messages_come() -> None:
    table = Table()
    held = table.hold()
    for offset in range(3):
        table.held_pulls.arrived(arrival(offset=offset))
    await held
    table.held_pulls.arrived(arrival(offset=3))
    await table.after(60_000)
    assert table.answered == [held]


async def test_a_pull_is_not_woken_by_what_it_does_not_want_and_goes_on_behind_it() -> None:
    table = Table()
    held = table.hold(pull(offset=7), wants=lambda message: message.tags_code == 1)
    for offset in (7, 8):
        table.held_pulls.arrived(arrival(offset=offset, tags_code=2))
    await settled()
    assert not held.done()
    table.held_pulls.arrived(arrival(offset=9, tags_code=1))
    assert (await held).remark == "T/0 from 9"


async def test_a_pull_goes_on_behind_nothing_that_it_was_not_asked_about() -> None:
    table = Table()
    held = table.hold(pull(offset=7), wants=lambda _: False)
    table.held_pulls.arrived(arrival(offset=9))
    await table.after(15_000)
    assert held.result().remark == "T/0 from 7"


async def test_a_pull_is_answered_when_its_time_is_over_and_not_before() -> None:
    table = Table()
    short, long = table.hold(wait_ms=3_000), table.hold(wait_ms=15_000)
    await table.after(2_999)
    assert not short.done()
    await table.after(1)
    assert short.done()
    assert not long.done()
    await table.after(11_999)
    assert not long.done()
    await table.after(1)
    assert long.done()
    assert len(table.held_pulls) == 0


@pytest.mark.parametrize(("wait_ms", "late_ms"), [(100, 0), (1_001, 3), (15_000, 50), (30 * 60_000, 50)])
async def test_a_pull_waits_hardly_longer_than_it_asked(wait_ms: int, late_ms: int) -> None:
    table = Table()
    table.clock.ms = 7
    held = table.hold(wait_ms=wait_ms)
    await table.after(wait_ms - 1)
    assert not held.done()
    await table.after(1 + late_ms)
    assert held.done()


async def test_the_timer_answers_by_itself_also_one_that_came_later_but_waits_shorter() -> None:
    table = Table()
    held_pulls = HeldPulls(table.settings)  # by the real clock
    started = time.monotonic()
    answers = [held_pulls.hold(pull(), NOBODY, lambda _: Reply(), wait_ms=wait_ms) for wait_ms in (60_000, 30, 80)]
    first, second, third = [cast(HeldPull, held) for held in answers]
    async with asyncio.timeout(60):
        await second
        assert time.monotonic() - started >= 0.029  # its clock counts whole milliseconds
        await third
        assert time.monotonic() - started >= 0.079
    assert not first.done()
    first.cancel()


async def test_when_short_polling_is_on_an_arrival_wakes_nobody() -> None:
    table = Table()
    held = table.hold(wait_ms=3_000, wakes=False)
    table.held_pulls.arrived(arrival())
    await settled()
    assert not held.done()
    await table.after(3_000)
    assert held.done()


async def test_the_table_has_a_limit() -> None:
    table = Table(held_pulls_max=2)
    first, _ = table.hold(), table.hold(pull("U"))
    refused = table.held_pulls.hold(pull("V"), NOBODY, lambda _: Reply(), wait_ms=1_000)
    assert refused is None
    first.cancel()
    table.hold(pull("V"))
    assert len(table.held_pulls) == 2


@pytest.mark.parametrize("wait_ms", [0, -1, -(2**63)])
async def test_who_does_not_want_to_wait_is_not_held(wait_ms: int) -> None:
    assert Table().held_pulls.hold(pull(), NOBODY, lambda _: Reply(), wait_ms=wait_ms) is None


async def test_a_wait_of_centuries_does_no_harm() -> None:
    table = Table()
    held = table.hold(wait_ms=2**63 - 1)
    table.held_pulls.arrived(arrival())
    await held


async def test_a_cancelled_pull_is_forgotten_at_once() -> None:
    table = Table()
    waiting = [table.hold() for _ in range(3)]
    task = asyncio.ensure_future(_await(waiting[1]))
    await settled()
    task.cancel()
    await settled()
    assert len(table.held_pulls) == 2
    table.held_pulls.arrived(arrival())
    waiting[2].cancel()  # woken, not answered yet
    await settled()
    assert table.answered == [waiting[0]]
    assert len(table.held_pulls) == 0


async def _await(held: HeldPull) -> Reply:
    return await held


async def test_an_answer_that_fails_fails_alone() -> None:
    def fail(_: HeldPull) -> Reply:
        raise NoPermission("not any more")

    table = Table()
    failing, other = table.hold(answer=fail), table.hold()
    table.held_pulls.arrived(arrival())
    await other
    with pytest.raises(NoPermission):
        await failing


async def test_a_pull_that_is_held_again_while_others_are_answered_waits_for_the_next_message() -> None:
    table = Table()
    again: list[HeldPull] = []

    def answer(_: HeldPull) -> Reply:
        again.append(table.hold())
        table.held_pulls.arrived(arrival(offset=1))
        return Reply()

    table.hold(answer=answer)
    table.held_pulls.arrived(arrival())
    await settled()
    assert again[0].done()


async def test_at_the_end_all_are_answered_and_none_is_held_any_more() -> None:
    table = Table()
    held = [table.hold(pull("T", queue_id)) for queue_id in range(3)] + [table.hold(wakes=False)]
    table.held_pulls.release()
    await asyncio.gather(*held)
    assert len(table.held_pulls) == 0
    assert table.held_pulls.hold(pull(), NOBODY, lambda _: Reply(), wait_ms=1_000) is None


async def test_when_thousands_are_woken_at_once_the_loop_has_turns_in_between() -> None:
    def slowly(_: HeldPull) -> Reply:
        end = time.monotonic() + 0.000_2
        while time.monotonic() < end:
            pass
        return Reply()

    table = Table()
    held = [table.hold(answer=slowly) for _ in range(200)]
    table.held_pulls.arrived(arrival())
    turns = 0
    while not held[-1].done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10  # 40 ms of work in turns of 2 ms


async def test_what_was_held_and_woken_leaves_nothing_behind() -> None:
    table = Table()
    for number in range(20_000):
        held = table.hold(pull("Gone", number % 3), wait_ms=1_000 + 10 * number)
        table.held_pulls.arrived(arrival("Gone", number % 3))
        if number % 100 == 0:
            await settled()
    await settled()
    assert held.done()
    held_pulls = table.held_pulls
    deadlines = held_pulls._deadlines
    assert len(held_pulls) == len(held_pulls._by_queue) == len(deadlines._buckets) == len(list(deadlines)) == 0
    assert len(deadlines._keys) < 2_000
    table.answered.clear()
    del held
    gc.collect()
    assert not any(isinstance(thing, HeldPull) and thing.header.topic == "Gone" for thing in gc.get_objects())


async def test_nobody_is_looked_at_while_ten_thousand_wait() -> None:
    table = Table()
    held_pulls = HeldPulls(table.settings)
    waiting = [
        held_pulls.hold(pull("T", queue_id), NOBODY, lambda _: Reply(), wait_ms=60_000) for queue_id in range(10_000)
    ]
    done: list[str] = []
    sys.setprofile(lambda frame, event, _: done.append(frame.f_code.co_name) if event == "call" else None)
    await asyncio.sleep(0.3)
    sys.setprofile(None)
    assert len(done) < 50, done  # what the loop and this test did; no timer of ours rang
    for held in waiting:
        cast(HeldPull, held).cancel()


async def test_an_arrival_for_which_nobody_waits_costs_next_to_nothing() -> None:
    table = Table()
    for queue_id in range(1, 1_000):
        table.hold(pull("T", queue_id))
    message = arrival()
    assert steps(lambda: table.held_pulls.arrived(message)) < 10
    table.held_pulls.release()


async def test_pulls_whose_filters_take_too_long_are_woken_without_being_asked() -> None:
    table = Table()
    asked = 0

    def slow(_: Dispatched) -> bool:
        nonlocal asked
        asked += 1
        time.sleep(0.003)
        return False

    pulls = [table.hold(wants=slow) for _ in range(100)]
    table.held_pulls.arrived(arrival())
    assert 1 <= asked < 50
    assert len(table.held_pulls) == asked  # those that were asked wait on
    await within(asyncio.gather(*(pull for pull in pulls if not pull.is_held)))
