"""The newest log files were deleted: a start tells what is missing, and no queue gives a number out twice."""

import logging
from pathlib import Path

import pytest

from hanabi.store.message_store import MessageStore
from tests.store.stores import SEGMENT_BYTES, bodies, copy_as_after_a_kill, message, open_store

QUEUES = 2


def ends(store: MessageStore) -> list[int]:
    return [store.reader.max_offset("T", queue_id) for queue_id in range(QUEUES)]


def stored(root: Path, *, crash: bool) -> Path:
    """Return a store with several log files."""
    store = open_store(root / "a")
    for number in range(80):
        assert store.put(message(b"%0100d" % number, queue_id=number % QUEUES)).appended
    store.flush()
    copy = copy_as_after_a_kill(store, root / "b")
    store.close()
    return copy if crash else root / "a"


def delete_newest(root: Path, count: int) -> list[str]:
    paths = sorted((root / "commitlog").iterdir())[-count:]
    for path in paths:
        path.unlink()
    return [path.name for path in paths]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_queues_go_on_counting_behind_what_was_lost(
    memory_directory: Path, crash: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    root = stored(memory_directory, crash=crash)
    missing = delete_newest(root, count)
    with caplog.at_level(logging.ERROR):
        store = open_store(root)
    (line,) = [record.getMessage() for record in caplog.records if "missing" in record.getMessage()]
    assert missing[0] in line
    assert ends(store) == [40, 40]
    kept = bodies(store)
    assert 0 < len(kept) < 40
    assert [int(body) for body in kept] == list(range(0, 2 * len(kept), 2))
    result = store.put(message(b"new"))
    assert result.appended[0].queue_offset == 40, "a group that has come to 40 gets it"
    assert bodies(store) == [*kept, b"new"]

    again = open_store(copy_as_after_a_kill(store, memory_directory / "c"))
    assert bodies(again) == [*kept, b"new"]
    assert ends(again) == [41, 40]
    again.close()
    store.close()
    caplog.clear()
    store = open_store(root)
    assert bodies(store) == [*kept, b"new"]
    assert ends(store) == [41, 40]
    assert "missing" not in caplog.text
    store.close()


def test_a_queue_whose_messages_are_all_lost_goes_on_counting_too(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    while store.max_log_offset < SEGMENT_BYTES:
        store.put(message(b"%0500d" % 0, queue_id=0))
    for number in range(3):
        store.put(message(b"%d" % number, queue_id=1))
    store.close()
    delete_newest(memory_directory, 1)
    store = open_store(memory_directory)
    assert store.reader.max_offset("T", 1) == 3
    assert store.put(message(b"new", queue_id=1)).appended[0].queue_offset == 3
    assert bodies(store, queue_id=1) == [b"new"]
    store.close()


def test_one_entry_that_points_nowhere_is_no_missing_file(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = stored(memory_directory, crash=False)
    last = sorted((root / "consumequeue" / "T" / "0").iterdir())[-1]
    data = bytearray(last.read_bytes())
    data[180 + 2] ^= 0x40  # the log offset of message 39, far behind the end of the log
    last.write_bytes(data)
    store = open_store(root)
    assert [int(body) for body in bodies(store)] == list(range(0, 80, 2))
    assert "missing" not in caplog.text
    store.close()
