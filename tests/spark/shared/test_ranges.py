"""Planning is arithmetic: what one task reads, what one trigger takes."""

import random

import pytest

from hanabi.message import MessageQueue
from hanabi.spark.broker.time_search import first_not_older
from hanabi.spark.shared.ranges import QueueRange, plan_ranges, share_out

A, B, C = (MessageQueue("Orders", "broker-a", number) for number in range(3))


def test_each_queue_with_messages_is_one_task() -> None:
    planned = plan_ranges({A: 5, B: 7, C: 0}, {A: 10, B: 7, C: 3})
    assert planned == [QueueRange(A, 5, 10), QueueRange(C, 0, 3)]


def test_no_task_reads_more_than_it_may() -> None:
    planned = plan_ranges({A: 0, B: 0}, {A: 25, B: 3}, rows_max=10)
    assert [len(each) for each in planned] == [8, 8, 9, 3]
    assert planned[0].start == 0
    assert [each.end for each in planned[:2]] == [each.start for each in planned[1:3]]


def test_long_queues_are_cut_until_there_are_enough_tasks() -> None:
    planned = plan_ranges({A: 0, B: 0}, {A: 90, B: 10}, partitions_min=5)
    assert [(each.queue, len(each)) for each in planned] == [(A, 22), (A, 23), (A, 22), (A, 23), (B, 10)]


def test_there_are_never_more_tasks_than_messages() -> None:
    assert len(plan_ranges({A: 0, B: 0}, {A: 2, B: 1}, partitions_min=50)) == 3
    assert plan_ranges({A: 4}, {A: 4}, partitions_min=50) == []


@pytest.mark.parametrize("seed", range(30))
def test_however_it_is_cut_every_message_is_read_once(seed: int) -> None:
    chance = random.Random(seed)
    start = {queue: chance.randrange(50) for queue in (A, B, C)}
    end = {queue: start[queue] + chance.randrange(200) for queue in (A, B, C)}
    wanted = chance.randrange(1, 40)
    planned = plan_ranges(start, end, partitions_min=wanted, rows_max=chance.choice([None, 7, 50]))
    read = [(each.queue, offset) for each in planned for offset in range(each.start, each.end)]
    assert read == [(queue, offset) for queue in (A, B, C) for offset in range(start[queue], end[queue])]
    assert len(planned) >= min(wanted, len(read))


def test_a_limit_is_shared_out_by_backlog() -> None:
    assert share_out({A: 0, B: 100, C: 9}, {A: 900, B: 200, C: 9}, 100) == {A: 90, B: 110, C: 9}


def test_below_the_limit_everything_is_taken() -> None:
    assert share_out({A: 0, B: 1}, {A: 4, B: 3}, 6) == {A: 4, B: 3}


@pytest.mark.parametrize("rows_max", [1, 2, 3, 10, 59])
def test_a_small_limit_is_exact_and_never_stalls(rows_max: int) -> None:
    start, end = {A: 0, B: 0, C: 0}, {A: 20, B: 20, C: 20}
    while start != end:
        taken = share_out(start, end, rows_max)
        left = sum(end.values()) - sum(start.values())
        assert sum(taken.values()) - sum(start.values()) == min(rows_max, left)
        assert all(start[queue] <= taken[queue] <= end[queue] for queue in end)
        start = taken


def test_a_queue_that_lost_its_end_is_not_read_backwards() -> None:
    assert share_out({A: 10, B: 0}, {A: 3, B: 5}, 100) == {A: 10, B: 5}


@pytest.mark.parametrize("hint", range(-2, 14))
async def test_a_time_is_found_whatever_the_broker_hints_at(hint: int) -> None:
    times = [10, 10, 20, 20, 20, 30, 40, 40, 50, 60]

    async def find(time_ms: int) -> int:
        async def is_older(at: int) -> bool:
            assert 0 <= at < len(times)
            return times[at] < time_ms

        return await first_not_older(0, len(times), hint, is_older)

    for time_ms in range(5, 70, 5):
        expected = sum(each < time_ms for each in times)
        assert (await find(time_ms)) == expected
