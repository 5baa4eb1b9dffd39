"""Tests of flushing the log and notifying waiters; the steps by hand first, then the threads."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from hanabi.errors import StoreClosed, StoreDamaged, StoreFull
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.log.commit_log import AppendResult, CommitLog, PendingMessage
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.store.upkeep.flush import LogFlusher, QueueFlusher, Repeater, Rhythm, is_worth_it
from hanabi.wire.message.hosts import encode_host

SIZE = 65_536
HOST = encode_host("127.0.0.1", 10911)
MESSAGE = PendingMessage("T", 0, b"x" * 1000, b"", born_timestamp_ms=1, born_host=HOST, store_host=HOST)


class World:
    """A commit log, its flusher, and a clock that stands still."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.now = 100.0
        plain = StoreConfig(root=str(root), commit_log_segment_bytes=SIZE)
        self.config = msgspec.structs.replace(plain, **settings)
        self.commit_log = CommitLog.open(self.config, now_ms=lambda: int(self.now * 1000))
        self.log = self.commit_log.log
        self.checkpoint = Checkpoint(self.config.checkpoint_path)
        self.flusher = LogFlusher(self.commit_log, self.checkpoint, self.config, clock=lambda: self.now)
        self.told: list[tuple[str, bool]] = []

    def append(self, count: int = 1) -> AppendResult:
        return [self.commit_log.append(MESSAGE) for _ in range(count)][-1]

    def wait(self, name: str) -> None:
        self.flusher.await_flush(self.append().end_offset, lambda stored: self.told.append((name, stored)))

    def count_flushes(self) -> list[int]:
        """Return where the log is flushed up to, added after each flush from now on."""
        flushes: list[int] = []
        flush = self.log.flush

        def counted() -> int:
            flushes.append(flush())
            return flushes[-1]

        self.log.flush = counted  # type: ignore[method-assign]
        return flushes


@pytest.fixture
def sync(tmp_path: Path) -> World:
    return World(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)


# The rhythm


def test_a_thorough_flush_is_due_at_first_and_then_after_its_interval() -> None:
    rhythm = Rhythm(4, 10_000)
    assert [rhythm.least_pages(now) for now in (0.0, 0.5, 9.9, 10.0, 10.5, 20.0)] == [0, 4, 4, 0, 4, 0]


@pytest.mark.parametrize(
    ("end", "done", "least_pages", "worth"),
    [
        (0, 0, 0, False),
        (1, 0, 0, True),
        (1, 0, 1, False),
        (4096, 0, 1, True),
        (4 * 4096 - 1, 0, 4, False),
        (4 * 4096, 0, 4, True),
        (4 * 4096 + 10, 4095, 4, True),  # Apache counts whole page numbers, not bytes
        (SIZE + 1, SIZE - 1, 4, True),  # a full file is always worth it
        (SIZE, SIZE, 4, False),
    ],
)
def test_a_flush_is_worth_it_for_enough_pages_or_a_full_file(
    end: int, done: int, least_pages: int, worth: bool
) -> None:
    assert is_worth_it(end, done, least_pages, SIZE) is worth


# ASYNC_FLUSH


def test_async_flush_waits_for_pages_or_for_the_thorough_interval(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append()
    assert world.flusher.step() == 0.5
    assert world.log.flushed_offset == world.log.end_offset  # the first step is a thorough one
    flushed = world.log.flushed_offset
    world.append(3)
    world.now += 1
    world.flusher.step()
    assert world.log.flushed_offset == flushed
    world.append(14)
    world.flusher.step()
    assert world.log.flushed_offset == world.log.end_offset
    world.append()
    world.now += 9
    world.flusher.step()
    assert world.log.flushed_offset == world.log.end_offset


def test_a_step_with_nothing_new_touches_no_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append()
    world.flusher.step()
    flushes = world.count_flushes()
    for _ in range(5):
        world.now += 60
        world.flusher.step()
    assert flushes == []


def test_the_checkpoint_learns_the_store_time_of_what_is_on_the_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append()
    assert world.checkpoint.log_ms == 0
    world.flusher.step()
    assert world.checkpoint.log_ms == 100_000
    world.now += 1
    world.append()
    world.flusher.step()
    assert world.checkpoint.log_ms == 100_000  # this one is not flushed yet


def test_who_waits_is_served_at_once_with_async_flush_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append()
    world.flusher.step()
    world.wait("a")
    world.flusher.step()
    assert world.told == [("a", True)]


# SYNC_FLUSH


def test_all_who_wait_are_served_by_one_flush(sync: World) -> None:
    flushes = sync.count_flushes()
    for name in "abc":
        sync.wait(name)
    assert sync.told == []
    sync.flusher.step()
    assert sync.told == [("a", True), ("b", True), ("c", True)]
    assert flushes == [sync.log.end_offset]
    sync.flusher.step()
    assert (len(sync.told), len(flushes)) == (3, 1)


def test_who_waits_for_what_is_on_the_disk_already_costs_no_flush(sync: World) -> None:
    end = sync.append().end_offset
    sync.flusher.flush_all()
    flushes = sync.count_flushes()
    sync.flusher.await_flush(end, lambda stored: sync.told.append(("late", stored)))
    sync.flusher.step()
    assert (sync.told, flushes) == ([("late", True)], [])


def test_who_begins_to_wait_while_the_disk_works_is_served_by_that_flush_if_it_brings_the_message(sync: World) -> None:
    end, flush = sync.append().end_offset, sync.log.flush

    def flush_slowly() -> int:
        flushed = flush()
        sync.flusher.await_flush(end, lambda stored: sync.told.append(("of this flush", stored)))
        sync.wait("of the next one")
        return flushed

    sync.log.flush = flush_slowly  # type: ignore[method-assign]
    sync.flusher.step()
    assert sync.told == [("of this flush", True)]
    sync.log.flush = flush  # type: ignore[method-assign]
    sync.flusher.step()
    assert sync.told == [("of this flush", True), ("of the next one", True)]


def test_one_flush_serves_waiters_in_two_files(sync: World) -> None:
    sync.append(63)
    sync.wait("in the next file")
    assert len(sync.log.segments) == 2
    sync.flusher.step()
    assert sync.told == [("in the next file", True)]


def test_what_nobody_waits_for_is_flushed_as_well(sync: World) -> None:
    sync.append()
    sync.flusher.appended()
    sync.now += 0.01
    sync.flusher.step()
    sync.append()
    sync.flusher.step()
    assert sync.log.flushed_offset == sync.log.end_offset


def test_who_waits_too_long_is_told_once(sync: World) -> None:
    sync.wait("early")
    sync.now += 4
    sync.wait("late")
    assert sync.flusher.expire() == 1.0
    assert sync.told == []
    sync.now += 1
    assert sync.flusher.expire() == 4.0
    assert sync.told == [("early", False)]
    sync.flusher.step()
    assert sync.told == [("early", False), ("late", True)]
    assert sync.flusher.expire() == 5.0


def test_when_the_flush_fails_everyone_is_told_and_the_checkpoint_stays(sync: World) -> None:
    sync.wait("a")
    sync.wait("b")
    sync.log.segments[0].path.unlink()
    with pytest.raises(StoreDamaged):
        sync.flusher.step()
    assert sync.told == [("a", False), ("b", False)]
    assert sync.checkpoint.log_ms == 0
    with pytest.raises(StoreDamaged):
        sync.append()
    with pytest.raises(StoreDamaged):
        sync.flusher.stop()


def test_a_callback_that_fails_does_not_keep_others_from_being_told(
    sync: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(stored: bool) -> None:
        raise RuntimeError("broken callback")

    sync.flusher.await_flush(sync.append().end_offset, fail)
    sync.wait("good")
    sync.flusher.step()
    assert sync.told == [("good", True)]
    assert "broken callback" in caplog.text


def test_stopping_flushes_everything_and_takes_no_more_waiters(sync: World) -> None:
    sync.wait("last")
    sync.flusher.stop()
    assert sync.told == [("last", True)]
    assert sync.log.flushed_offset == sync.log.end_offset
    with pytest.raises(StoreClosed):
        sync.wait("too late")
    assert len(sync.told) == 1


# Threads


def test_the_thread_serves_many_waiters_with_few_flushes(sync: World) -> None:
    gate, inside = threading.Event(), threading.Event()
    flush = sync.log.flush
    flushes: list[int] = []

    def slow_flush() -> int:
        inside.set()
        assert gate.wait(60)
        flushes.append(flush())
        return flushes[-1]

    sync.log.flush = slow_flush  # type: ignore[method-assign]
    sync.flusher.start()
    futures: list[Future[bool]] = [Future() for _ in range(50)]
    sync.flusher.await_flush(sync.append().end_offset, futures[0].set_result)
    assert inside.wait(60)
    for future in futures[1:]:  # all of these come while the disk is busy
        sync.flusher.await_flush(sync.append().end_offset, future.set_result)
    gate.set()
    assert all(future.result(60) for future in futures)
    assert len(flushes) <= 3
    sync.flusher.stop()


def test_a_hanging_disk_does_not_keep_the_timeout_from_being_told(tmp_path: Path) -> None:
    world = World(tmp_path, flush_mode=FlushMode.SYNC_FLUSH, sync_flush_timeout_ms=20)
    flusher = LogFlusher(world.commit_log, world.checkpoint, world.config)  # with the real clock
    gate = threading.Event()
    flush: Callable[[], int] = world.log.flush
    world.log.flush = lambda: flush() if gate.wait(60) else 0  # type: ignore[method-assign]
    flusher.start()
    told: Future[bool] = Future()
    flusher.await_flush(world.append().end_offset, told.set_result)
    assert told.result(60) is False
    gate.set()
    flusher.stop()
    assert world.log.flushed_offset == world.log.end_offset


def test_stopping_the_thread_flushes_what_no_one_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, flush_commit_log_interval_ms=600_000)
    world.flusher.start()
    world.append(3)
    world.flusher.stop()
    assert world.log.flushed_offset == world.log.end_offset
    assert world.checkpoint.log_ms == 100_000


def test_a_repeated_step_goes_on_after_an_error_that_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0
    recovered = threading.Event()

    def step() -> float:
        nonlocal calls
        calls += 1
        repeater.wake()  # so that the test need not wait for the second
        if calls < 4:
            raise StoreFull("no room")
        recovered.set()
        return 600.0

    repeater = Repeater("test", step)
    repeater.start()
    assert recovered.wait(60)
    repeater.stop()
    assert caplog.text.count("no room") == 1


def test_a_thread_whose_step_fails_in_any_way_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    recovered = threading.Event()
    faults = iter((MemoryError("no memory"), RuntimeError("can't start new thread")))

    def step() -> float:
        error = next(faults, None)
        if error is not None:
            raise error
        recovered.set()
        return 600.0

    repeater = Repeater("test", step)
    repeater.start()
    assert recovered.wait(60)
    repeater.stop()
    assert "no memory; retrying" in caplog.text
    assert "Traceback" in caplog.text


# Consume queues and checkpoint


class Queues:
    """Parts that a store hands to QueueFlusher."""

    def __init__(self) -> None:
        self.flushed: list[int] = []
        self.dispatched_ms = 5_000

    def flush(self, least_pages: int) -> None:
        self.flushed.append(least_pages)
        self.dispatched_ms += 1  # dispatching goes on meanwhile


def test_the_checkpoint_is_written_after_a_thorough_flush_of_the_queues(tmp_path: Path) -> None:
    queues, checkpoint, now = Queues(), Checkpoint(tmp_path / "checkpoint", log_ms=7_000), 0.0
    flusher = QueueFlusher(queues.flush, lambda: queues.dispatched_ms, checkpoint, StoreConfig(), clock=lambda: now)
    assert flusher.step() == 1.0
    assert queues.flushed == [0]
    on_disk = Checkpoint.load(checkpoint.path, now_ms=10_000)
    assert (on_disk.log_ms, on_disk.queues_ms) == (7_000, 5_000)
    now = 59.0
    flusher.step()
    assert (queues.flushed, checkpoint.queues_ms) == ([0, 2], 5_000)
    now = 60.0
    flusher.step()
    assert (queues.flushed, checkpoint.queues_ms) == ([0, 2, 0], 5_002)


def test_queues_that_cannot_be_flushed_leave_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    def fail(least_pages: int) -> None:
        raise StoreFull("no room")

    checkpoint = Checkpoint(tmp_path / "checkpoint")
    flusher = QueueFlusher(fail, lambda: 5_000, checkpoint, StoreConfig())
    with pytest.raises(StoreFull):
        flusher.step()
    with pytest.raises(StoreFull):
        flusher.stop()
    assert (checkpoint.queues_ms, checkpoint.path.exists()) == (0, False)


def test_stopping_the_queue_flusher_flushes_all_and_writes_the_checkpoint(tmp_path: Path) -> None:
    queues, checkpoint = Queues(), Checkpoint(tmp_path / "checkpoint")
    config = StoreConfig(flush_consume_queue_interval_ms=600_000)
    flusher = QueueFlusher(queues.flush, lambda: queues.dispatched_ms, checkpoint, config)
    flusher.start()
    flusher.stop()
    assert queues.flushed[-1] == 0
    assert checkpoint.path.stat().st_size == 4096
