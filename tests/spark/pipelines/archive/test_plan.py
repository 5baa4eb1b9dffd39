"""Tests of what the next step of an archive takes, what may be deleted after it, and which files are worth joining.
Pure."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.pipelines.archive.check import Written, check
from hanabi.spark.pipelines.archive.compaction import MANY, is_over, joined_count, small_files
from hanabi.spark.pipelines.archive.plan import Backlog, backlog, deletable
from hanabi.spark.pipelines.archive.state import ArchivedQueue, ArchiveState, with_queues
from hanabi.spark.pipelines.support.file_system import FoundFile

A, B = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def archived(queue: MessageQueue, first: int, end: int, log_offset: int = -1) -> ArchivedQueue:
    return ArchivedQueue(
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        first=first,
        end=end,
        log_offset=log_offset,
    )


def test_a_queue_goes_on_where_it_is_archived_and_a_new_one_begins_where_it_is_told() -> None:
    found = backlog({A: 7}, {A: 2, B: 3}, {A: 10, B: 9}, {B: 5}, {}, fail_on_data_loss=True)
    assert (found.start, found.end, found.messages, found.lost) == ({A: 7, B: 5}, {A: 10, B: 9}, 7, 0)
    assert backlog({}, {A: 2}, {A: 10}, {}, {}, fail_on_data_loss=True).start == {A: 2}
    assert backlog({}, {A: 2}, {A: 10}, {A: 99}, {}, fail_on_data_loss=True).start == {A: 10}


def test_messages_that_were_deleted_before_they_were_archived_are_an_error_or_counted() -> None:
    with pytest.raises(MQError, match=r"queue 0 of broker-a: messages 3 to 4 were deleted before they were archived"):
        backlog({A: 3}, {A: 5}, {A: 9}, {}, {}, fail_on_data_loss=True)
    found = backlog({A: 3}, {A: 5}, {A: 9}, {}, {}, fail_on_data_loss=False)
    assert (found.start, found.lost) == ({A: 5}, 2)
    with pytest.raises(MQError, match=r"ends at 4, but is archived up to 9: was the topic re-created\?"):
        backlog({A: 9}, {A: 0}, {A: 4}, {}, {}, fail_on_data_loss=True)
    assert backlog({A: 9}, {A: 1}, {A: 4}, {}, {}, fail_on_data_loss=False).start == {A: 1}
    with pytest.raises(MQError, match=r"has another message at 8 than was archived"):
        backlog({A: 9}, {A: 0}, {A: 20}, {}, {A: 3}, fail_on_data_loss=True)
    assert backlog({A: 9}, {A: 0}, {A: 20}, {}, {A: 3}, fail_on_data_loss=False).start == {A: 3}


@given(st.dictionaries(st.sampled_from([A, B]), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1),
       st.integers(1, 30))  # fmt: skip
def test_steps_take_everything_once_and_never_too_much(ranges: dict[MessageQueue, tuple[int, int]], most: int) -> None:
    left = Backlog({q: low for q, (low, _) in ranges.items()}, {q: low + n for q, (low, n) in ranges.items()}, 0)
    taken = {queue: low for queue, (low, _) in ranges.items()}
    while left.messages:
        stop = left.next(most)
        assert 0 < sum(stop[queue] - left.start[queue] for queue in stop) <= most
        assert all(left.start[queue] == taken[queue] for queue in stop)
        taken |= stop
        left = left.after(stop)
    assert taken == left.end


def test_a_log_may_be_deleted_up_to_what_is_archived_of_every_queue() -> None:
    done = [archived(A, 0, 10, 1_000), archived(B, 0, 4, 700)]
    (all_there,) = deletable(done, {A: 10, B: 4})
    assert (all_there.log_offset, all_there.behind) == (1_000, 0)
    (behind,) = deletable(done, {A: 10, B: 6})
    assert (behind.log_offset, behind.behind) == (700, 2)
    (never_seen,) = deletable(done[:1], {A: 10, B: 6})
    assert (never_seen.log_offset, never_seen.behind) == (0, 6)
    assert [each.log_offset for each in deletable([], {A: 0})] == [0]


def test_what_was_written_must_be_what_was_wanted() -> None:
    whole = Written(4, 6, 9, 30, 1_000, 5)
    assert check({A: 6}, {A: 10}, {A: whole}, fail_on_data_loss=True)[0] == [
        ArchivedQueue(topic="t", broker="broker-a", queue_id=0, first=6, end=10, log_offset=1_000, stored_ms=5, last=9)
    ]
    twice = Written(4, 6, 9, 31, 1_000, 5)
    for wrong in (twice, Written(5, 6, 9, 37, 1_000, 5), Written(4, 5, 9, 30, 1_000, 5)):
        for fail in (True, False):
            with pytest.raises(MQError, match="nothing of this step counts"):
                check({A: 6}, {A: 10}, {A: wrong}, fail_on_data_loss=fail)
    missing = Written(3, 7, 9, 24, 1_000, 5)
    with pytest.raises(MQError, match="of the messages 6 to 9, 3 were written and 4 wanted"):
        check({A: 6}, {A: 10}, {A: missing}, fail_on_data_loss=True)
    assert check({A: 6}, {A: 10}, {A: missing}, fail_on_data_loss=False)[1] == 1
    assert check({A: 6}, {A: 10}, {}, fail_on_data_loss=False)[1] == 4
    with pytest.raises(MQError, match="was written, but not asked for"):
        check({A: 6}, {A: 10}, {A: whole, B: whole}, fail_on_data_loss=True)


def test_a_queue_keeps_its_beginning_and_its_place_in_the_log() -> None:
    state = ArchiveState(queues=[archived(A, 2, 10, 1_000)])
    assert with_queues(state, [archived(A, 10, 12, 1_200)]) == [archived(A, 2, 12, 1_200)]
    assert with_queues(state, [archived(B, 3, 3)]) == [archived(A, 2, 10, 1_000), archived(B, 3, 3)]


def file(size: int) -> FoundFile:
    return FoundFile(f"{size}.parquet", size, 0)


def test_files_are_joined_when_they_are_small_and_not_alone() -> None:
    some = [file(10), file(49), file(50), file(500)]
    assert small_files(some, 100, is_over=True) == some[:2]
    assert small_files(some, 100, is_over=False) == []
    assert small_files([file(1)], 100, is_over=True) == []
    assert len(small_files([file(1)] * MANY, 100, is_over=False)) == MANY
    assert (joined_count([file(10)], 100), joined_count([file(40)] * 10, 100)) == (1, 4)


def test_an_hour_is_over_when_the_next_one_has_begun() -> None:
    now = datetime(2026, 11, 15, 14, 0, 0, tzinfo=UTC)
    assert is_over("topic=T/hour=2026-11-15T13", now)
    assert not is_over("topic=T/hour=2026-11-15T14", now)
