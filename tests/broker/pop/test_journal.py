"""The journal of POP: what is in flight survives the end of the process, and nothing is skipped by mistake."""

import os
from pathlib import Path

import pytest

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.pop import journal
from hanabi.broker.pop.flights import Flights
from hanabi.testing.clock import ManualClock

TOPIC, GROUP = "Orders", "billing"


class Life:
    """The table of one process; the offsets and the journal outlive it."""

    def __init__(self, path: Path, offsets: ConsumerOffsets, end: int = 1_000) -> None:
        self.clock = ManualClock()
        self.flights = Flights(offsets, path, self.clock, lambda _: None)
        self.flights.restore(lambda *_: end)
        self.queue = self.flights.open(TOPIC, GROUP, 0, lambda: 0)

    def pop(self, *offsets: int) -> None:
        self.flights.hand_out(self.queue, offsets, offsets[-1] + 1, self.clock(), 60_000)

    def in_flight(self) -> list[int]:
        return list(self.queue.flights)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pop.journal"


def test_pops_acknowledgements_and_changes_are_there_after_a_kill(path: Path) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2, 3)
    life.pop(5, 9)
    life.flights.close(life.queue, [1, 3, 5])
    life.flights.change(life.queue.flights[2], life.clock() + 5, 7_000)
    again = Life(path, offsets)
    assert again.in_flight() == [0, 2, 9]
    assert (again.queue.next_offset, again.queue.committed) == (10, 0)
    assert again.queue.flights[2].expiry_ms == life.clock() + 7_005
    assert again.flights.count == 3


def test_an_offset_that_went_back_meanwhile_makes_the_journal_void(path: Path) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2)
    life.flights.close(life.queue, [0])
    offsets.reset(GROUP, TOPIC, 0, 0)
    again = Life(path, offsets)
    assert (again.in_flight(), again.queue.next_offset) == ([], 0), "all is delivered again"


def test_an_offset_that_went_ahead_closes_what_lies_before_it(path: Path) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2)
    offsets.commit(GROUP, TOPIC, 0, 2)
    assert Life(path, offsets).in_flight() == [2]


def test_a_queue_whose_end_was_lost_starts_from_its_committed_offset(path: Path) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2)
    life.flights.close(life.queue, [1, 2])
    again = Life(path, offsets, end=2)
    assert (again.in_flight(), again.queue.next_offset) == ([], 0)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_end_repeats_messages_and_skips_none(path: Path, cut: int) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2)
    life.flights.close(life.queue, [1])
    life.flights.close(life.queue, [2])
    raw = path.read_bytes()
    path.write_bytes(raw[:-cut])
    again = Life(path, offsets)
    assert 0 in again.in_flight() or again.queue.next_offset == 0


def test_a_damaged_or_foreign_file_is_reported_and_all_is_delivered_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets)
    life.pop(0, 1, 2)
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    again = Life(path, offsets)
    assert (again.in_flight(), again.queue.next_offset) == ([], 0)
    path.write_bytes(b"something else")
    assert Life(path, offsets).in_flight() == []
    assert "delivered again" in caplog.text


def test_the_file_is_rewritten_before_it_grows_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "BYTES_MAX", 2_000)
    offsets = ConsumerOffsets(None)
    life = Life(path, offsets, end=10_000)
    life.pop(0)
    for number in range(1, 1_000):
        life.pop(number)
        life.flights.close(life.queue, [number])
        assert path.stat().st_size < 3_000
    assert Life(path, offsets, end=10_000).in_flight() == [0]


def test_a_journal_that_cannot_be_written_is_reported_once_and_pops_go_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(path, ConsumerOffsets(None))
    with pytest.MonkeyPatch.context() as full:
        full.setattr(os, "write", _no_space)
        life.pop(0)
        life.pop(1)
    assert caplog.text.count("cannot be written") == 1
    assert life.in_flight() == [0, 1]
    life.pop(2)
    assert path.exists()


def _no_space(_descriptor: int, _data: bytes) -> int:
    raise OSError(28, "No space left on device")
