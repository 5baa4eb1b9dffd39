"""Tests of reading a recorded history, also of a writer that was killed in the middle of a line."""

from pathlib import Path

from chaos.history import Attempted, Damaged, Follower, Recorder
from chaos.traffic import Kind


def attempt(number: int) -> Attempted:
    return Attempted(at=1.5, kind=Kind.PLAIN, producer="p", number=number)


def test_events_come_back_as_they_were_each_once(tmp_path: Path) -> None:
    first, second = Recorder(tmp_path / "a.jsonl"), Recorder(tmp_path / "b.jsonl")
    follower = Follower(tmp_path)
    assert list(follower.new()) == []
    damage = Damaged(at=2.0, consumer="c", topic="T", broker="b", queue_id=0, offset=3)
    first.write(attempt(1))
    second.write(damage)
    assert list(follower.new()) == [attempt(1), damage]
    first.write(attempt(2))
    assert list(follower.new()) == [attempt(2)]
    assert list(follower.new()) == []
    first.close()
    second.close()


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorder = Recorder(path)
    recorder.write(attempt(1))
    recorder.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:10])
    follower = Follower(tmp_path)
    assert list(follower.new()) == [attempt(1)]
    path.write_bytes(whole + whole)
    assert list(follower.new()) == [attempt(1)]
