"""The end of a log is cut off, as a slave does that follows a new master; a crash after any step of that loses nothing
before the cut and brings nothing behind it back."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.log import Log
from hanabi.store.message_store import MessageStore
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.wire.message.record import decode_record
from tests.store.stores import message, open_store

COUNT, KEPT = 60, 23  # over several files of log, queue and index


class Died(Exception):
    """The process ends here."""


def filled(root: Path) -> tuple[MessageStore, int]:
    """Return a store on the disk, and the offset of its message KEPT."""
    store = open_store(root)
    places = [
        store.put(message(b"body %d" % at, properties={"KEYS": f"k{at}"})).appended[0].log_offset for at in range(COUNT)
    ]
    store.flush()
    return store, places[KEPT]


def bodies(store: MessageStore) -> list[bytes]:
    """Return the messages of the queue, each of which must be what the log has there."""
    found: list[bytes] = []
    while True:
        result = store.get("T", 0, len(found), 32)
        if not result.count:
            return found
        for view in result.slices:
            at = 0
            while at < len(view):
                record = decode_record(memoryview(view)[at:], check_crc=True)
                found.append(record.body)
                at += record.size


STEPS: list[tuple[type, str]] = [
    (Checkpoint, "lower_to"),
    (Log, "truncate_to"),
    (Log, "write_again"),
    (ConsumeQueues, "truncate"),
    (KeyIndex, "truncate"),
    (Checkpoint, "flush"),
]


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type, str, bool], None]]:
    """Let the process die before, or after, a step."""

    def plant(owner: type, name: str, is_done: bool) -> None:
        real = getattr(owner, name)

        def step(*values: Any, **named: Any) -> Any:
            if is_done:
                real(*values, **named)
            raise Died

        monkeypatch.setattr(owner, name, step)

    yield plant
    monkeypatch.undo()


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "name"), STEPS)
def test_a_crash_in_a_truncation_leaves_a_whole_store(
    owner: type,
    name: str,
    is_done: bool,
    memory_directory: Path,
    dies: Callable[[type, str, bool], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, cut = filled(memory_directory / "store")
    dies(owner, name, is_done)
    with pytest.raises(Died):
        store.truncate(cut)
    monkeypatch.undo()
    shutil.copytree(memory_directory / "store", memory_directory / "after", ignore=shutil.ignore_patterns("lock"))
    again = open_store(memory_directory / "after")
    found = bodies(again)
    assert found[:KEPT] == [b"body %d" % at for at in range(KEPT)]
    assert len(found) in (KEPT, COUNT) or again.max_log_offset > cut
    assert again.reader.max_offset("T", 0) == len(found)
    again.truncate(cut)
    assert bodies(again) == [b"body %d" % at for at in range(KEPT)]
    assert again.put(message(b"new", properties={"KEYS": "new"})).appended[0].queue_offset == KEPT
    assert again.queries.by_key("T", f"k{KEPT}", 9, 0, 2**62).records == []


def test_a_tail_that_was_cut_off_never_returns(memory_directory: Path) -> None:
    store, cut = filled(memory_directory / "store")
    store.truncate(cut)
    shutil.copytree(memory_directory / "store", memory_directory / "after", ignore=shutil.ignore_patterns("lock"))
    again = open_store(memory_directory / "after")
    assert again.max_log_offset == cut
    assert bodies(again) == [b"body %d" % at for at in range(KEPT)]
    assert again.queries.record(cut) is None
