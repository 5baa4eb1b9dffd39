"""The pages behind the end of the log are there before they are written, and only where something is written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.store import pages_ahead
from hanabi.store.log import Log
from hanabi.store.mapped_pages import populate
from hanabi.store.pages_ahead import AHEAD_BYTES, PagesAhead

SEGMENT_BYTES = 4 * AHEAD_BYTES


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, SEGMENT_BYTES, prepare_ahead=False)
    log.append(b"x")
    yield log
    log.close()


def resident_bytes(log: Log) -> int:
    """How much of the log's files is in this process's memory."""
    maps = Path("/proc/self/smaps").read_text()
    sizes = re.findall(rf"{re.escape(str(log.directory))}/\d+\n(?:\w+: .*\n)*?Rss: +(\d+) kB", maps)
    return sum(map(int, sizes)) * 1024


def has_populate(log: Log) -> bool:
    segment = log.active
    assert segment is not None
    return populate(segment._map, 0, 1)


def test_a_log_that_hardly_grows_gets_no_pages(log: Log) -> None:
    pages = PagesAhead(log)
    log.append(bytes(4096))
    pages.step()
    assert resident_bytes(log) < AHEAD_BYTES // 2


def test_a_log_that_grows_has_its_next_pages(log: Log) -> None:
    if not has_populate(log):
        pytest.skip("a kernel that cannot do it")
    pages = PagesAhead(log)
    log.append(bytes(AHEAD_BYTES))
    assert log.end_offset > pages.due_at
    pages.step()
    assert resident_bytes(log) >= 2 * AHEAD_BYTES
    assert log.end_offset < pages.due_at < log.end_offset + AHEAD_BYTES
    before = resident_bytes(log)
    pages.step()
    assert resident_bytes(log) == before, "nothing is due"


def test_it_goes_on_in_the_next_file(log: Log) -> None:
    if not has_populate(log):
        pytest.skip("a kernel that cannot do it")
    pages = PagesAhead(log)
    log.append(bytes(SEGMENT_BYTES - 4096))
    pages.step()
    assert pages.due_at == SEGMENT_BYTES, "up to the end of the file, and then with the first byte of the next"
    log.append(bytes(8192))
    assert log.end_offset > pages.due_at
    before = resident_bytes(log)
    pages.step()
    assert resident_bytes(log) >= before + AHEAD_BYTES - 8192


def test_a_kernel_that_cannot_do_it_is_never_asked_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_ahead, "populate", lambda *_: False)
    pages = PagesAhead(log)
    log.append(bytes(AHEAD_BYTES))
    pages.step()
    assert pages.due_at > 1 << 60
