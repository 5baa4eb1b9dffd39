"""A run of appends leaves a store as the same messages do that are put one by one, and tells of them alike."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hanabi.store.fast_path.loading import run_writer
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from tests.store.stores import HOST, message, open_store, read_queue

if TYPE_CHECKING:
    from hanabi.store.fast_path._appends import RunWriter

pytestmark = pytest.mark.skipif(run_writer() is None, reason="there is no fast path without compiled functions")

UNIQUE_KEY = "7F0000011A2B251A69D701C5F3A000A7"
MESSAGES = [
    message(b"first", queue_id=0, properties={"UNIQ_KEY": UNIQUE_KEY, "TAGS": "red"}),
    message(b"second", queue_id=1, properties={"KEYS": "a b", "x": "y"}),
    message(b"third", queue_id=0),
    message(b"fourth" * 20, queue_id=0, properties={"UNIQ_KEY": "short", "KEYS": "c"}),
]


class Told:
    """A store, and what it tells of its messages."""

    def __init__(self, root: Path, listened: int = -1) -> None:
        self.heard: list[Dispatched] = []
        hooks = Hooks(on_append=self.heard.append, listens=lambda _, queue_id: queue_id != listened)
        self.store = open_store(root, hooks=hooks, commit_log_segment_bytes=1 << 16)
        for queue_id in (0, 1):  # the usual case is that queues and index are there
            assert self.store.put(message(queue_id=queue_id, properties={"KEYS": "k"})).appended
        self.heard.clear()

    def seen(self) -> tuple[object, ...]:
        store = self.store
        assert store._index is not None
        index = [(bytes(file._map), file.end_log_offset, file.slots_used) for file in store._index.files]
        return read_queue(store), read_queue(store, queue_id=1), index, store.max_log_offset, store.latest_store_ms


def begun(store: MessageStore) -> "RunWriter":
    writer = store.run_writer()
    assert writer is not None
    assert writer.begin()
    return writer


def raw(properties: bytes, *, sys_flag: int = 0, topic: str = "T", body: bytes = b"body") -> PendingMessage:
    return PendingMessage(topic, 0, body, properties, 1, HOST, HOST, sys_flag=sys_flag)


def put_all(writer: "RunWriter") -> None:
    assert all(map(writer.append, MESSAGES))


def put_one_by_one(store: MessageStore) -> None:
    for each in MESSAGES:
        assert store.put(each).appended


def test_a_run_does_what_as_many_puts_do(memory_directory: Path) -> None:
    one, other = Told(memory_directory / "run"), Told(memory_directory / "puts")
    for _ in range(2):
        writer = begun(one.store)
        put_all(writer)
        assert one.store.max_log_offset == other.store.max_log_offset  # nothing is there before the end
        stored = writer.finish()
        assert [(count, queue_id) for _, count, _, queue_id, _ in stored] == [(3, 0), (1, 1)]
        put_one_by_one(other.store)
        assert one.seen() == other.seen()
    assert sorted(one.heard, key=lambda told: told.log_offset) == other.heard
    one.store.close()
    other.store.close()


def test_a_new_index_file_gets_the_entries_that_puts_would_make(memory_directory: Path) -> None:
    stores = [open_store(memory_directory / name, commit_log_segment_bytes=1 << 16) for name in ("run", "puts")]
    for store in stores:
        assert store.put(message()).appended  # makes the queue, and has no key
    one, other = stores
    for _ in range(2):
        writer = begun(one)
        if not writer.append(message(properties={"KEYS": "a"})):
            assert one.put(message(properties={"KEYS": "a"})).appended
        writer.finish()
        assert other.put(message(properties={"KEYS": "a"})).appended
    assert one._index is not None
    assert other._index is not None
    assert [bytes(file._map) for file in one._index.files] == [bytes(file._map) for file in other._index.files]
    for store in stores:
        store.close()


def test_queues_to_which_nobody_listens_are_not_told_of(memory_directory: Path) -> None:
    told = Told(memory_directory, listened=0)
    writer = begun(told.store)
    put_all(writer)
    writer.finish()
    assert [heard.queue_id for heard in told.heard] == [1]
    told.store.close()


def test_what_is_taken_back_was_never_there(memory_directory: Path) -> None:
    one, other = Told(memory_directory / "run"), Told(memory_directory / "puts")
    writer = begun(one.store)
    put_all(writer)
    before = writer.count
    for number in range(3):
        assert writer.append(message(b"gone", properties={"KEYS": f"k{number}"}))
    writer.undo(before)
    writer.finish()
    put_one_by_one(other.store)
    assert one.seen() == other.seen()
    one.store.close()
    other.store.close()


@pytest.mark.parametrize(
    "declined",
    [
        raw("x\x01é".encode()),
        raw(b"x", sys_flag=4),
        raw(b"x", body=b"body" * 20_000),
        raw(b"x\x01\0"),
        raw(b"x\x01" + bytes(512) + b"\x02"),
        raw(b"x\x01" + b"y" * 32_760),
        raw(b"x", topic="Unknown"),
        PendingMessage("T", 0, b"body", b"x", 1, bytes(20), HOST),
    ],
    ids=["not ASCII", "a transaction", "too long", "a NUL at the end", "NULs", "no room for a seal", "new", "IPv6"],
)
def test_what_is_unusual_is_left_to_put(memory_directory: Path, declined: PendingMessage) -> None:
    told = Told(memory_directory)
    before = told.seen()
    writer = begun(told.store)
    assert not writer.append(declined)
    assert writer.finish() == []
    assert told.seen() == before
    told.store.close()
    assert not writer.begin()


def test_keys_for_which_the_index_file_has_no_room_are_left_to_put(memory_directory: Path) -> None:
    told = Told(memory_directory)
    assert told.store._index is not None
    (file,) = told.store._index.files
    writer = begun(told.store)
    left = file.entries_max - file.next_entry
    too_many = " ".join(map(str, range(left)))
    assert not writer.append(message(properties={"UNIQ_KEY": "u", "KEYS": too_many}))
    for number in range(left):
        assert writer.append(message(properties={"UNIQ_KEY": str(number)}))
    assert not writer.append(message(properties={"UNIQ_KEY": "u"}))
    assert writer.append(message(properties={"x": "y"}))
    writer.finish()
    assert file.next_entry == file.entries_max
    told.store.close()
