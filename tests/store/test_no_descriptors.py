"""A process that can open no more files: readers get an error and come again, and nothing is passed over."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hanabi.errors import StoreError
from hanabi.store.files.descriptors import Descriptors
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import GetStatus
from tests.store.open_files import no_free_descriptors, open_files
from tests.store.stores import message, open_store, read_queue


def filled(directory: Path, topics: int = 1, count: int = 25, *, ext: bool = False) -> MessageStore:
    """Return a store whose queues are in their files, none of which is open."""
    store = open_store(directory, consume_queue_ext_enabled=ext)
    for number in range(count):
        for topic in range(topics):
            store.put(message(b"%d" % number, topic=f"T{topic}", properties={"TAGS": "red"}))
    store.flush()
    store._queues.descriptors.close()
    return store


def test_a_read_that_cannot_open_its_file_is_an_error_and_not_an_empty_queue(memory_directory: Path) -> None:
    store = filled(memory_directory)
    with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
        store.get("T0", 0, 12, 4)
    assert [int(record.body) for record in read_queue(store, "T0")] == list(range(25))
    store.close()


def test_what_was_found_before_the_error_is_delivered(memory_directory: Path) -> None:
    store = filled(memory_directory)
    store.get("T0", 0, 5, 1)  # which opens the first file alone
    held = list(store._queues.descriptors._kept.values())  # by a reader, say: the cache cannot close it
    with no_free_descriptors():
        result = store.get("T0", 0, 5, 20)
    assert (result.status, result.count, result.next_offset) == (GetStatus.FOUND, 5, 10)
    assert len(held) == 1
    store.close()


def test_no_question_is_answered_with_a_guess(memory_directory: Path) -> None:
    store = filled(memory_directory, ext=True)
    reader, queries = store.reader, store.queries
    questions: list[Callable[[], object]] = [
        lambda: reader.log_offset("T0", 0, 3),
        lambda: reader.is_on_disk("T0", 0, 3),
        lambda: queries.entries("T0", 0, 3, 2),
        lambda: queries.store_time("T0", 0, 3),
        lambda: queries.offset_by_time("T0", 0, 1),
        lambda: store._queues.delete_expired(1 << 20),
        lambda: store._queues.correct_min(1 << 20),
    ]
    for question in questions:
        store._queues.descriptors.close()
        with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
            question()
    assert reader.min_offset("T0", 0) == 0
    assert len(read_queue(store, "T0")) == 25
    store.close()


def test_a_unit_of_the_extension_that_cannot_be_read_is_not_taken_for_lost(memory_directory: Path) -> None:
    store = filled(memory_directory, ext=True)
    store.get("T0", 0, 0, 1)  # opens the queue's file, not that of the extension
    assert not [path for path in open_files(memory_directory) if "consumequeue_ext" in str(path)]
    held = list(store._queues.descriptors._kept.values())
    with no_free_descriptors(), pytest.raises(StoreError, match="Too many open files"):
        store.get("T0", 0, 0, 8, entry_filter=lambda _code, _unit: True)
    assert len(held) == 1
    store.close()


def test_files_of_queues_that_rest_are_closed_for_those_that_are_needed(memory_directory: Path) -> None:
    store = filled(memory_directory, topics=20)
    for topic in range(19):
        store.get(f"T{topic}", 0, 0, 1)
    with no_free_descriptors():
        assert store.get("T19", 0, 0, 1).count == 1
    store.close()


def test_a_start_that_cannot_open_the_queues_fails_and_changes_nothing(memory_directory: Path) -> None:
    filled(memory_directory, topics=3).close()
    before = {path: path.read_bytes() for path in memory_directory.rglob("consumequeue/**/*") if path.is_file()}
    failures: list[str] = []
    with no_free_descriptors() as taken:
        while True:
            try:
                open_store(memory_directory).close()
                break
            except StoreError as error:
                failures.append(str(error))
                os.close(taken.pop())
    assert len(failures) > 3
    assert all("Too many open files" in failure for failure in failures)
    assert {path: path.read_bytes() for path in before} == before
    store = open_store(memory_directory)
    assert [len(read_queue(store, f"T{topic}")) for topic in range(3)] == [25, 25, 25]
    store.close()


def test_the_cache_takes_a_quarter_of_the_descriptors_at_most() -> None:
    assert Descriptors.share_of(1 << 20) == 512
    assert Descriptors.share_of(1024) == 256
    assert Descriptors.share_of(16) == 8
