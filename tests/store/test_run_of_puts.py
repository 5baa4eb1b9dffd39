"""A run of puts leaves a store as the same messages do that are put one by one, and tells of them in the same words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.store.cut_properties import cut_properties
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.key_hash import key_hash_after
from hanabi.store.message_store import MessageStore
from hanabi.store.run_of_puts import Place, PlainPuts
from hanabi.store.unique_key_hash import unique_key_hash
from hanabi.wire.properties import encode_properties
from hanabi.wire.tags import tags_code
from tests.store.stores import HOST, message, open_store, read_queue

pytestmark = pytest.mark.pure

UNIQUE_KEY = "7F0000011A2B251A69D701C5F3A000A7"
MESSAGES = [
    (0, b"first", {"UNIQ_KEY": UNIQUE_KEY, "TAGS": "red"}),
    (1, b"second", {"KEYS": "a b", "x": "y"}),
    (0, b"third", {}),
    (0, b"fourth" * 20, {"UNIQ_KEY": "short", "KEYS": "c"}),
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


def put_text(puts: PlainPuts, place: Place, body: bytes, properties: str, sys_flag: int = 0) -> int | None:
    """Put a message with *properties*, which have a separator at both ends."""
    cut = cut_properties(properties)
    return puts.put(place, body, cut, 0, sys_flag, 1, 0) if cut is not None else None


def put_all(puts: PlainPuts) -> None:
    places = {queue_id: puts.add("T", queue_id, 0) for queue_id in (0, 1)}
    for queue_id, body, properties in MESSAGES:
        place = places[queue_id]
        assert place is not None
        text = encode_properties(properties).decode()
        assert put_text(puts, place, body, f"\x02{text}\x02") is not None


def put_one_by_one(store: MessageStore) -> None:
    for queue_id, body, properties in MESSAGES:
        assert store.put(message(body, queue_id=queue_id, properties=properties)).appended


def test_a_run_does_what_as_many_puts_do(memory_directory: Path) -> None:
    one, other = Told(memory_directory / "run"), Told(memory_directory / "puts")
    puts = PlainPuts(one.store)
    for _ in range(2):
        assert puts.begin(HOST, HOST)
        put_all(puts)
        assert one.store.max_log_offset == other.store.max_log_offset  # nothing is there before the end
        puts.finish()
        put_one_by_one(other.store)
        assert one.seen() == other.seen()
    assert sorted(one.heard, key=lambda told: told.log_offset) == other.heard
    one.store.close()
    other.store.close()


def test_queues_to_which_nobody_listens_are_not_told_of(memory_directory: Path) -> None:
    told = Told(memory_directory, listened=0)
    puts = PlainPuts(told.store)
    assert puts.begin(HOST, HOST)
    put_all(puts)
    puts.finish()
    assert [heard.queue_id for heard in told.heard] == [1]
    told.store.close()


def test_what_is_taken_back_was_never_there(memory_directory: Path) -> None:
    one, other = Told(memory_directory / "run"), Told(memory_directory / "puts")
    puts = PlainPuts(one.store)
    assert puts.begin(HOST, HOST)
    put_all(puts)
    place = puts.places[0]
    before = len(place.entries)
    for number in range(3):
        assert put_text(puts, place, b"gone", f"\x02KEYS\x01k{number}\x02") is not None
    puts.back_to(place, before)
    puts.finish()
    put_one_by_one(other.store)
    assert one.seen() == other.seen()
    one.store.close()
    other.store.close()


@pytest.mark.parametrize(
    ("properties", "sys_flag"),
    [("\x02TAGS\x01\x02", 0), ("\x02KEYS\x01\x02", 0), ("\x02x\x01é\x02", 0), ("\x02x\x02", 4)],
)
def test_what_is_unusual_is_left_to_put(memory_directory: Path, properties: str, sys_flag: int) -> None:
    told = Told(memory_directory)
    puts = PlainPuts(told.store)
    before = told.seen()
    assert puts.begin(HOST, HOST)
    assert puts.add("Unknown", 0, 0) is None
    place = puts.add("T", 0, 0)
    assert place is not None
    assert put_text(puts, place, b"body", properties, sys_flag) is None
    assert put_text(puts, place, b"body" * 20_000, "\x02x\x02") is None
    puts.finish()
    assert told.seen() == before
    told.store.close()
    assert not puts.begin(HOST, HOST)


@given(
    st.integers(0, 2**32 - 1), st.text(st.characters(max_codepoint=127), min_size=32, max_size=32) | st.just("short")
)
def test_the_hash_of_a_unique_key_is_that_of_any_key(prefix: int, key: str) -> None:
    assert unique_key_hash(prefix, key.encode()) == key_hash_after(prefix, key)


def test_more_makers_of_keys_than_are_remembered_change_nothing() -> None:
    for number in (*range(5_000), *range(10)):
        key = f"{number:020X}{number * 7:08X}{number % 11:04X}"
        assert unique_key_hash(number, key.encode()) == key_hash_after(number, key)


@given(
    st.lists(st.sampled_from(["UNIQ_KEY\x01a", "UNIQ_KEY\x01", "KEYS\x01b  c", "TAGS\x01t", "x\x01y", "x", "é", ""]))
)
def test_properties_are_cut_and_not_changed(items: list[str]) -> None:
    text = "\x02".join(items)
    cut = cut_properties(f"\x02{text}\x02")
    if cut is None:
        assert "é" in items or "UNIQ_KEY\x01" in items
    else:
        start, unique_key, end, code, keys = cut
        assert start + unique_key + end == text.encode()
        assert unique_key == (b"a" if "UNIQ_KEY\x01a" in items else b"")
        assert list(keys) == (["b", "c"] if "KEYS\x01b  c" in items else [])
        assert code == (tags_code("t") if "TAGS\x01t" in items else 0)


def test_keys_for_which_the_index_file_has_no_room_are_left_to_put(memory_directory: Path) -> None:
    told = Told(memory_directory)
    puts = PlainPuts(told.store)
    assert puts.begin(HOST, HOST)
    place = puts.add("T", 0, 0)
    file = puts._index_file
    assert place is not None
    assert file is not None
    left = file.entries_max - file.next_entry
    too_many = " ".join(map(str, range(left)))
    assert put_text(puts, place, b"body", f"\x02UNIQ_KEY\x01u\x02KEYS\x01{too_many}\x02") is None
    for number in range(left):
        assert put_text(puts, place, b"body", f"\x02UNIQ_KEY\x01{number}\x02") is not None
    assert put_text(puts, place, b"body", "\x02UNIQ_KEY\x01u\x02") is None
    assert put_text(puts, place, b"body", "\x02x\x01y\x02") is not None
    puts.finish()
    assert file.next_entry == file.entries_max
    told.store.close()
