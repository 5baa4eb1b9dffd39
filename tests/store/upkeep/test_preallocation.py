"""Blocks, pages and the next file are there before they are needed, and pages only where something is written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.errors import StoreUnwritable
from hanabi.store.files import mapped_pages
from hanabi.store.files.blocks import STEP_BYTES_MIN
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.log import Log
from hanabi.store.upkeep.preallocation import AHEAD_BYTES, Preallocation, next_due
from tests.store.scarce_memory import no_large_maps

SEGMENT_BYTES = 4 * AHEAD_BYTES


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, SEGMENT_BYTES)
    log.append(b"x")
    yield log
    log.close()


def resident_bytes(log: Log) -> int:
    """Return how much of the log's files is in this process's memory."""
    maps = Path("/proc/self/smaps").read_text()
    sizes = re.findall(rf"{re.escape(str(log.directory))}/\d+\n(?:\w+: .*\n)*?Rss: +(\d+) kB", maps)
    return sum(map(int, sizes)) * 1024


def has_populate(log: Log) -> bool:
    segment = log.active
    assert segment is not None
    return segment.populate(0, 1)


def test_a_log_that_hardly_grows_gets_no_pages(log: Log) -> None:
    ahead = Preallocation(log)
    log.append(bytes(4096))
    ahead.step()
    assert resident_bytes(log) < AHEAD_BYTES // 2


def test_a_log_that_grows_has_its_next_pages(log: Log) -> None:
    if not has_populate(log):
        pytest.skip("a kernel that cannot do it")
    ahead = Preallocation(log)
    log.append(b"x")
    assert log.active is not None
    log.active.append(bytes(AHEAD_BYTES))  # through the map, as a message is
    assert log.end_offset > ahead.due_at
    ahead.step()
    assert resident_bytes(log) >= 2 * AHEAD_BYTES
    assert log.end_offset < ahead.due_at < log.end_offset + AHEAD_BYTES
    before = resident_bytes(log)
    ahead.step()
    assert resident_bytes(log) == before, "nothing is due"


def test_a_log_that_is_not_written_through_its_map_gets_no_pages(log: Log) -> None:
    ahead = Preallocation(log)
    ahead.makes_pages = False
    log.append(bytes(AHEAD_BYTES))
    ahead.step()
    assert resident_bytes(log) < AHEAD_BYTES


def test_it_goes_on_in_the_next_file(log: Log) -> None:
    if not has_populate(log):
        pytest.skip("a kernel that cannot do it")
    ahead = Preallocation(log)
    log.append(bytes(SEGMENT_BYTES - 4096))
    ahead.step()
    assert ahead.due_at == SEGMENT_BYTES, "up to the end of the file, and then with the first byte of the next"
    log.append(bytes(8192))
    assert log.end_offset > ahead.due_at
    before = resident_bytes(log)
    ahead.step()
    assert resident_bytes(log) >= before + AHEAD_BYTES - 8192


def test_a_kernel_that_cannot_do_it_is_never_asked_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(mapped_pages, "populate", lambda *_: asked.append(1))
    ahead = Preallocation(log)
    for _ in range(2):
        log.append(bytes(AHEAD_BYTES))
        ahead.step()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("written", "due"),
    [
        (0, AHEAD_BYTES // 2),
        (2 * AHEAD_BYTES - 1, 2 * AHEAD_BYTES),  # the middle, where the next file is made
        (2 * AHEAD_BYTES, 2 * AHEAD_BYTES),
        (2 * AHEAD_BYTES + 1, 2 * AHEAD_BYTES + 1 + AHEAD_BYTES // 2),
        (SEGMENT_BYTES - 1, SEGMENT_BYTES),
    ],
)
def test_there_is_something_to_do_every_few_megabytes_and_in_the_middle_of_a_file(written: int, due: int) -> None:
    assert next_due(7 * SEGMENT_BYTES, written, SEGMENT_BYTES) == 7 * SEGMENT_BYTES + due


def test_the_next_file_is_made_when_the_active_one_is_half_full(log: Log) -> None:
    ahead = Preallocation(log)
    ahead.step()
    assert len(list(log.directory.iterdir())) == 1
    log.append(bytes(SEGMENT_BYTES // 2))
    assert log.end_offset > ahead.due_at
    ahead.step()
    assert len(list(log.directory.iterdir())) == 2


def test_blocks_of_log_and_index_are_allocated_ahead_of_the_writer(tmp_path: Path) -> None:
    log = Log(tmp_path / "commitlog", 1 << 30)
    index = KeyIndex(tmp_path / "index", slots=100, entries_max=20_000_000, now_ms=lambda: 1)
    log.append(b"x")
    index.put("T", ["key"], 0, 1)
    log.truncate_to(1)  # as after a start: nothing is known of the blocks
    segment, file = log.active, index.files[0]
    assert segment is not None
    Preallocation(log, index).step()
    assert segment.allocated >= STEP_BYTES_MIN // 2
    before = file.allocated_entries
    file.next_entry = before - 10
    Preallocation(log, index).step()
    assert file.allocated_entries > before
    index.close()
    log.close()


def test_a_next_file_that_cannot_be_made_is_tried_again_and_stops_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, 256 << 20)
    log.append(b"x")
    assert log.active is not None
    log.active.fill(b"")
    ahead = Preallocation(log)
    with no_large_maps():
        with pytest.raises(StoreUnwritable, match=r"mapping .*: Cannot allocate memory"):
            ahead.step()
        with pytest.raises(StoreUnwritable, match=r"mapping .*: Cannot allocate memory"):
            log.append(b"refused")
    ahead.step()
    assert log.append(b"stored") == 256 << 20
    log.close()
