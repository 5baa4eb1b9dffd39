"""A store whose key index is missing as a whole: its next start builds it again, and nothing else."""

import logging
import shutil
from pathlib import Path

import pytest

from tests.store.stores import message, open_store
from tests.store.upkeep.test_recovery import damaged, found_by_key, numbers

MESSAGES = 120


@pytest.mark.parametrize("crash", [False, True])
def test_an_index_that_was_deleted_alone_finds_every_message_after_the_next_start(
    memory_directory: Path, crash: bool, caplog: pytest.LogCaptureFixture
) -> None:
    root = damaged(memory_directory, crash=crash)
    shutil.rmtree(root / "index")
    with caplog.at_level(logging.INFO):
        store = open_store(root)
    assert [number for number in range(MESSAGES) if not found_by_key(store, number)] == []
    assert numbers(store) == list(range(MESSAGES))
    assert crash or "there is no key index" in caplog.text  # a crash of a small store reads it all
    store.close()


def test_the_queues_of_a_deleted_topic_do_not_come_back_with_the_index(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    for topic in ("Deleted", "T"):
        for number in range(30):
            store.put(message(b"x", topic=topic, properties={"KEYS": f"k{number}"}))
    store.delete_topic("Deleted")
    store.close()
    shutil.rmtree(memory_directory / "index")
    store = open_store(memory_directory)
    assert [number for number in range(30) if not found_by_key(store, number)] == []
    assert not (memory_directory / "consumequeue" / "Deleted").exists()
    store.close()


def test_a_store_without_keys_is_read_for_its_index_once(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(memory_directory)
    for _ in range(30):
        store.put(message(b"no key"))
    store.close()
    shutil.rmtree(memory_directory / "index", ignore_errors=True)
    open_store(memory_directory).close()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        open_store(memory_directory).close()
    assert "there is no key index" not in caplog.text
