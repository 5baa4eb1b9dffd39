"""Files that are shorter than they should be at a start: what a power cut leaves of a file that was not synced."""

import logging
import os
from pathlib import Path

import pytest

from hanabi.errors import StoreDamaged
from hanabi.store.message_store import MessageStore
from hanabi.testing.clock import ManualClock
from tests.store.stores import SEGMENT_BYTES, copy_as_after_a_kill, message, open_store, read_queue

COUNT = 80
QUEUES = 2


def put_all(store: MessageStore, numbers: range) -> None:
    for number in numbers:
        body, keys = b"%0100d" % number, {"KEYS": f"k{number}"}
        assert store.put(message(body, queue_id=number % QUEUES, properties=keys)).appended


def found(store: MessageStore) -> list[int]:
    """Return the numbers of all messages, each of which is also found by its key."""
    records = [record for queue_id in range(QUEUES) for record in read_queue(store, queue_id=queue_id)]
    numbers = sorted(int(record.body) for record in records)
    assert all(len(store.queries.by_key("T", f"k{number}", 8, 0, 2**62).records) == 1 for number in numbers)
    return numbers


def stored(root: Path, *, crash: bool, synced: int = COUNT) -> Path:
    """Return a store of some files; of its messages all reached the files, and *synced* the disk."""
    store = open_store(root / "a")
    put_all(store, range(synced))
    store.flush()
    put_all(store, range(synced, COUNT))
    store._queues.flush()
    copy = copy_as_after_a_kill(store, root / "b")
    store.close()
    return copy if crash else root / "a"


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


@pytest.mark.parametrize("sizes", [(0,), (1_000,), (SEGMENT_BYTES - 1,), (0, 0), (1_000, 0), (1_000, 2_000)])
def test_newest_log_files_that_are_short_after_a_crash_cost_what_they_lack_and_no_more(
    memory_directory: Path, sizes: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    root = stored(memory_directory, crash=True, synced=10)
    short = log_files(root)[-len(sizes) :]
    for path, size in zip(short, sizes, strict=True):
        os.truncate(path, size)
    with caplog.at_level(logging.WARNING):
        store = open_store(root)
    assert sum("bytes after the crash" in line for line in caplog.messages) == len(sizes)
    assert not any("missing" in line for line in caplog.messages)
    left = found(store)
    assert left == list(range(len(left)))
    end = int(short[0].name) + sizes[0]
    assert end - 300 < store.max_log_offset <= end
    put_all(store, range(len(left), COUNT + 40))
    assert found(store) == list(range(COUNT + 40))
    store.flush()
    copy = copy_as_after_a_kill(store, memory_directory / "c")
    store.close()
    for again in (root, copy):
        with open_store(again) as store:
            assert found(store) == list(range(COUNT + 40))


def test_a_newest_log_file_that_is_short_after_a_clean_stop_is_damage(memory_directory: Path) -> None:
    root = stored(memory_directory, crash=False)
    os.truncate(log_files(root)[-1], 1_000)
    with pytest.raises(StoreDamaged, match=f"{log_files(root)[-1].name} has 1000 bytes"):
        open_store(root)
    assert log_files(root)[-1].stat().st_size == 1_000


def test_the_first_file_of_a_store_that_a_crash_left_empty_is_used(memory_directory: Path) -> None:
    store = open_store(memory_directory / "a")
    root = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    (root / "commitlog" / f"{0:020d}").touch()
    with open_store(root) as store:
        put_all(store, range(COUNT))
        assert found(store) == list(range(COUNT))


@pytest.mark.parametrize("size", [0, 1, 20, 199])
@pytest.mark.parametrize("which", ["newest", "two newest", "oldest", "all"])
@pytest.mark.parametrize("synced", [10, 40, COUNT])
def test_queue_files_that_are_short_after_a_crash_are_built_again(
    memory_directory: Path, which: str, size: int, synced: int
) -> None:
    root = stored(memory_directory, crash=True, synced=synced)
    files = [sorted(path.iterdir()) for path in sorted((root / "consumequeue" / "T").iterdir())]
    chosen = {
        "newest": files[0][-1:],
        "two newest": files[1][-2:],
        "oldest": files[0][:1],
        "all": [*files[0], *files[1]],
    }
    for path in chosen[which]:
        os.truncate(path, size)
    store = open_store(root)
    assert found(store) == list(range(COUNT))
    put_all(store, range(COUNT, COUNT + 40))
    assert found(store) == list(range(COUNT + 40))
    store.close()


@pytest.mark.parametrize("size", [0, 8, 24, 100])
def test_a_short_checkpoint_costs_time_alone(memory_directory: Path, size: int) -> None:
    root = stored(memory_directory, crash=True, synced=40)
    os.truncate(root / "checkpoint", size)
    store = open_store(root)
    assert found(store) == list(range(COUNT))
    store.close()
    assert (root / "checkpoint").stat().st_size == 4_096


@pytest.mark.parametrize("size", [0, 39, 40, 41, 104, 1_000])
def test_an_index_file_that_is_short_after_a_crash_hides_no_message(memory_directory: Path, size: int) -> None:
    clock = ManualClock()
    store = open_store(memory_directory / "a", clock=clock)
    put_all(store, range(60))
    store.flush()
    clock.ms += 10_000
    put_all(store, range(60, 100))  # in another index file, which is not synced
    root = copy_as_after_a_kill(store, memory_directory / "b")
    store.close()
    *_, newest = sorted((root / "index").iterdir())
    os.truncate(newest, size)
    store = open_store(root, clock=clock)
    assert found(store) == list(range(100))
    put_all(store, range(100, 200))
    assert found(store) == list(range(200))
    store.close()
