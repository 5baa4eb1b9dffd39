"""Consume queues that lost files, or whose entries were changed behind our back, are built again at the start."""

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hanabi.store.message_store import MessageStore
from hanabi.store.queues.queue_ends import QueueEnds
from hanabi.testing.clock import ManualClock
from tests.store.stores import copy_as_after_a_kill, message, open_store, read_queue

COUNT = 45  # of ten a file: the last file is half full
TOPICS = ("T", "U")


def put(store: MessageStore, count: int = COUNT, topics: tuple[str, ...] = TOPICS) -> None:
    for _ in range(count):
        for topic in topics:
            number = store.reader.max_offset(topic, 0)
            store.put(message(b"%s %d" % (topic.encode(), number), topic=topic, properties={"TAGS": f"tag{number}"}))


def file_of(home: Path, number: int, topic: str = "T") -> Path:
    return home / "consumequeue" / topic / "0" / f"{number * 200:020d}"


def ended(store: MessageStore, home: Path, *, clean: bool) -> Path:
    """Return the directory as a stop, or a kill some messages after a flush, leaves it."""
    if clean:
        store.close()
        return Path(store.config.root)
    store.flush()
    put(store, 3)
    copy_as_after_a_kill(store, home)
    store.close()
    return home


def is_whole(store: MessageStore, count: int = COUNT) -> None:
    for topic in TOPICS:
        assert [record.queue_offset for record in read_queue(store, topic)] == list(range(count))
        entries = store.queries.entries(topic, 0, 0, count) or []
        assert [entry.tags_code for entry in entries] == [java_hash(f"tag{number}") for number in range(count)]
        assert store.put(message(topic=topic)).appended[0].queue_offset == count


def java_hash(text: str) -> int:
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def lose(*paths: str) -> Callable[[Path], None]:
    def do(home: Path) -> None:
        for path in paths:
            target = home / path
            shutil.rmtree(target) if target.is_dir() else target.unlink()

    return do


def lose_file(number: int) -> Callable[[Path], None]:
    return lambda home: file_of(home, number).unlink()


def flip_bit(file: int, byte: int, bit: int = 0) -> Callable[[Path], None]:
    def do(home: Path) -> None:
        with file_of(home, file).open("r+b") as queue:
            queue.seek(byte)
            (value,) = queue.read(1)
            queue.seek(byte)
            queue.write(bytes([value ^ 1 << bit]))

    return do


HARM = {
    "the queue": lose("consumequeue/T/0"),
    "the topic": lose("consumequeue/T"),
    "all queues": lose("consumequeue"),
    "the first file": lose_file(0),
    "a file in the middle": lose_file(2),
    "the last file": lose_file(4),
    "the last two": lambda home: [lose_file(number)(home) for number in (3, 4)],
    "a log offset in the first file": flip_bit(0, 3 * 20 + 6),
    "a size in the middle": flip_bit(2, 5 * 20 + 11),
    "a tags code in the middle": flip_bit(2, 5 * 20 + 19),
    "a log offset in the last file": flip_bit(4, 1 * 20 + 7),
    "a size in the last file": flip_bit(4, 1 * 20 + 10, 3),
    "a tags code in the last file": flip_bit(4, 1 * 20 + 13, 7),
    "the last entry's tags code": flip_bit(4, 4 * 20 + 19),
}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_what_a_queue_lost_is_built_again_from_the_log(
    memory_directory: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], *, clean: bool
) -> None:
    store = open_store(memory_directory / "store")
    put(store)
    home = ended(store, memory_directory / "killed", clean=clean)
    harm(home)
    with caplog.at_level(logging.WARNING):
        store = open_store(home)
    is_whole(store, COUNT if clean else COUNT + 3)
    assert "T/0" in caplog.text or "all consume queues" in caplog.text
    store.close()
    caplog.clear()
    store = open_store(home)  # and that was all
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_store_without_damage_is_opened_without_a_word(
    memory_directory: Path, caplog: pytest.LogCaptureFixture, *, clean: bool
) -> None:
    store = open_store(memory_directory / "store", consume_queue_ext_enabled=True)
    put(store)
    home = ended(store, memory_directory / "killed", clean=clean)
    store = open_store(home, consume_queue_ext_enabled=True)
    assert store.recovery.records < 20 or not clean
    store.close()
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_queue_whose_messages_are_all_deleted_goes_on_counting(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    put(store, topics=("T",))
    put(store, 200, topics=("U",))
    while store._log.segments[0].base_offset <= store._queues.open("T", 0).max_log_offset:
        assert store._log.delete_oldest()
    store.retention._follow()
    store.close()
    shutil.rmtree(memory_directory / "consumequeue" / "T")
    store = open_store(memory_directory)
    assert (store.reader.min_offset("T", 0), store.reader.max_offset("T", 0)) == (COUNT, COUNT)
    assert store.put(message(topic="T")).appended[0].queue_offset == COUNT
    assert [record.queue_offset for record in read_queue(store, "T")] == [COUNT]
    store.close()


def test_files_that_retention_deleted_are_not_missed(memory_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(memory_directory / "store")
    put(store, 200)
    store.flush()
    for _ in range(5):
        assert store._log.delete_oldest()
    store.retention._follow()
    assert store.reader.min_offset("T", 0) > 10
    killed = copy_as_after_a_kill(store, memory_directory / "killed")
    store.close()
    for home in (killed, memory_directory / "store"):
        caplog.clear()
        store = open_store(home)
        assert not [record for record in caplog.records if record.levelno > logging.INFO]
        assert read_queue(store, "T")[-1].queue_offset == 199
        store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("flushed", [True, False])
def test_a_deleted_topic_stays_deleted(memory_directory: Path, *, clean: bool, flushed: bool) -> None:
    clock = ManualClock()
    store = open_store(memory_directory / "store", clock=clock)
    put(store, topics=("T",))
    for _ in range(5):
        clock.ms += 20_000
        put(store, COUNT // 5, topics=("U",))
    store.flush()  # what follows is all that is dispatched again after a kill
    clock.ms += 100_000
    put(store, 5, topics=("U",))
    store.delete_topic("T")
    if flushed:
        store.flush()
    home = memory_directory / "store"
    if not clean:
        home = copy_as_after_a_kill(store, memory_directory / "killed")
    store.close()
    store = open_store(home, clock=clock)
    assert store.queues_of("T") == []
    assert store.reader.max_offset("U", 0) == COUNT + 5
    store.close()


def test_a_topic_deleted_while_the_ends_are_written_stays_deleted(memory_directory: Path) -> None:
    store = open_store(memory_directory / "store")
    put(store)
    ends = store._queue_ends
    store.flush()

    def snapshot() -> object:
        found = store._queues.ends()
        store.delete_topic("T")  # by another thread, just then
        return found

    ends.write(snapshot)  # type: ignore[arg-type]
    assert ("T", 0) not in QueueEnds(ends.path, ends.owner).load()
    assert ("U", 0) in QueueEnds(ends.path, ends.owner).load()
    store.close()


# A directory that another broker has used


def by_apache(home: Path) -> None:
    with (home / "lock").open("r+b") as file:
        file.write(b"lock")


@pytest.mark.parametrize("harm", [by_apache, lose("lock")], ids=["Apache's", "lock removed"])
def test_what_another_broker_did_to_the_queues_is_left_as_it_is(
    memory_directory: Path, harm: Callable[[Path], None]
) -> None:
    store = open_store(memory_directory)
    put(store)
    store.close()
    harm(memory_directory)
    shutil.rmtree(memory_directory / "consumequeue" / "T")  # it deleted this topic
    store = open_store(memory_directory)
    assert store.queues_of("T") == []
    put(store, 1, topics=("U",))
    store.close()
    store = open_store(memory_directory)  # and from then on it is ours
    assert (store.queues_of("T"), store.reader.max_offset("U", 0)) == ([], COUNT + 1)
    store.close()
    shutil.rmtree(memory_directory / "consumequeue" / "U")
    store = open_store(memory_directory)
    assert len(read_queue(store, "U")) == COUNT + 1
    store.close()


def test_a_log_that_was_deleted_with_its_queues_begins_anew(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    put(store)
    store.close()
    for name in ("commitlog", "consumequeue"):
        shutil.rmtree(memory_directory / name)
    store = open_store(memory_directory)
    assert list(store.queues()) == []
    assert store.put(message(topic="T")).appended[0].queue_offset == 0
    store.close()


def test_a_damaged_file_of_ends_is_reported_and_does_no_harm(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(memory_directory)
    put(store)
    store.close()
    path = store._queue_ends.path
    whole = path.read_bytes()
    chance = random.Random(15)
    for _ in range(30):
        at = chance.randrange(len(whole))
        damaged = chance.choice(
            [whole[:at], whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :], b""]
        )
        path.write_bytes(damaged)
        caplog.clear()
        store = open_store(memory_directory)
        assert [len(read_queue(store, topic)) for topic in TOPICS] == [COUNT, COUNT]
        assert [str(path) in message for message in caplog.messages].count(True) <= 1
        store.close()
        assert path.read_bytes() == whole  # written again


def test_ends_that_cannot_be_written_are_reported_once_and_fail_nothing(
    memory_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(memory_directory)
    temporary = store._queue_ends.path.with_name(store._queue_ends.path.name + ".tmp")
    temporary.mkdir()
    for _ in range(3):
        put(store, 1)
        store.flush()
    (line,) = (record for record in caplog.records if record.levelno > logging.INFO)
    assert str(store._queue_ends.path) in line.getMessage()
    temporary.rmdir()
    store.close()
    store = open_store(memory_directory)
    assert len(read_queue(store, "T")) == 3
    store.close()


# The extension


def test_units_of_a_lost_extension_are_not_taken_from_newer_messages(memory_directory: Path) -> None:
    store = open_store(memory_directory, consume_queue_ext_enabled=True)
    put(store, 5)
    store.close()
    shutil.rmtree(memory_directory / "consumequeue_ext")
    store = open_store(memory_directory, consume_queue_ext_enabled=True)
    put(store, 5)
    entries = store.queries.entries("T", 0, 0, 10) or []
    known = [entry.known_tags_code for entry in entries]
    assert known[:5] == [None] * 5
    assert known[5:] == [java_hash(f"tag{number}") for number in range(5, 10)]
    store.close()
