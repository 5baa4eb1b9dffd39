"""A deleted queue stays deleted, whatever the threads that flush and clean are doing with it at that moment."""

import threading
from pathlib import Path

import pytest

from hanabi.store.files.descriptors import Descriptor
from hanabi.store.queues.consume_queue import ConsumeQueue
from tests.store.stores import message, open_store, read_queue


def test_a_flush_under_way_does_not_bring_a_deleted_queue_back(
    memory_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(memory_directory)
    store.put(message(b"old"))
    is_writing, is_deleted = threading.Event(), threading.Event()
    open_to_write = ConsumeQueue._open_to_write

    def slowly(queue: ConsumeQueue, base: int, *, create: bool) -> Descriptor:
        is_writing.set()
        is_deleted.wait(0.2)  # a deletion that waits for this write comes later
        return open_to_write(queue, base, create=create)

    monkeypatch.setattr(ConsumeQueue, "_open_to_write", slowly)
    flusher = threading.Thread(target=store._queues.flush)
    flusher.start()
    assert is_writing.wait(60)
    store.delete_topic("T")
    is_deleted.set()
    flusher.join()
    assert not (memory_directory / "consumequeue" / "T").exists()
    store.put(message(b"new"))
    assert [(record.queue_offset, record.body) for record in read_queue(store)] == [(0, b"new")]
    store.close()
    store = open_store(memory_directory)
    assert [record.body for record in read_queue(store)] == [b"new"]
    store.close()


def test_queues_deleted_while_others_flush_leave_nothing_behind(memory_directory: Path) -> None:
    store = open_store(memory_directory, consume_queue_ext_enabled=True)
    over = threading.Event()

    def keep(work: object) -> threading.Thread:
        def loop() -> None:
            while not over.is_set():
                work()  # type: ignore[operator]

        thread = threading.Thread(target=loop)
        thread.start()
        return thread

    threads = [keep(store._queues.flush), keep(lambda: store._queues.delete_expired(0))]
    try:
        for number in range(300):
            for _ in range(number % 12 + 1):
                store.put(message(topic=f"T{number}", properties={"TAGS": "red"}))
            store.delete_topic(f"T{number}")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    left = [path for name in ("consumequeue", "consumequeue_ext") for path in (memory_directory / name).glob("*/*/*")]
    assert left == []
    store.close()


def test_a_put_does_not_wait_for_a_flush_of_its_queue(memory_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(memory_directory, consume_queue_segment_bytes=40_000, commit_log_segment_bytes=1 << 20)
    store.put(message(b"0"))
    is_writing, may_write = threading.Event(), threading.Event()
    open_to_write = ConsumeQueue._open_to_write

    def slowly(queue: ConsumeQueue, base: int, *, create: bool) -> Descriptor:
        is_writing.set()
        assert may_write.wait(60)
        return open_to_write(queue, base, create=create)

    monkeypatch.setattr(ConsumeQueue, "_open_to_write", slowly)
    flusher = threading.Thread(target=store._queues.flush)
    flusher.start()
    assert is_writing.wait(60)
    for number in range(1, 1_000):  # several times as much as a tail holds
        store.put(message(b"%d" % number))
    may_write.set()
    flusher.join()
    assert [int(record.body) for record in read_queue(store)] == list(range(1_000))
    store.close()
