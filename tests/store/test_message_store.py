"""The face of the store: what a put answers, who may open it, what a clean stop leaves behind."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from hanabi.errors import StoreClosed, StoreDamaged, StoreFull, StoreLocked, StoreUnwritable
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.upkeep.checkpoint import Checkpoint
from hanabi.testing.clock import START_MS, ManualClock
from hanabi.wire.message import sysflag
from tests.store.stores import SEGMENT_BYTES, bodies, message, open_store, read_queue, small_config

pytestmark = pytest.mark.pure


@pytest.fixture
def store(memory_directory: Path) -> Iterator[MessageStore]:
    store = open_store(memory_directory)
    yield store
    store.close()


# Putting


def test_a_put_tells_where_the_message_went(store: MessageStore) -> None:
    store.put(message())
    result = store.put(message())
    assert result.status is PutStatus.PUT_OK
    (place,) = result.appended
    assert (place.queue_offset, place.store_timestamp_ms) == (1, START_MS)
    assert result.end_offset == place.log_offset + place.size == store.max_log_offset


def test_a_batch_has_neighbouring_places(store: MessageStore) -> None:
    result = store.put_batch([message(b"%d" % number) for number in range(5)])
    assert result.status is PutStatus.PUT_OK
    assert [place.queue_offset for place in result.appended] == list(range(5))
    assert result.end_offset == store.max_log_offset
    assert bodies(store) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"body": b"x" * 5000}, PutStatus.MESSAGE_ILLEGAL),  # larger than a file
        ({"body": b"x" * 3001}, PutStatus.MESSAGE_ILLEGAL),  # larger than the limit
        ({"topic": ""}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "x" * 256}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "../../outside"}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": ".."}, PutStatus.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, PutStatus.MESSAGE_ILLEGAL),
        ({"properties": b"a\x01" + b"x" * 32_766}, PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_a_message_that_cannot_be_stored_is_refused_with_a_reason_and_leaves_no_trace(
    memory_directory: Path, bad: dict[str, object], status: PutStatus
) -> None:
    store = open_store(memory_directory, message_bytes_max=3000)
    refused = msgspec.structs.replace(message(), **bad)
    for result in (store.put(refused), store.put_batch([refused])):
        assert (result.status, result.appended) == (status, ())
        assert result.reason
    assert store.max_log_offset == 0
    assert store.put(message()).status is PutStatus.PUT_OK
    store.close()
    assert [path.name for path in (memory_directory / "consumequeue").iterdir()] == ["T"]


def test_a_batch_is_refused_whole(store: MessageStore) -> None:
    for batch in ([], [message(), message(queue_id=1)], [message(sys_flag=sysflag.TRANSACTION_PREPARED)]):
        assert store.put_batch(batch).status is PutStatus.MESSAGE_ILLEGAL
    assert store.max_log_offset == 0


def test_a_closed_store_takes_nothing(store: MessageStore) -> None:
    store.close()
    store.close()  # twice does no harm
    assert store.put(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    with pytest.raises(StoreClosed):
        store.append_copy(0, b"")


def test_the_first_message_of_a_store_takes_little_of_the_disk(tmp_path: Path) -> None:
    with MessageStore.open(StoreConfig(root=str(tmp_path)), disk_ratio=lambda _: 0.1) as store:
        assert store.put(message(properties={"KEYS": "k"})).appended
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) > 1 << 30, "the sizes are Apache's"
        assert sum(path.stat().st_blocks * 512 for path in files) < 128 << 20


def test_a_full_disk_is_an_answer_and_what_is_stored_stays(small_disk: Path) -> None:
    store = open_store(small_disk / "store", index_enabled=False)
    taken = 0
    while (result := store.put(message(b"%0900d" % taken))).status is PutStatus.PUT_OK:
        taken += 1
        assert taken < 100
    assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert "no room on the disk" in result.reason
    assert [int(body) for body in bodies(store)] == list(range(taken))
    with pytest.raises(StoreFull):
        store.close()  # the queues could not be written, so the mark of a crash stays
    store = open_store(small_disk / "store", index_enabled=False)  # opens all the same, and builds them again
    assert [int(body) for body in bodies(store)] == list(range(taken))
    while len(store._log.segments) > 4:
        assert store._log.delete_oldest()
    assert store.put(message(b"again")).status is PutStatus.PUT_OK  # works again when there is room
    store.close()
    store = open_store(small_disk / "store", index_enabled=False)
    assert bodies(store)[-1] == b"again"
    store.close()


def test_queues_that_cannot_be_written_wait_in_memory_and_lose_nothing(small_disk: Path) -> None:
    store = open_store(small_disk / "store", index_enabled=False, commit_log_segment_bytes=16_384)
    for number in range(5):
        assert store.put(message(b"%0100d" % number, queue_id=number)).appended
    filler = small_disk / "filler"
    filler.write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
    with pytest.raises(StoreFull, match="no room on the disk"):
        store.flush()
    assert all(len(read_queue(store, queue_id=number)) == 1 for number in range(5))
    filler.unlink()
    store.close()
    store = open_store(small_disk / "store", index_enabled=False, commit_log_segment_bytes=16_384)
    assert all(len(read_queue(store, queue_id=number)) == 1 for number in range(5))
    store.close()


def test_a_log_file_deleted_under_us_is_reported_and_nothing_more_is_taken(store: MessageStore) -> None:
    store.put(message())
    (store.config.commit_log_path / f"{0:020d}").unlink()
    with pytest.raises(StoreDamaged, match="was deleted while in use"):
        store.flush()
    refused = store.put(message())
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "was deleted" in refused.reason
    with pytest.raises(StoreDamaged):
        store.close()
    assert (Path(store.config.root) / "abort").exists()


# Waiting for the disk


@pytest.mark.parametrize("mode", list(FlushMode))
def test_who_waits_is_told_when_the_message_is_on_the_disk(tmp_path: Path, mode: FlushMode) -> None:
    with open_store(tmp_path, flush_mode=mode) as store:
        assert store.is_sync is (mode is FlushMode.SYNC_FLUSH)
        futures: list[Future[PutStatus]] = []
        for _ in range(10):
            future: Future[PutStatus] = Future()
            store.await_flush(store.put(message()).end_offset, future.set_result)
            futures.append(future)
        assert [future.result(timeout=60) for future in futures] == [PutStatus.PUT_OK] * 10
        assert store.flushed_log_offset == store.max_log_offset


def test_who_waits_for_a_disk_that_fails_is_told_so(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    result = store.put(message())
    (store.config.commit_log_path / f"{0:020d}").unlink()
    future: Future[PutStatus] = Future()
    store.await_flush(result.end_offset, future.set_result)
    store.start()
    assert future.result(timeout=60) is PutStatus.FLUSH_DISK_TIMEOUT
    with pytest.raises(StoreDamaged):
        store.close()


def test_an_asynchronous_store_reaches_the_disk_by_itself(tmp_path: Path) -> None:
    with open_store(tmp_path, flush_commit_log_interval_ms=1, flush_consume_queue_interval_ms=1) as store:
        for _ in range(20):
            store.put(message(b"x" * 1000))
        arrived = threading.Event()
        queue_file = store.config.consume_queue_path / "T" / "0" / f"{0:020d}"
        for _ in range(6000):
            if store.flushed_log_offset >= 4 * SEGMENT_BYTES and queue_file.exists():
                break
            arrived.wait(0.01)
        assert store.flushed_log_offset >= 4 * SEGMENT_BYTES
        assert queue_file.exists()


# Opening and closing


def test_a_clean_stop_leaves_everything_on_the_disk_and_no_mark_of_a_crash(memory_directory: Path) -> None:
    clock = ManualClock()
    store = open_store(memory_directory, clock=clock)
    assert (memory_directory / "abort").exists()
    store.put(message(properties={"KEYS": "k"}))
    clock.ms += 5
    store.put(message())
    end = store.max_log_offset
    store.close()
    assert not (memory_directory / "abort").exists()
    checkpoint = Checkpoint.load(memory_directory / "checkpoint", now_ms=clock.ms)
    assert (checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms) == (START_MS + 5,) * 3
    store = open_store(memory_directory, clock=clock)
    assert (store.max_log_offset, len(read_queue(store)), store.latest_store_ms) == (end, 2, START_MS + 5)
    assert len(store.queries.by_key("T", "k", 8, 0, 2**62).records) == 1
    store.close()


def test_threads_are_gone_after_close(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with open_store(tmp_path) as store:
        store.put(message())
        assert {"hanabi-flush-log", "hanabi-flush-queues", "hanabi-retention"} <= {
            thread.name for thread in threading.enumerate()
        }
    assert set(threading.enumerate()) <= before


def test_threads_are_gone_after_a_close_that_fails_and_the_first_error_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(threading.enumerate())
    store = open_store(tmp_path)
    store.put(message())
    (store.config.commit_log_path / f"{0:020d}").unlink()  # the log cannot be flushed any more
    queues = store.config.consume_queue_path
    queues.write_bytes(b"in the way")  # and neither can the queues
    store.start()
    with pytest.raises(StoreDamaged, match="was deleted while in use"):
        store.close()
    assert f"could not be brought to the disk either: writing {queues}/" in caplog.text
    assert set(threading.enumerate()) <= before
    assert (tmp_path / "abort").exists()


def test_numbers_and_times_go_on_after_a_restart(memory_directory: Path) -> None:
    clock = ManualClock()
    store = open_store(memory_directory, clock=clock)
    store.put(message())
    store.put(message(queue_id=1))
    store.put(message(queue_id=1))
    store.close()
    clock.ms -= 60_000  # the clock was set back meanwhile
    store = open_store(memory_directory, clock=clock)
    places = [store.put(message(queue_id=queue_id)).appended[0] for queue_id in (0, 1, 2)]
    assert [place.queue_offset for place in places] == [1, 2, 0]
    assert {place.store_timestamp_ms for place in places} == {START_MS}
    store.close()


def test_a_second_open_is_refused_in_this_process_and_in_another(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    with pytest.raises(StoreLocked, match="already open"):
        open_store(memory_directory)
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.store.stores import open_store\n"
        "from hanabi.errors import StoreLocked\n"
        "try: open_store(Path(sys.argv[1]))\nexcept StoreLocked as error: print(error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(memory_directory)], capture_output=True, text=True, check=True
    ).stdout
    assert f"in use by process {os.getpid()}" in told
    assert store.put(message()).status is PutStatus.PUT_OK
    store.close()
    open_store(memory_directory).close()


def test_a_store_that_cannot_be_opened_is_not_left_locked(memory_directory: Path) -> None:
    store = open_store(memory_directory)
    for _ in range(20):
        store.put(message(b"x" * 900))
    store.close()
    middle = memory_directory / "commitlog" / f"{SEGMENT_BYTES:020d}"
    hidden = middle.rename(memory_directory / "hidden")
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="is expected"):
            open_store(memory_directory)
    hidden.rename(middle)
    open_store(memory_directory).close()


def test_a_directory_that_cannot_be_written_is_told_by_name(tmp_path: Path) -> None:
    not_a_directory = tmp_path / "file"
    not_a_directory.write_text("")
    with pytest.raises(StoreUnwritable, match=str(not_a_directory)):
        open_store(not_a_directory / "store")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system read-only")
def test_a_read_only_file_system_is_told_by_name(small_disk: Path) -> None:
    open_store(small_disk / "store", index_enabled=False).close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreUnwritable, match="lock"):
        open_store(small_disk / "store", index_enabled=False)


def test_the_settings_give_the_places_of_all_files(memory_directory: Path) -> None:
    config = small_config(memory_directory / "store", commit_log_dir=str(memory_directory / "elsewhere"))
    with MessageStore.open(config, disk_ratio=lambda _: 0.1) as store:
        store.put(message(properties={"KEYS": "k"}))
    assert sorted(path.name for path in (memory_directory / "store").iterdir()) == [
        "checkpoint",
        "consumequeue",
        "consumequeue.ends",
        "index",
        "lock",
    ]
    assert (memory_directory / "elsewhere" / f"{0:020d}").exists()


# Copying a master's log


def copy_log(master: MessageStore, slave: MessageStore, chunk_bytes: int) -> None:
    while (piece := master.read_log(slave.max_log_offset)) is not None and len(piece):
        slave.append_copy(slave.max_log_offset, piece[:chunk_bytes])


@pytest.mark.parametrize("chunk_bytes", [1, 57, 4096])
def test_a_copied_log_is_the_same_store(memory_directory: Path, chunk_bytes: int) -> None:
    told: list[Dispatched] = []
    master = open_store(memory_directory / "master")
    slave = open_store(memory_directory / "slave", hooks=Hooks(on_append=told.append))
    for number in range(12 if chunk_bytes == 1 else 60):
        master.put(message(b"%0200d" % number, queue_id=number % 3, properties={"KEYS": f"k{number}", "TAGS": "t"}))
        if number % 7 == 0:
            copy_log(master, slave, chunk_bytes)
    copy_log(master, slave, chunk_bytes)
    for queue_id in range(3):
        assert read_queue(slave, queue_id=queue_id) == read_queue(master, queue_id=queue_id)
    assert len(told) == sum(len(read_queue(slave, queue_id=queue_id)) for queue_id in range(3))
    assert len(slave.queries.by_key("T", "k3", 8, 0, 2**62).records) == 1
    assert slave.latest_store_ms == master.latest_store_ms
    slave.restore_queue_offsets()
    assert slave.put(message(queue_id=1)).appended[0] == master.put(message(queue_id=1)).appended[0]
    master.close()
    slave.close()


def test_a_slave_may_begin_where_the_master_does_and_with_a_hole_nowhere(memory_directory: Path) -> None:
    master = open_store(memory_directory / "master")
    for number in range(40):
        master.put(message(b"%0400d" % number))
    master._log.delete_oldest()
    slave = open_store(memory_directory / "slave")
    piece = master.read_log(SEGMENT_BYTES)
    assert piece is not None
    slave.append_copy(SEGMENT_BYTES, piece)
    copy_log(master, slave, 1000)
    assert bodies(slave)[-1] == bodies(master)[-1]
    assert slave.reader.min_offset("T", 0) == read_queue(slave)[0].queue_offset > 0
    slave.close()
    again = open_store(memory_directory / "slave")
    assert again.reader.min_offset("T", 0) == read_queue(again)[0].queue_offset
    again.close()
    master.close()


def test_a_deleted_queue_begins_anew_and_leaves_the_others(store: MessageStore) -> None:
    for queue_id in (0, 1):
        store.put(message(queue_id=queue_id))
    assert store.delete_queue("T", 0)
    assert not store.delete_queue("T", 0)
    assert (store.reader.max_offset("T", 0), store.reader.max_offset("T", 1)) == (0, 1)
    result = store.put(message(b"again"))
    assert result.appended[0].queue_offset == 0
    assert bodies(store) == [b"again"]


def test_limits_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.use(small_config(tmp_path, message_bytes_max=10, memory_transfer_count_max=1, file_reserved_hours=1))
        assert store.put(message(body=b"x" * 11)).status is PutStatus.MESSAGE_ILLEGAL
        for _ in range(3):
            assert store.put(message(body=b"x" * 10)).status is PutStatus.PUT_OK
        assert store.get("T", 0, 0, 32).count == 1
        assert store.config.file_reserved_hours == 1
