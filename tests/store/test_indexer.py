"""Tests of dispatch after an append: queue entry, key index, listener."""

from pathlib import Path

import pytest

from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.message_store import PutStatus
from hanabi.store.queues.consume_queue_ext import ExtUnit
from hanabi.testing.clock import START_MS
from hanabi.wire.message import sysflag
from hanabi.wire.message.tags import java_hash
from hanabi.wire.system_names import SCHEDULE_TOPIC
from tests.store.stores import bodies, message, open_store, read_queue


def test_a_message_is_told_once_with_its_place_and_its_tags(tmp_path: Path) -> None:
    told: list[Dispatched] = []
    store = open_store(tmp_path, hooks=Hooks(on_append=told.append))
    result = store.put(message(b"one", properties={"TAGS": "red"})).appended[0]
    assert told == [
        Dispatched("T", 0, 0, result.log_offset, result.size, java_hash("red"), START_MS, b"TAGS\x01red"),
    ]
    store.close()


def test_who_is_told_finds_the_message_in_queue_and_index_already(tmp_path: Path) -> None:
    found: list[tuple[list[bytes], int]] = []

    def look(dispatched: Dispatched) -> None:
        by_key = store.queries.by_key("T", "k", 8, 0, 2**62)
        found.append((bodies(store), len(by_key.records)))

    store = open_store(tmp_path, hooks=Hooks(on_append=look))
    store.put(message(b"one", properties={"KEYS": "k"}))
    assert found == [([b"one"], 1)]
    store.close()


@pytest.mark.parametrize(
    ("transaction", "queued", "indexed"),
    [
        (sysflag.TRANSACTION_NONE, True, True),
        (sysflag.TRANSACTION_PREPARED, False, True),
        (sysflag.TRANSACTION_COMMIT, True, True),
        (sysflag.TRANSACTION_ROLLBACK, False, False),
    ],
)
def test_the_transaction_type_says_whether_a_message_is_queued_and_indexed(
    tmp_path: Path, transaction: int, queued: bool, indexed: bool
) -> None:
    told: list[Dispatched] = []
    store = open_store(tmp_path / "first", hooks=Hooks(on_append=told.append))
    store.put(message(properties={"KEYS": "k"}, sys_flag=transaction))
    for _ in range(2):  # the second time as recovery sees it
        assert bodies(store) == [b"hello"] * queued
        assert len(store.queries.by_key("T", "k", 8, 0, 2**62).records) == indexed
        store.close()
        (tmp_path / "first" / "abort").touch()
        store = open_store(tmp_path / "first")
    assert len(told) == queued
    store.close()


def test_the_unique_key_and_every_key_find_the_message(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put(message(properties={"KEYS": "a b  c", "UNIQ_KEY": "U1"}))
    for key in ("a", "b", "c", "U1"):
        assert len(store.queries.by_key("T", key, 8, 0, 2**62).records) == 1
    assert not store.queries.by_key("T", "", 8, 0, 2**62).records
    store.close()


def test_a_delayed_message_keeps_its_time_of_delivery_in_place_of_the_tags(tmp_path: Path) -> None:
    def deliver_time(level: int, store_ms: int) -> int:
        return store_ms + 1000 * level

    told: list[Dispatched] = []
    store = open_store(tmp_path, hooks=Hooks(on_append=told.append, deliver_time_ms=deliver_time))
    for properties in ({"TAGS": "x", "DELAY": "3"}, {"TAGS": "x"}, {"TAGS": "x", "DELAY": "0"}):
        store.put(message(topic=SCHEDULE_TOPIC, queue_id=2, properties=properties))
    store.put(message(properties={"TAGS": "x", "DELAY": "3"}))  # the level means nothing in another topic
    assert [one.tags_code for one in told] == [START_MS + 3000, java_hash("x"), java_hash("x"), java_hash("x")]
    codes: list[int | None] = []

    def see(code: int | None, _: ExtUnit | None) -> bool:
        codes.append(code)
        return True

    store.get(SCHEDULE_TOPIC, 2, 0, 8, entry_filter=see)
    assert codes == [START_MS + 3000, java_hash("x"), java_hash("x")]
    store.close()


def test_filter_bits_are_in_the_extension_where_it_is_enabled(tmp_path: Path) -> None:
    hooks = Hooks(filter_bits=lambda dispatched: dispatched.properties[-1:] * 4)
    store = open_store(tmp_path, hooks=hooks, consume_queue_ext_enabled=True)
    store.put(message(properties={"TAGS": "a"}))
    store.put(message(properties={"TAGS": "b"}))
    seen: list[tuple[int | None, bytes]] = []

    def see(code: int | None, unit: ExtUnit | None) -> bool:
        seen.append((code, unit.bitmap if unit else b""))
        return True

    store.get("T", 0, 0, 8, entry_filter=see)
    assert seen == [(java_hash("a"), b"aaaa"), (java_hash("b"), b"bbbb")]
    store.close()


def test_a_message_that_cannot_be_indexed_is_stored_and_the_next_ones_wait_until_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    index = tmp_path / "index"
    index.write_text("a file where the directory should be")
    keyed = message(b"first", properties={"KEYS": "k"})
    assert store.put(keyed).status is PutStatus.PUT_OK
    assert bodies(store) == [b"first"]
    refused = store.put(message(b"second"))
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert str(index) in refused.reason
    index.unlink()
    assert store.put(message(b"third")).status is PutStatus.PUT_OK
    assert bodies(store) == [b"first", b"third"]
    assert len(store.queries.by_key("T", "k", 8, 0, 2**62).records) == 1
    store.close()


def test_what_could_not_be_indexed_is_indexed_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (tmp_path / "index").write_text("a file where the directory should be")
    store.put(message(properties={"KEYS": "k"}))
    store.close()
    assert (tmp_path / "abort").exists()
    (tmp_path / "index").unlink()
    store = open_store(tmp_path)
    assert len(store.queries.by_key("T", "k", 8, 0, 2**62).records) == 1
    assert len(read_queue(store)) == 1
    store.close()


def test_without_an_index_nothing_is_found_by_key_and_no_file_is_made(tmp_path: Path) -> None:
    store = open_store(tmp_path, index_enabled=False)
    store.put(message(properties={"KEYS": "k"}))
    assert not store.queries.by_key("T", "k", 8, 0, 2**62).records
    store.close()
    assert not (tmp_path / "index").exists()
