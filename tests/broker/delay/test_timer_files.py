"""The files of the timer hold what their checkpoint says, or it is noticed."""

from pathlib import Path

import pytest

from hanabi.broker.delay.timer_files import (
    ENTRY,
    KEPT_SLOTS,
    SLOTS_A_BUCKET,
    Checkpoint,
    Entry,
    TimerFiles,
    decode_entries,
    encode_entry,
)
from hanabi.errors import StoreDamaged, StoreError

ONE = encode_entry(1, 2, 3, 4)
TWO = encode_entry(5, 6, 7, -8)
NOTHING = Checkpoint(0, 0, 0, {})


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("0*"))


def test_entries_are_read_as_they_were_written() -> None:
    assert list(decode_entries(ONE + TWO)) == [Entry(1, 2, 3, 4), Entry(5, 6, 7, -8)]
    assert list(decode_entries(ONE + TWO, ENTRY.size)) == [Entry(5, 6, 7, -8)]


@pytest.mark.parametrize("position", range(ENTRY.size))
def test_a_bad_bit_in_an_entry_is_noticed(position: int) -> None:
    raw = bytearray(ONE)
    raw[position] ^= 4
    with pytest.raises(StoreDamaged):
        list(decode_entries(raw))


def test_what_was_written_is_there_after_a_restart(directory: Path) -> None:
    files = TimerFiles(directory / "timer")
    assert files.open() is None
    first = files.write(Checkpoint(1, 0, 9, {}), {7: ONE})
    second = files.write(Checkpoint(2, 0, 10, first.bucket_bytes), {7: TWO, 8: ONE})
    opened = TimerFiles(directory / "timer").open()
    assert opened == second == Checkpoint(2, 0, 10, {7: 2 * ENTRY.size, 8: ENTRY.size})
    assert files.read(second, 7) == ONE + TWO
    assert files.read(second, 9) == b""


def test_what_a_crash_left_behind_the_checkpoint_is_written_over(directory: Path) -> None:
    files = TimerFiles(directory)
    checkpoint = files.write(Checkpoint(1, 0, 0, {}), {7: ONE})
    path = directory / names(directory)[0]
    path.write_bytes(path.read_bytes() + b"half an entry, or a whole one and more")
    opened = TimerFiles(directory).open()
    assert opened == checkpoint
    assert files.read(checkpoint, 7) == ONE
    assert files.read(files.write(checkpoint, {7: TWO}), 7) == ONE + TWO
    assert path.read_bytes() == ONE + TWO


@pytest.mark.parametrize("harm", ["shorter", "missing", "checkpoint", "another precision"])
def test_files_that_are_not_what_the_checkpoint_says_are_noticed(directory: Path, harm: str) -> None:
    TimerFiles(directory).write(Checkpoint(1, 0, 0, {}), {7: ONE})
    path = directory / names(directory)[0]
    checkpoint = directory / "checkpoint.json"
    if harm == "shorter":
        path.write_bytes(ONE[:-1])
    elif harm == "missing":
        path.unlink()
    elif harm == "checkpoint":
        checkpoint.write_bytes(b"{")
    else:
        checkpoint.write_bytes(checkpoint.read_bytes().replace(b'"slotMs":100', b'"slotMs":50'))
    with pytest.raises(StoreDamaged):
        TimerFiles(directory).open()


def test_a_file_goes_when_all_in_it_is_done(directory: Path) -> None:
    files = TimerFiles(directory)
    checkpoint = files.write(NOTHING, {3: ONE, 4: TWO})
    slot = 4 * SLOTS_A_BUCKET + KEPT_SLOTS
    checkpoint = files.write(Checkpoint(1, slot - 1, 0, checkpoint.bucket_bytes), {})
    assert set(checkpoint.bucket_bytes) == {3, 4}
    checkpoint = files.write(Checkpoint(1, slot, 0, checkpoint.bucket_bytes), {2: ONE})
    assert set(checkpoint.bucket_bytes) == {4}
    assert names(directory) == ["0000000000004"]


def test_a_full_disk_changes_nothing_and_the_same_can_be_written_later(small_disk: Path) -> None:
    files = TimerFiles(small_disk / "timer")
    checkpoint = files.write(NOTHING, {7: ONE})
    with pytest.raises(StoreError, match="no room"):
        files.write(checkpoint, {7: TWO * 4_000})
    assert TimerFiles(small_disk / "timer").open() == checkpoint
    checkpoint = files.write(checkpoint, {7: TWO})
    assert files.read(checkpoint, 7) == ONE + TWO


def test_clearing_removes_everything(directory: Path) -> None:
    files = TimerFiles(directory / "timer")
    files.clear()
    files.write(NOTHING, {7: ONE})
    files.clear()
    assert list((directory / "timer").iterdir()) == []
