"""A disk that fills up is an answer of the fast path too, never a signal: it writes only where there are blocks."""

from pathlib import Path
from typing import Any

from hanabi.wire.codes import HeaderForm
from tests.broker.fast_path.test_sends import FIELDS, Side, frame_of, pytestmark

__all__ = ["pytestmark"]

# Files that are larger than the disk: their blocks come in steps, and run out.
FILES = {"commit_log_segment_bytes": 1 << 20, "index_slots": 100, "index_entries": 100_000, "message_bytes_max": 8_192}


def frames(count: int) -> list[bytes]:
    request: dict[str, Any] = {"code": 310, "flag": 0, "version": 401, "form": HeaderForm.BINARY, "fields": FIELDS}
    return [frame_of({**request, "opaque": number, "body": b"x" * 100}) for number in range(count)]


def send(side: Side, wanted: list[bytes]) -> tuple[int, int]:
    """Send *wanted* in one piece until one is refused; how many went on the fast path, and how many were stored."""
    fast = stored = 0
    while wanted:
        _, count = side.answer_fast(*wanted)
        fast, stored, wanted = fast + count, stored + count, wanted[count:]
        before = side.taking.store.max_log_offset
        if wanted:
            side.answer(wanted.pop(0))
            if side.taking.store.max_log_offset == before:
                break
            stored += 1
    return fast, stored


def test_sends_are_refused_when_the_disk_is_full_and_taken_when_it_is_not(small_disk: Path) -> None:
    side = Side(small_disk / "store", **FILES)
    ballasts = small_disk / "ballast 1", small_disk / "ballast 2"
    for ballast in ballasts:
        ballast.write_bytes(bytes(12_288))
    fast, stored = send(side, frames(1_000))
    assert 0 < fast < stored < 1_000
    active = side.taking.store._log.active
    assert active is not None
    assert active.written <= active.allocated <= active.path.stat().st_blocks * 512
    ballasts[0].unlink()
    fast, more = send(side, frames(20))
    assert more == 20
    assert fast > 0
    ballasts[1].unlink()  # for the queues' files
    side.taking.close()
