"""The sequence of segments, against a plain byte string; rolling, truncating, deleting, a full disk."""

import gc
import itertools
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from hanabi.errors import StoreClosed, StoreDamaged, StoreError, StoreFull, StoreUnwritable
from hanabi.store.files.segment import segment_name
from hanabi.store.log.log import Log

SIZE = 4096


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "commitlog"


def bytes_at(log: Log, offset: int, size: int) -> bytes | None:
    view = log.read(offset, size)
    return None if view is None else bytes(view)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_an_empty_log_begins_and_ends_at_zero(directory: Path) -> None:
    log = Log(directory, SIZE)
    assert (log.min_offset, log.end_offset, log.flushed_offset) == (0, 0, 0)
    assert bytes_at(log, 0, 1) is None
    assert log.find(0) is None
    assert names(directory) == []


def test_segments_are_named_by_their_first_offset_in_twenty_digits(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE + 1))
    assert names(directory) == ["00000000000000000000", "00000000000000004096", "00000000000000008192"]
    assert log.end_offset == 2 * SIZE + 1


def test_every_offset_is_found_in_its_segment(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.start_at(5 * SIZE)
    log.append(bytes(range(256)) * (3 * SIZE // 256))
    for offset in (5 * SIZE, 6 * SIZE - 1, 6 * SIZE, 7 * SIZE + 300):
        segment = log.find(offset)
        assert segment is not None
        assert segment.base_offset == offset // SIZE * SIZE
        assert bytes_at(log, offset, 1) == bytes([offset % 256])
    assert log.find(5 * SIZE - 1) is None
    assert log.find(8 * SIZE) is None
    assert bytes_at(log, 6 * SIZE - 1, 2) is None  # a record never crosses a border
    assert bytes(log.read_tail(6 * SIZE - 1) or b"") == b"\xff"
    assert log.read_tail(5 * SIZE - 1) is None


def test_rolling_fills_the_old_segment_first(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"alpha")
    log.roll(b"BLANK")
    log.append(b"omega")
    assert bytes_at(log, 5, 5) == b"BLANK"
    assert bytes_at(log, SIZE, 5) == b"omega"
    assert log.end_offset == SIZE + 5


def test_a_prepared_segment_is_used_when_the_active_one_is_full(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(SIZE - 1))
    for _ in range(2):  # the second one finds it there
        log.prepare_next()
        assert names(directory) == [segment_name(0), segment_name(SIZE)]
    inode = (directory / segment_name(SIZE)).stat().st_ino
    assert log.end_offset == SIZE - 1
    log.append(bytes(SIZE))
    assert (directory / segment_name(SIZE)).stat().st_ino == inode


def test_an_empty_or_closed_log_prepares_nothing(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.prepare_next()
    log.append(b"x")
    log.close()
    log.prepare_next()
    assert names(directory) == [segment_name(0)]


def test_a_prepared_segment_that_was_not_needed_is_removed_at_the_end(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(SIZE - 1))
    log.prepare_next()
    log.close()
    assert names(directory) == [segment_name(0)]


def test_a_closed_log_says_so(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"alpha")
    log.close()
    log.close()
    with pytest.raises(StoreClosed, match="is closed"):
        log.append(b"omega")
    with pytest.raises(StoreClosed):
        log.flush()
    assert log.read(0, 5) is None


def test_a_log_can_begin_in_the_middle_but_only_at_the_start_of_a_file(directory: Path) -> None:
    log = Log(directory, SIZE)
    with pytest.raises(StoreError, match="cannot begin at 100"):
        log.start_at(100)
    log.start_at(7 * SIZE)
    assert (log.min_offset, log.end_offset, log.flushed_offset) == (7 * SIZE, 7 * SIZE, 7 * SIZE)
    with pytest.raises(StoreError, match="cannot begin"):
        log.start_at(0)


# Opening what is there


def test_a_reopened_log_counts_as_full_until_its_end_is_told(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"x" * (SIZE + 10))
    log.close()
    log = Log(directory, SIZE)
    assert log.end_offset == 2 * SIZE
    log.truncate_to(SIZE + 10)
    assert log.end_offset == SIZE + 10
    assert log.flush() == log.flushed_offset == SIZE + 10
    assert log.append(b"y") == SIZE + 10


def test_a_missing_file_in_the_middle_is_named(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(3 * SIZE))
    log.close()
    (directory / segment_name(SIZE)).unlink()
    with pytest.raises(StoreDamaged, match=f"{segment_name(SIZE)} is expected"):
        Log(directory, SIZE)


def test_a_file_of_another_size_stops_the_opening(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE))
    log.close()
    os.truncate(directory / segment_name(0), 17)
    with pytest.raises(StoreDamaged, match="has 17 bytes"):
        Log(directory, SIZE)


def test_an_empty_last_file_is_what_a_crash_left_and_is_removed(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"alpha")
    log.close()
    (directory / segment_name(SIZE)).touch()
    log = Log(directory, SIZE)
    assert names(directory) == [segment_name(0)]
    assert bytes_at(log, 0, 5) == b"alpha"


@pytest.mark.parametrize("sizes", [(0,), (17,), (0, 0), (17, 0), (0, 17)])
def test_after_a_crash_the_newest_files_get_their_full_size_with_a_line_each(
    directory: Path, sizes: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(directory, SIZE)
    log.append(b"a" * (3 * SIZE))
    log.close()
    start = (3 - len(sizes)) * SIZE
    cut = [directory / segment_name(start + number * SIZE) for number in range(len(sizes))]
    for path, size in zip(cut, sizes, strict=True):
        os.truncate(path, size)
    log = Log(directory, SIZE, crashed=True)
    assert [path.stat().st_size for path in sorted(directory.iterdir())] == [SIZE] * 3
    assert bytes_at(log, start, SIZE) == b"a" * sizes[0] + bytes(SIZE - sizes[0])
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[0] for line in lines] == [
        f"{path} had {size} of {SIZE} bytes after the crash" for path, size in reversed([*zip(cut, sizes, strict=True)])
    ]
    log.truncate_to(start + sizes[0])
    assert log.append(b"b" * SIZE) == start + sizes[0]
    log.close()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_short_file_before_a_whole_one_is_damage_also_after_a_crash(directory: Path, crashed: bool) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(3 * SIZE))
    log.close()
    os.truncate(directory / segment_name(SIZE), 17)
    with pytest.raises(StoreDamaged, match=f"{segment_name(SIZE)} has 17 bytes"):
        Log(directory, SIZE, crashed=crashed)


def test_files_of_another_size_are_left_alone_after_a_crash(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE))
    log.close()
    with pytest.raises(StoreDamaged, match="is expected"):
        Log(directory, 2 * SIZE, crashed=True)
    assert [path.stat().st_size for path in directory.iterdir()] == [SIZE] * 2


def test_other_files_in_the_directory_are_left_alone(directory: Path) -> None:
    directory.mkdir()
    (directory / "notes.txt").write_text("mine")
    Log(directory, SIZE).append(b"alpha")
    assert names(directory) == [segment_name(0), "notes.txt"]


def test_a_log_opened_for_reading_writes_nothing(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"alpha")
    log.close()
    reader = Log(directory, SIZE, writable=False)
    assert bytes_at(reader, 0, 5) == b"alpha"
    with pytest.raises(StoreUnwritable, match="opening"):
        Log(directory.with_name("nowhere"), SIZE, writable=False)


# Truncating


def test_truncating_removes_later_files_and_zeroes_the_rest(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"x" * (3 * SIZE - 1))
    log.truncate_to(SIZE + 5)
    assert names(directory) == [segment_name(0), segment_name(SIZE)]
    assert (directory / segment_name(SIZE)).read_bytes() == b"xxxxx".ljust(SIZE, b"\0")
    assert log.read(SIZE, 6) is None
    log.append(b"y" * SIZE)
    assert log.end_offset == 2 * SIZE + 5


def test_truncating_at_a_border_leaves_no_empty_segment(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE))
    log.truncate_to(SIZE)
    assert names(directory) == [segment_name(0)]
    assert log.append(b"x") == SIZE


def test_truncating_to_the_beginning_keeps_the_first_file(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.start_at(SIZE)
    log.append(b"x")
    log.truncate_to(SIZE)
    assert (log.min_offset, log.end_offset) == (SIZE, SIZE)
    assert names(directory) == [segment_name(SIZE)]


def test_truncating_outside_is_an_error_and_changes_nothing(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.truncate_to(0)
    log.start_at(SIZE)
    log.append(b"x")
    for offset in (0, SIZE - 1, SIZE + 2):
        with pytest.raises(ValueError, match="outside"):
            log.truncate_to(offset)
    assert bytes_at(log, SIZE, 1) == b"x"


# Deleting


def test_deleting_moves_the_beginning_and_never_takes_the_last(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE + 1))
    assert log.delete_oldest()
    assert (log.min_offset, names(directory)[0]) == (SIZE, segment_name(SIZE))
    assert bytes_at(log, 0, 1) is None
    assert bytes_at(log, SIZE, 1) == b"\0"
    assert log.delete_oldest()
    assert not log.delete_oldest()
    assert log.end_offset == 2 * SIZE + 1


def test_readers_slices_live_through_deletion_truncation_and_closing(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"a" * SIZE + b"b" * SIZE + b"c" * SIZE)
    views = [log.read(offset, SIZE) or b"" for offset in (0, SIZE, 2 * SIZE)]
    log.delete_oldest()
    log.truncate_to(2 * SIZE)
    log.close()
    gc.collect()
    assert [bytes(view) for view in views] == [letter * SIZE for letter in (b"a", b"b", b"c")]


def test_deleting_while_others_read_and_the_writer_rolls_harms_nobody(memory_directory: Path) -> None:
    log = Log(memory_directory, SIZE)
    log.append(b"\1" * SIZE)
    failures: list[BaseException] = []
    done = threading.Event()

    def guarded(action: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                action()
        except BaseException as error:  # noqa: BLE001 (told to the test below)
            failures.append(error)

    def read_everywhere() -> None:
        for offset in range(log.min_offset, log.end_offset, 1000):
            assert bytes_at(log, offset, 10) in (None, b"\1" * 10)

    actions: list[Callable[[], object]] = [read_everywhere, log.delete_oldest, log.flush]
    threads = [threading.Thread(target=guarded, args=[action]) for action in actions]
    for thread in threads:
        thread.start()
    try:
        for _ in range(25):
            log.append(b"\1" * 6000)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert log.end_offset == SIZE + 150_000
    log.close()


# Flushing


def test_flushing_goes_from_the_oldest_to_the_newest(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(2 * SIZE + 7))
    assert log.flushed_offset == 0
    assert log.flush() == log.flushed_offset == 2 * SIZE + 7
    assert [segment.flushed for segment in log.segments] == [SIZE, SIZE, 7]


def test_after_a_failed_flush_nothing_more_is_taken(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"alpha")
    (directory / segment_name(0)).unlink()
    with pytest.raises(StoreDamaged, match=r"flushing .* failed"):
        log.flush()
    with pytest.raises(StoreDamaged, match="deleted while in use"):
        log.append(b"omega")
    with pytest.raises(StoreDamaged):
        log.flush()
    assert log.flushed_offset == 0


def test_nothing_counts_as_flushed_behind_what_could_not_be(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(SIZE + 7))
    (directory / segment_name(0)).unlink()
    with pytest.raises(StoreDamaged):
        log.flush()
    assert log.flushed_offset == 0


def test_a_segment_deleted_by_retention_before_it_was_flushed_is_no_damage(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(bytes(SIZE + 1))
    oldest = log.segments[0]
    log.delete_oldest()
    oldest.flush()
    assert log.flush() == SIZE + 1


# A full or forbidding disk


def free_bytes(disk: Path) -> int:
    state = os.statvfs(disk)
    return state.f_bavail * state.f_frsize


def test_a_full_disk_is_an_error_that_changes_nothing_and_passes(small_disk: Path) -> None:
    segment_bytes = 16_384
    directory = small_disk / "commitlog"
    log = Log(directory, segment_bytes)
    log.append(b"a" * (segment_bytes - 100))
    (small_disk / "ballast").write_bytes(bytes(free_bytes(small_disk)))
    for _ in range(3):
        with pytest.raises(StoreFull, match="no room on the disk"):
            log.prepare_next()
        with pytest.raises(StoreFull, match="no room on the disk"):
            log.roll(b"BLANK")
    assert (log.end_offset, names(directory)) == (segment_bytes - 100, [segment_name(0)])
    assert bytes_at(log, segment_bytes - 101, 1) == b"a"
    log.append(b"fits")  # what is allocated can still be used
    log.flush()

    (small_disk / "ballast").unlink()
    log.roll(b"BLANK")
    log.append(b"b")
    assert bytes_at(log, segment_bytes - 96, 5) == b"BLANK"
    assert bytes_at(log, segment_bytes, 1) == b"b"
    assert log.flush() == segment_bytes + 1
    log.close()


def test_a_next_segment_without_room_for_the_message_leaves_the_log_in_the_old_one(small_disk: Path) -> None:
    log = Log(small_disk / "commitlog", 16_384)
    log.append(b"a" * 16_000)
    (small_disk / "ballast").write_bytes(bytes(free_bytes(small_disk) - 4096))  # one page for the next segment
    with pytest.raises(StoreFull):
        log.roll(b"BLANK", room=8_000)
    assert log.end_offset == 16_000
    (small_disk / "ballast").unlink()
    assert log.roll(b"BLANK", room=8_000).allocated >= 8_000
    log.close()


def test_a_sparse_file_on_a_full_disk_refuses_messages_until_there_is_room(small_disk: Path) -> None:
    directory = small_disk / "commitlog"
    directory.mkdir()
    with (directory / segment_name(0)).open("wb") as file:  # as Apache makes them
        file.truncate(32_768)
    (small_disk / "ballast").write_bytes(bytes(free_bytes(small_disk)))
    log = Log(directory, 32_768)
    log.truncate_to(0)  # what is stored can be read on a full disk
    with pytest.raises(StoreFull):
        log.append(b"x")
    assert log.roll(b"BLANK") is log.active  # there is nothing to roll: a message is refused when it is appended
    with pytest.raises(StoreFull):
        log.append(b"x")
    assert log.end_offset == 0
    (small_disk / "ballast").unlink()
    log.append(b"x")
    log.close()


def test_a_directory_that_became_read_only_is_an_error_that_passes(small_disk: Path) -> None:
    directory = small_disk / "commitlog"
    log = Log(directory, SIZE)
    log.append(b"a" * SIZE)
    subprocess.run(["mount", "--bind", str(directory), str(directory)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(directory)], check=True)
        with pytest.raises(StoreUnwritable, match=r"creating .*: Read-only file system"):
            log.append(b"b")
    finally:
        subprocess.run(["umount", str(directory)], check=True)
    assert log.end_offset == SIZE
    assert log.append(b"b") == SIZE
    log.close()


def test_a_directory_that_went_away_is_an_error_that_passes(directory: Path) -> None:
    log = Log(directory, SIZE)
    log.append(b"a" * SIZE)
    moved = directory.rename(directory.with_name("moved"))
    with pytest.raises(StoreUnwritable, match=r"creating .*: No such file"):
        log.append(b"b")
    assert log.end_offset == SIZE
    moved.rename(directory)
    assert log.append(b"b") == SIZE


class LogMachine(RuleBasedStateMachine):
    """Any order of appends, rolls, flushes, truncations, deletions and restarts, beside a plain byte string."""

    counter = itertools.count()
    base: Path

    @initialize()
    def open(self) -> None:
        self.directory = self.base / str(next(self.counter))
        self.log = Log(self.directory, SIZE)
        self.model = b""  # every byte ever, from offset 0
        self.begin = 0

    @rule(data=st.binary(min_size=1, max_size=2 * SIZE))
    def append(self, data: bytes) -> None:
        assert self.log.append(data) == len(self.model)
        self.model += data

    @rule()
    def roll(self) -> None:
        if self.log.active is not None:
            self.log.roll(b"BLANK")  # at once a second time it has nothing to do
            room = -len(self.model) % SIZE
            self.model += b"BLANK"[:room].ljust(room, b"\0")

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == len(self.model)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.flush()
        offset = self.begin + int((len(self.model) - self.begin) * share)
        self.log.truncate_to(offset)
        self.model = self.model[:offset]

    @rule()
    def delete_oldest(self) -> None:
        if self.log.delete_oldest():
            self.begin += SIZE

    @rule()
    def restart(self) -> None:
        self.flush()
        self.log.close()
        self.log = Log(self.directory, SIZE)
        self.log.truncate_to(len(self.model))

    @invariant()
    def agrees_with_the_model(self) -> None:
        log = self.log
        assert log.end_offset == len(self.model)
        assert log.min_offset == self.begin
        assert self.begin <= log.flushed_offset <= log.end_offset
        for offset in range(self.begin, log.end_offset, 997):
            tail = log.read_tail(offset)
            assert tail is not None
            assert bytes(tail) == self.model[offset : min(offset - offset % SIZE + SIZE, log.end_offset)]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.destroy()
            assert names(self.directory) == []


def test_a_log_is_one_string_of_bytes_whatever_happens(memory_directory: Path) -> None:
    LogMachine.base = memory_directory
    run_state_machine_as_test(LogMachine, settings=settings(max_examples=25, stateful_step_count=20, deadline=None))
