"""Damaged records: never a row, always told, and by option the end of the read, of the task, or of nothing."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.errors import StoreDamaged
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES
from tests.spark.reading import numbers, rows, tasks
from tests.store.sample_stores import LOG_FILE_BYTES, QUEUE_FILE_BYTES, flip, make_store, overwrite

BODY_AT = 88


def spoil(root: Path, place: int, at: int, content: bytes) -> None:
    """Write *content* over the record at log offset *place*, *at* bytes behind its beginning."""
    position = place + at
    name = f"{position - position % LOG_FILE_BYTES:020d}"
    overwrite(root / "commitlog" / name, position % LOG_FILE_BYTES, content)


def spoil_entry(root: Path, queue_id: int, queue_offset: int, content: bytes, at: int = 0) -> None:
    position = queue_offset * ENTRY_BYTES
    name = f"{position - position % QUEUE_FILE_BYTES:020d}"
    overwrite(root / "consumequeue" / "T" / str(queue_id) / name, position % QUEUE_FILE_BYTES + at, content)


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """Store messages 0 to 39 in two queues; return where they lie."""
    return tmp_path / "store", make_store(tmp_path / "store", 40)


DAMAGE = {
    "a body with a changed bit": (BODY_AT + 5, b"x", "its body has CRC"),
    "zeros": (0, bytes(200), "nothing is written there|size 0|unknown magic"),
    "a wrong magic": (4, b"\0\0\0\1", "unknown magic"),
    "a wrong size": (0, b"\0\0\4\0", "size 1024"),
    "a size that is too large": (0, b"\x7f\0\0\0", "size"),
    "a wrong body length": (84, b"\0\0\0\1", "its parts end|topic of"),
    "another queue": (12, b"\0\0\0\7", "another message"),
    "another offset in the queue": (27, b"\xee", "another message"),
    "another place in the log": (35, b"\xee", "another message"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_record_fails_the_read_or_is_left_out(store: tuple[Path, list[int]], kind: str) -> None:
    root, places = store
    at, content, reason = DAMAGE[kind]
    spoil(root, places[17], at, content)
    with pytest.raises(StoreDamaged, match=rf"message 8 of T/1 at log offset {places[17]}: .*({reason}).*onDamage"):
        rows(root)
    assert numbers(rows(root, onDamage="skip")) == [number for number in range(40) if number != 17]
    assert numbers(rows(root, onDamage="end")) == list(range(17))
    (told,) = rows(root, rows="damage")
    assert (told["topic"], told["queueId"], told["queueOffset"], told["commitLogOffset"]) == ("T", 1, 8, places[17])


@pytest.mark.parametrize(
    "kind", [kind for kind in DAMAGE if "another queue" not in kind and "in the queue" not in kind]
)
def test_a_damaged_record_costs_a_scan_of_the_log_only_itself(store: tuple[Path, list[int]], kind: str) -> None:
    root, places = store
    at, content, _ = DAMAGE[kind]
    spoil(root, places[17], at, content)
    with pytest.raises(StoreDamaged, match=f"log offset {places[17]}: "):
        rows(root, scan="log")
    assert numbers(rows(root, scan="log", onDamage="skip")) == [number for number in range(40) if number != 17]
    assert numbers(rows(root, scan="log", onDamage="end")) == list(range(17))
    (told,) = rows(root, scan="log", rows="damage")
    assert (told["topic"], told["commitLogOffset"]) == (None, places[17])


def test_each_task_ends_at_its_own_first_damage(store: tuple[Path, list[int]]) -> None:
    root, places = store
    spoil(root, places[5], BODY_AT, b"x")
    found = tasks(root, onDamage="end", minPartitions=2)
    assert numbers(found[0]) == list(range(5))
    assert numbers(found[1])[-1] == 39


def test_a_torn_end_of_the_log_is_told(store: tuple[Path, list[int]]) -> None:
    root, places = store
    spoil(root, places[39], 50, bytes(273))
    for scan in ("queues", "log"):
        assert numbers(rows(root, scan=scan, onDamage="end")) == list(range(39))
        assert len(rows(root, scan=scan, rows="damage")) == 1


def test_a_log_that_was_cut_is_told(store: tuple[Path, list[int]]) -> None:
    root, places = store
    last = sorted((root / "commitlog").iterdir())[-1]
    last.write_bytes(last.read_bytes()[: places[39] % LOG_FILE_BYTES + 100])
    assert numbers(rows(root, onDamage="skip")) == list(range(39))
    assert numbers(rows(root, scan="log", onDamage="skip")) == list(range(39))
    (told,) = rows(root, rows="damage")
    assert "which the log has not" in told["reason"]


def test_a_log_file_that_is_missing_in_the_middle_is_told(store: tuple[Path, list[int]]) -> None:
    root, places = store
    (root / "commitlog" / f"{LOG_FILE_BYTES:020d}").unlink()
    lost = [number for number, place in enumerate(places) if LOG_FILE_BYTES <= place < 2 * LOG_FILE_BYTES]
    assert [row["commitLogOffset"] for row in rows(root, rows="damage")] == [places[number] for number in lost]
    assert numbers(rows(root, onDamage="skip")) == [number for number in range(40) if number not in lost]


ENTRIES = {
    "no entry": (0, bytes(ENTRY_BYTES), "no entry"),
    "a place outside of the log": (0, ENTRY.pack(10**9, 323, 0), "which the log has not"),
    "a negative place": (0, ENTRY.pack(-5, 323, 0), "no entry"),
    "a size that cannot be": (8, b"\x7f\0\0\0", "which the log has not"),
    "a size of 5": (8, b"\0\0\0\5", "which the log has not"),
    "a size that is not the record's": (8, b"\0\0\1\0", "size 325"),
    "the place of another message": (0, ENTRY.pack(0, 323, 0), "another message"),
    "a place within a message": (0, ENTRY.pack(20, 323, 0), "unknown magic"),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", ENTRIES)
def test_a_damaged_entry_costs_one_message(store: tuple[Path, list[int]], kind: str, partitions: int) -> None:
    root, _ = store
    at, content, reason = ENTRIES[kind]
    spoil_entry(root, 1, 8, content, at)
    found = rows(root, onDamage="skip", minPartitions=partitions)
    assert sorted(numbers(found)) == [number for number in range(40) if number != 17]
    (told,) = rows(root, rows="damage", minPartitions=partitions)
    assert (told["queueId"], told["queueOffset"]) == (1, 8)
    assert reason in told["reason"]


def test_without_the_check_of_bodies_they_are_taken_as_they_are(store: tuple[Path, list[int]]) -> None:
    root, places = store
    spoil(root, places[3], BODY_AT + 199, b"7")
    assert [row["body"][-1:] for row in rows(root, checkCrc=False)][3] == b"7"


def test_how_many_were_left_out_is_logged(store: tuple[Path, list[int]], caplog: pytest.LogCaptureFixture) -> None:
    root, places = store
    for number in (3, 4, 30):
        spoil(root, places[number], BODY_AT, b"x")
    with caplog.at_level(logging.WARNING):
        rows(root, onDamage="skip")
    assert "3 damaged records left out; the first: message 1 of T/1" in caplog.text


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 255)), min_size=1, max_size=8), st.integers(1, 4))
def test_changed_bits_anywhere_lose_only_what_they_hit(changes: list[tuple[int, int]], partitions: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        places = make_store(root, 40)
        whole = {row["queueOffset"] * 2 + row["queueId"]: row for row in rows(root)}
        hit: set[int] = set()
        for at, mask in changes:
            if at < places[-1]:
                flip(root / "commitlog" / f"{at - at % LOG_FILE_BYTES:020d}", at % LOG_FILE_BYTES, mask)
                hit.add(max((number for number, place in enumerate(places) if place <= at), default=0))
        for scan in ("queues", "log"):
            found = rows(root, scan=scan, onDamage="skip", minPartitions=partitions)
            untouched = [number for number in range(40) if number not in hit]
            bodies = [row["body"] for row in found]
            assert [body for body in bodies if int(body) in untouched] == [whole[each]["body"] for each in untouched]
