"""All consume queues together: loading, flushing, deleting, and a bounded number of open files."""

import os
from pathlib import Path

import pytest

from hanabi.errors import ConfigError, StoreError
from hanabi.store.files.descriptors import Descriptors
from hanabi.store.queues.consume_queue import ENTRY_BYTES
from hanabi.store.queues.consume_queues import ConsumeQueues
from tests.store.open_files import open_files

FILE_BYTES = 10 * ENTRY_BYTES


@pytest.fixture
def queues(tmp_path: Path) -> ConsumeQueues:
    return ConsumeQueues(tmp_path / "consumequeue", FILE_BYTES)


def reopened(queues: ConsumeQueues, file_bytes: int = FILE_BYTES) -> ConsumeQueues:
    return ConsumeQueues(Path(queues._family.root), file_bytes)


def put(queues: ConsumeQueues, topic: str, queue_id: int, count: int, *, log_offset: int = 0) -> None:
    queue = queues.open(topic, queue_id)
    for number in range(count):
        queue.put(queue.max_offset, log_offset + number * 100, 100, 0)


def test_a_queue_is_found_after_it_was_opened_and_is_always_the_same(queues: ConsumeQueues) -> None:
    assert queues.find("T", 0) is None
    queue = queues.open("T", 0)
    assert queues.open("T", 0) is queue
    assert queues.find("T", 0) is queue
    assert queues.find("T", 1) is None
    assert (queues.topics(), queues.queues_of("T"), queues.queues_of("Other"), len(queues)) == (["T"], [queue], [], 1)


@pytest.mark.parametrize(("topic", "queue_id"), [("", 0), ("..", 0), ("a/b", 0), ("a\0", 0), ("T", -1)])
def test_a_name_that_leads_out_of_the_directory_is_refused(queues: ConsumeQueues, topic: str, queue_id: int) -> None:
    with pytest.raises(StoreError, match="no queue can be named"):
        queues.open(topic, queue_id)


def test_all_queues_are_there_after_a_restart(queues: ConsumeQueues) -> None:
    for topic in ("A", "%RETRY%group", "B"):
        for queue_id in range(3):
            put(queues, topic, queue_id, 7 * queue_id + 1)
    queues.close()
    again = reopened(queues)
    assert again.load() == []
    assert {(queue.topic, queue.queue_id, queue.max_offset) for queue in again} == {
        (topic, queue_id, 7 * queue_id + 1) for topic in ("A", "%RETRY%group", "B") for queue_id in range(3)
    }
    assert again.max_log_offset == 1_500


def test_a_store_without_queues_loads(queues: ConsumeQueues) -> None:
    assert queues.load() == []
    assert (len(queues), queues.max_log_offset) == (0, -1)


def test_what_is_not_a_queue_is_not_loaded(queues: ConsumeQueues, tmp_path: Path) -> None:
    put(queues, "T", 0, 1)
    queues.close()
    root = tmp_path / "consumequeue"
    (root / "note.txt").write_text("hello")
    (root / "T" / "other").mkdir()
    (root / "T" / "1").mkdir()
    (root / "T" / "0" / "00000000000000000000.bak").write_text("hello")
    again = reopened(queues)
    assert again.load() == []
    assert [(queue.topic, queue.queue_id) for queue in again] == [("T", 0)]


@pytest.mark.parametrize("file_bytes", [FILE_BYTES * 2, FILE_BYTES // 2, FILE_BYTES * 300])
@pytest.mark.parametrize("entries", [3, 25])
def test_files_of_another_size_than_configured_are_an_error_that_names_the_key(
    queues: ConsumeQueues, file_bytes: int, entries: int
) -> None:
    for queue_id in range(2):
        put(queues, "T", queue_id, entries)
    queues.close()
    with pytest.raises(ConfigError, match=f"mappedFileSizeConsumeQueue is {file_bytes}, but .*consumequeue/T/0"):
        reopened(queues, file_bytes).load()


def test_a_size_that_is_no_number_of_entries_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mappedFileSizeConsumeQueue must be a multiple of 20"):
        ConsumeQueues(tmp_path, 1_001)


@pytest.mark.parametrize("left_bytes", [0, 1, 40, 65, 199])
def test_a_short_file_among_whole_ones_gets_its_size_back(queues: ConsumeQueues, left_bytes: int) -> None:
    put(queues, "T", 0, 5)
    put(queues, "T", 1, 5)
    queues.close()
    path = queues.open("T", 1).path(0)
    os.truncate(path, left_bytes)
    again = reopened(queues)
    (damaged,) = again.load()
    kept = min(left_bytes // ENTRY_BYTES, 5)
    assert (damaged.queue_id, damaged.log_offset) == (1, kept * 100 if kept else -1)
    assert f"only {left_bytes} bytes" in damaged.problem
    assert Path(path).stat().st_size == FILE_BYTES
    assert again.open("T", 1).max_offset == kept


def test_a_topic_is_deleted_with_its_files_and_can_come_again(queues: ConsumeQueues, tmp_path: Path) -> None:
    for queue_id in range(3):
        put(queues, "T", queue_id, 25)
    put(queues, "Other", 0, 1)
    queues.flush()
    put(queues, "T", 1, 1, log_offset=10_000)
    assert queues.delete_topic("T") == 3
    assert queues.delete_topic("T") == 0
    assert not queues.delete_queue("T", 0)
    assert [path.name for path in (tmp_path / "consumequeue").iterdir()] == ["Other"]
    assert queues.topics() == ["Other"]
    put(queues, "T", 1, 2)
    queues.close()
    again = reopened(queues)
    again.load()
    assert again.open("T", 1).max_offset == 2


def test_queues_whose_messages_are_all_gone_are_named(queues: ConsumeQueues) -> None:
    put(queues, "T", 0, 5)
    put(queues, "T", 1, 5, log_offset=500)
    queues.open("T", 2)
    assert queues.expired(500) == []
    assert [queue.queue_id for queue in queues.expired(501)] == [0]
    assert [queue.queue_id for queue in queues.expired(1_001)] == [0, 1]


def test_the_log_moves_the_ends_of_all_queues(queues: ConsumeQueues) -> None:
    put(queues, "T", 0, 25)
    put(queues, "T", 1, 25, log_offset=1_000)
    queues.flush()
    queues.correct_min(300)
    assert [queue.min_offset for queue in queues] == [3, 0]
    assert queues.delete_expired(2_050) == 3
    assert [queue.min_offset for queue in queues] == [21, 11]
    assert [(queue.topic, queue.queue_id) for queue in queues.truncate(3_000)] == [("T", 1)]
    assert [queue.max_offset for queue in queues] == [25, 20]


def test_short_tails_wait_for_a_thorough_flush(queues: ConsumeQueues) -> None:
    put(queues, "T", 0, 3)
    put(queues, "T", 1, 8)
    queues.flush(least_bytes=5 * ENTRY_BYTES)
    assert [queue.tail_bytes for queue in queues] == [3 * ENTRY_BYTES, 0]
    queues.flush(sync=True)
    assert [queue.tail_bytes for queue in queues] == [0, 0]
    put(queues, "T", 1, 1, log_offset=5_000)
    queues.flush()
    assert queues.open("T", 1).tail_bytes == 0


def test_many_changed_files_are_synced_in_one_go(queues: ConsumeQueues) -> None:
    for queue_id in range(300):
        put(queues, "T", queue_id, 1)
    queues.flush(sync=True)
    assert not queues._family.unsynced
    assert not queues._family.unsynced_directories


def test_many_queues_share_few_open_files(tmp_path: Path) -> None:
    descriptors = Descriptors(limit=10)
    queues = ConsumeQueues(tmp_path, FILE_BYTES, descriptors=descriptors)
    for queue_id in range(200):
        put(queues, "T", queue_id, 12)
    queues.flush()
    for queue in queues:
        assert len(queue.entries(0, 100)) == 12
    assert len(descriptors) == 10
    assert len([path for path in open_files(tmp_path) if path.is_file()]) == 10
    queues.close()
    assert not open_files(tmp_path)


def test_a_store_opened_to_look_writes_nothing(queues: ConsumeQueues) -> None:
    put(queues, "T", 0, 3)
    queues.close()
    looking = ConsumeQueues(Path(queues._family.root), FILE_BYTES, writable=False)
    looking.load()
    put(looking, "T", 0, 10, log_offset=1_000)
    with pytest.raises(StoreError, match=r"writing .*T/0"):
        looking.flush()
    looking.close()
    again = reopened(queues)
    again.load()
    assert again.open("T", 0).max_offset == 3
