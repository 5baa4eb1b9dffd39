"""The message of a time: against Apache's rules, and against a plain search from one end to the other."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.read.offset_by_time import BoundaryType, offset_by_time

LOWER, UPPER = BoundaryType.LOWER, BoundaryType.UPPER


class Log:
    """A log whose messages are 10 bytes long, with a store time each."""

    def __init__(self, directory: Path, times: list[int], *, file_entries: int, begin: int = 0) -> None:
        self.times = times
        self.offset_min = 0
        self.queue: ConsumeQueue = ConsumeQueues(directory, file_entries * ENTRY_BYTES).open("T", 0)
        for number in range(len(times)):
            self.queue.put(begin + number, number * 10, 10, 0)
        self.queue.write_tail()

    def store_time_of(self, log_offset: int, size: int) -> int:
        assert log_offset >= self.offset_min
        assert size == 10
        return self.times[log_offset // 10]

    def find(self, time_ms: int, boundary: BoundaryType | None = None) -> int:
        return offset_by_time(
            self.queue,
            time_ms,
            self.store_time_of,
            log_offset_min=self.offset_min,
            end=self.queue.max_offset,
            boundary=boundary,
        )


@pytest.mark.parametrize(
    ("time_ms", "nearest", "lower", "upper"),
    [
        (5, 0, 0, 0),
        (10, 0, 0, 0),
        (14, 0, 1, 0),
        (15, 0, 1, 0),  # as near to the left as to the right: Apache takes the left one
        (16, 1, 1, 0),
        (20, 2, 1, 3),
        (21, 3, 4, 3),
        (30, 4, 4, 4),
        (99, 4, 5, 4),
    ],
)
def test_a_time_is_found_as_apache_finds_it(tmp_path: Path, time_ms: int, nearest: int, lower: int, upper: int) -> None:
    log = Log(tmp_path, [10, 20, 20, 20, 30], file_entries=100)
    assert log.find(time_ms) == nearest
    assert log.find(time_ms, LOWER) == lower
    assert log.find(time_ms, UPPER) == upper


def test_without_a_boundary_only_the_file_of_that_time_is_searched_as_by_apache(tmp_path: Path) -> None:
    log = Log(tmp_path, [10, 20, 80, 90], file_entries=2)
    assert log.find(25) == 2  # 20 is nearer than 80, but its file ends before the time
    assert log.find(20) == 1
    assert log.find(95) == 3


def test_an_empty_queue_has_offset_0_for_all_times(tmp_path: Path) -> None:
    log = Log(tmp_path, [], file_entries=2)
    assert [log.find(5, boundary) for boundary in (None, LOWER, UPPER)] == [0, 0, 0]


def test_expired_messages_are_not_asked_for_their_time(tmp_path: Path) -> None:
    log = Log(tmp_path, [10, 20, 30, 40, 50, 60], file_entries=10)
    log.offset_min = 30
    log.queue.correct_min(30)
    assert [log.find(time_ms) for time_ms in (5, 40, 46, 99)] == [3, 3, 4, 5]
    assert [log.find(time_ms, LOWER) for time_ms in (5, 41, 99)] == [3, 4, 6]
    assert [log.find(time_ms, UPPER) for time_ms in (5, 41, 99)] == [3, 3, 5]
    log.offset_min = 1_000
    assert [log.find(40, boundary) for boundary in (None, LOWER, UPPER)] == [3, 6, 5]


def test_if_the_log_cannot_tell_the_answer_is_0_as_apaches(tmp_path: Path) -> None:
    log = Log(tmp_path, [10, -1, 30], file_entries=10)
    assert [log.find(20, boundary) for boundary in (None, LOWER, UPPER)] == [0, 0, 0]


@given(
    times=st.lists(st.integers(0, 30), max_size=25).map(sorted),
    time_ms=st.integers(-1, 31),
    begin=st.integers(0, 7),
    expired=st.integers(0, 25),
)
@settings(max_examples=60, deadline=None)
def test_the_boundaries_agree_with_a_search_from_one_end_to_the_other(
    times: list[int], time_ms: int, begin: int, expired: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = Log(Path(directory), times, file_entries=3, begin=begin)
        log.offset_min = expired * 10
        log.queue.delete_expired(log.offset_min)
        alive = [(begin + number, time) for number, time in enumerate(times) if number >= expired]
        end = begin + len(times) if times else 0
        assert log.find(time_ms, LOWER) == min((n for n, time in alive if time >= time_ms), default=end)
        newest = max((n for n, time in alive if time <= time_ms), default=log.queue.min_offset)
        assert log.find(time_ms, UPPER) == newest
        if alive:
            found = log.find(time_ms)
            assert alive[0][0] <= found < end
            if any(time == time_ms for _, time in alive):
                assert times[found - begin] == time_ms
