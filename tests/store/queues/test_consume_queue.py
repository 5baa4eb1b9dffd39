"""One consume queue: against Apache's files, against a plain list, and against broken files."""

import itertools
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hanabi.errors import StoreDamaged, StoreFull
from hanabi.store.queues.consume_queue import (
    BLANK,
    BLANK_SIZE,
    ENTRY,
    ENTRY_BYTES,
    ConsumeQueue,
    Entry,
    QueueOrderError,
    count_present,
    is_present,
)
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.queues.queue_files import TAIL_BYTES
from tests.golden_records import STORES, golden_store

MEMORY = Path("/dev/shm")  # noqa: S108 (fresh directories inside it: syncing costs nothing there)
FILE_ENTRIES = 5
FILE_BYTES = FILE_ENTRIES * ENTRY_BYTES


@pytest.fixture
def queues(tmp_path: Path) -> ConsumeQueues:
    return ConsumeQueues(tmp_path, FILE_BYTES)


@pytest.fixture
def queue(queues: ConsumeQueues) -> ConsumeQueue:
    return queues.open("T", 0)


def put_many(queue: ConsumeQueue, count: int, *, start: int = 0) -> None:
    """Put messages of 100 bytes, one after the other in the log."""
    for number in range(start, start + count):
        queue.put(number, number * 100, 100, number)


def reopened(queue: ConsumeQueue, *, thorough: bool = False) -> ConsumeQueue:
    """Return the queue as it is after a start, from what is in its files."""
    again = ConsumeQueues(Path(queue.family.root), queue.family.file_bytes)
    again.load(thorough=thorough)
    return again.open(queue.topic, queue.queue_id)


def files(queue: ConsumeQueue) -> dict[int, bytes]:
    return {int(path.name): path.read_bytes() for path in sorted(Path(queue.directory).iterdir())}


# Apache's own files

GOLDEN_FILES = [
    (store, path) for store in STORES for path in sorted(golden_store(store)) if path.startswith("consumequeue/")
]


def golden_entries(content: bytes) -> list[Entry]:
    return [(log_offset, size, tags) for log_offset, size, tags in ENTRY.iter_unpack(content) if size]


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("store", STORES)
def test_the_queues_that_apache_wrote_are_read_as_they_are(store: str, thorough: bool, tmp_path: Path) -> None:
    written = {path: content for path, content in golden_store(store).items() if path.startswith("consumequeue/")}
    for path, content in written.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(content)
    queues = ConsumeQueues(tmp_path / "consumequeue", 2_000, writable=False)
    assert queues.load(thorough=thorough) == []
    assert len(queues) == len(written) == 11
    for path, content in written.items():
        _, topic, queue_id, _ = path.split("/")
        queue = queues.open(topic, int(queue_id))
        expected = golden_entries(content)
        assert (queue.min_offset, queue.max_offset) == (0, len(expected))
        assert queue.entries(0, 1_000) == expected
        assert queue.max_log_offset == expected[-1][0] + expected[-1][1]
    assert queues.max_log_offset == max(queue.max_log_offset for queue in queues)
    queues.close()
    assert {path: (tmp_path / path).read_bytes() for path in written} == written


@pytest.mark.parametrize(("store", "path"), GOLDEN_FILES)
def test_the_same_entries_give_the_same_bytes_as_apache_wrote(store: str, path: str, tmp_path: Path) -> None:
    content = golden_store(store)[path]
    _, topic, queue_id, name = path.split("/")
    queues = ConsumeQueues(tmp_path, 2_000)
    queue = queues.open(topic, int(queue_id))
    for number, (log_offset, size, tags_code) in enumerate(golden_entries(content)):
        assert queue.put(number, log_offset, size, tags_code)
    queues.close()
    assert (tmp_path / topic / queue_id / name).read_bytes() == content


# putting and reading


def test_entries_are_read_from_the_tail_and_from_the_files_alike(queue: ConsumeQueue) -> None:
    put_many(queue, 13)
    expected = [(number * 100, 100, number) for number in range(13)]
    assert queue.entries(0, 100) == expected
    queue.write_tail()
    put_many(queue, 4, start=13)
    expected += [(number * 100, 100, number) for number in range(13, 17)]
    for start in range(17):
        for count in (1, 3, 5, 6, 100):
            assert queue.entries(start, count) == expected[start : start + count]
    assert queue.read(17, 1) == b""
    assert queue.read(-1, 1) == b""
    assert queue.entry(17) is None


def test_no_file_is_made_before_something_is_written(queue: ConsumeQueue) -> None:
    put_many(queue, 1)
    assert not Path(queue.directory).exists()
    queue.write_tail()
    assert files(queue) == {0: ENTRY.pack(0, 100, 0) + bytes(FILE_BYTES - ENTRY_BYTES)}


def test_files_have_their_full_size_but_take_only_the_room_of_what_is_in_them(tmp_path: Path) -> None:
    queue = ConsumeQueues(tmp_path, 6_000_000).open("T", 0)
    put_many(queue, 1)
    queue.write_tail()
    status = Path(queue.path(0)).stat()
    assert status.st_size == 6_000_000
    assert status.st_blocks * 512 <= 65_536


def test_a_long_tail_is_written_without_being_asked(tmp_path: Path) -> None:
    queue = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES).open("T", 0)
    put_many(queue, TAIL_BYTES // ENTRY_BYTES - 1)
    assert queue.tail_bytes == TAIL_BYTES - ENTRY_BYTES
    put_many(queue, 1, start=queue.max_offset)
    assert queue.tail_bytes == 0
    assert reopened(queue).max_offset == TAIL_BYTES // ENTRY_BYTES


def test_an_entry_that_is_there_already_is_passed_over(queue: ConsumeQueue) -> None:
    put_many(queue, 7)
    assert queue.put(3, 300, 100, 3) is False
    assert queue.put(6, 600, 100, 6) is False
    assert queue.max_offset == 7
    assert queue.put(7, 700, 100, 7) is True


@pytest.mark.parametrize("queue_offset", [9, 5])
def test_an_entry_that_does_not_follow_the_last_one_is_an_error(queue: ConsumeQueue, queue_offset: int) -> None:
    put_many(queue, 7)
    with pytest.raises(QueueOrderError, match=f"T/0: message {queue_offset} at log offset 900 .* ends at 700"):
        queue.put(queue_offset, 900, 100, 0)
    assert queue.entries(0, 100) == [(number * 100, 100, number) for number in range(7)]


@pytest.mark.parametrize(("log_offset", "size"), [(-1, 100), (0, 0), (0, -5)])
def test_what_would_read_back_as_no_entry_is_refused(queue: ConsumeQueue, log_offset: int, size: int) -> None:
    with pytest.raises(ValueError, match="entry 0 of T/0"):
        queue.put(0, log_offset, size, 0)


def test_a_queue_that_begins_later_is_blank_before_its_first_entry_as_apaches(queue: ConsumeQueue) -> None:
    assert queue.put(12, 5_000, 100, 7)
    assert (queue.min_offset, queue.max_offset, queue.max_log_offset) == (12, 13, 5_100)
    queue.write_tail()
    expected = BLANK * 2 + ENTRY.pack(5_000, 100, 7)
    assert files(queue) == {2 * FILE_BYTES: expected.ljust(FILE_BYTES, b"\0")}
    again = reopened(queue)
    assert (again.min_offset, again.max_offset, again.max_log_offset) == (10, 13, 5_100)
    again.correct_min(0)
    assert again.min_offset == 12


def test_blank_entries_alone_do_not_count_as_messages(queue: ConsumeQueue) -> None:
    queue.skip_to(13)
    queue.write_tail()
    again = reopened(queue)
    # Apache would take the blank size for a log offset here, and ignore the next two gigabytes of messages.
    assert (again.max_offset, again.max_log_offset) == (13, -1)
    assert again.put(13, 100, 50, 0)


def test_messages_that_are_gone_can_be_skipped(queue: ConsumeQueue) -> None:
    put_many(queue, 3)
    queue.skip_to(11)
    assert queue.put(11, 9_000, 100, 1)
    assert queue.entries(3, 9) == [(0, BLANK_SIZE, 0)] * 8 + [(9_000, 100, 1)]
    assert queue.min_offset == 0
    with pytest.raises(ValueError, match="skip to 2"):
        queue.skip_to(2)


def test_the_next_file_begins_at_a_multiple_of_its_entries(queue: ConsumeQueue) -> None:
    assert [queue.next_file(offset) for offset in (0, 4, 5, 9)] == [5, 5, 10, 10]


# following the log


@pytest.mark.parametrize("kept", range(14))
@pytest.mark.parametrize("written", [0, 7, 13])
def test_a_truncated_queue_ends_before_the_given_log_offset(queue: ConsumeQueue, kept: int, written: int) -> None:
    put_many(queue, written)
    queue.write_tail()
    put_many(queue, 13 - written, start=written)
    assert queue.truncate(kept * 100) == 13 - kept
    assert queue.entries(0, 100) == [(number * 100, 100, number) for number in range(kept)]
    assert queue.max_log_offset == (kept * 100 if kept else -1)
    queue.write_tail()
    assert reopened(queue).entries(0, 100) == queue.entries(0, 100)
    if Path(queue.directory).exists():
        content = b"".join(files(queue).values())
        assert content == queue.read(0, 100).ljust(len(content), b"\0")
    assert queue.put(kept, 5_000, 1, 0)


def test_a_queue_that_begins_later_keeps_its_place_when_all_of_it_is_truncated(queue: ConsumeQueue) -> None:
    put_many(queue, 12)
    queue.write_tail()
    queue.delete_expired(1_000)
    assert queue.truncate(1_000) == 2
    assert (queue.min_offset, queue.max_offset, queue.max_log_offset) == (10, 10, -1)
    assert reopened(queue).max_offset == 10
    assert queue.put(10, 1_000, 50, 0)


def test_the_minimum_follows_the_log(queue: ConsumeQueue) -> None:
    put_many(queue, 13)
    for log_offset_min, expected in [(0, 0), (1, 1), (100, 1), (650, 7), (600, 7), (1_200, 12), (1_201, 13)]:
        queue.correct_min(log_offset_min)
        assert queue.min_offset == expected
    assert queue.read(12, 1) == b""


def test_files_that_hold_only_expired_messages_are_deleted_but_never_the_last(queue: ConsumeQueue) -> None:
    put_many(queue, 13)
    queue.write_tail()
    assert queue.delete_expired(400) == 0
    assert (queue.min_offset, sorted(files(queue))) == (4, [0, 100, 200])
    assert queue.delete_expired(999) == 2
    assert (queue.min_offset, sorted(files(queue))) == (10, [200])
    assert queue.delete_expired(10**9) == 0
    assert (queue.min_offset, queue.max_offset, sorted(files(queue))) == (13, 13, [200])
    assert reopened(queue).max_offset == 13


def test_a_file_that_is_partly_in_the_tail_is_not_deleted_yet(queue: ConsumeQueue) -> None:
    put_many(queue, 7)
    queue.write_tail()
    put_many(queue, 6, start=7)
    assert queue.delete_expired(10**9) == 1
    assert (queue.min_offset, queue.max_offset) == (13, 13)
    queue.write_tail()
    assert sorted(files(queue)) == [100, 200]
    assert queue.delete_expired(10**9) == 1
    assert reopened(queue).max_offset == 13


# faults


def test_a_full_disk_loses_nothing_and_fails_no_put(small_disk: Path) -> None:
    queues = ConsumeQueues(small_disk / "consumequeue", 300_000 * ENTRY_BYTES)
    queue = queues.open("T", 0)
    (small_disk / "ballast").write_bytes(bytes(60_000))
    put_many(queue, 1_000)
    assert queue.entries(0, 1_000) == [(number * 100, 100, number) for number in range(1_000)]
    for _ in range(2):
        with pytest.raises(StoreFull, match=r"no room on the disk for writing .*consumequeue/T/0/00000"):
            queues.flush(sync=True)
    (small_disk / "ballast").unlink()
    put_many(queue, 10, start=1_000)
    queues.flush(sync=True)
    assert reopened(queue).entries(0, 2_000) == [(number * 100, 100, number) for number in range(1_010)]
    queues.close()


def test_a_file_deleted_under_us_is_an_error_and_what_came_later_stays_readable(
    queues: ConsumeQueues, queue: ConsumeQueue
) -> None:
    put_many(queue, 3)
    other = queues.open("Other", 0)
    queues.flush()
    Path(queue.path(0)).unlink()
    put_many(queue, 1, start=3)
    put_many(other, 1)
    with pytest.raises(StoreDamaged, match="was deleted"):
        queues.flush()
    assert queue.entries(3, 1) == [(300, 100, 3)]
    assert other.tail_bytes == 0  # the damage of one did not stop the other


def test_a_file_cut_under_us_gives_fewer_entries_and_one_line_in_the_log(
    queue: ConsumeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    put_many(queue, 12)
    queue.write_tail()
    os.truncate(queue.path(FILE_BYTES), 2 * ENTRY_BYTES + 3)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert queue.entries(3, 9) == [(number * 100, 100, number) for number in range(3, 7)]
    assert len(caplog.records) == 1
    assert "was cut" in caplog.text
    put_many(queue, 1, start=12)
    queue.write_tail()  # another file: not touched by it


def test_a_missing_file_gives_no_entries_and_one_line_in_the_log(
    queue: ConsumeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    put_many(queue, 12)
    queue.write_tail()
    queue.family.descriptors.close()
    Path(queue.path(FILE_BYTES)).unlink()
    with caplog.at_level(logging.ERROR):
        assert queue.entries(5, 2) == []
        assert queue.entries(6, 2) == []
    assert len(caplog.records) == 1
    assert queue.entries(10, 2) == [(1_000, 100, 10), (1_100, 100, 11)]


class Broken(NamedTuple):
    name: str
    position: int  # in the queue's bytes
    content: bytes
    ends_at: int  # queue offset


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize(
    "broken",
    [
        Broken("zeros inside the last file", 10 * ENTRY_BYTES, bytes(ENTRY_BYTES), 10),
        Broken("a negative log offset", 11 * ENTRY_BYTES, b"\x80", 11),
        Broken("a negative size", 11 * ENTRY_BYTES + 8, b"\xff", 11),
        Broken("rubbish behind the end", 14 * ENTRY_BYTES + 3, b"x", 13),
    ],
    ids=lambda broken: broken.name,
)
def test_a_damaged_entry_ends_the_queue_and_is_reported(queue: ConsumeQueue, broken: Broken, thorough: bool) -> None:
    put_many(queue, 13)
    queue.write_tail()
    base = broken.position - broken.position % FILE_BYTES
    with Path(queue.path(base)).open("r+b") as file:
        file.seek(broken.position - base)
        file.write(broken.content)
    again = ConsumeQueues(Path(queue.family.root), FILE_BYTES)
    (damaged,) = again.load(thorough=thorough)
    assert (damaged.topic, damaged.queue_id, damaged.log_offset) == ("T", 0, broken.ends_at * 100)
    assert "damaged at byte" in damaged.problem
    rebuilt = again.open("T", 0)
    assert rebuilt.max_offset == broken.ends_at
    put_many(rebuilt, 14)  # the log tells it all again
    assert rebuilt.entries(0, 100) == [(number * 100, 100, number) for number in range(14)]
    again.close()
    assert reopened(queue).entries(0, 100) == rebuilt.entries(0, 100)


def test_a_page_that_never_reached_the_disk_is_found_after_a_crash(tmp_path: Path) -> None:
    queue = ConsumeQueues(tmp_path, 10_000 * ENTRY_BYTES).open("T", 0)
    put_many(queue, 5_000)
    queue.write_tail()
    with Path(queue.path(0)).open("r+b") as file:
        file.seek(8_192)
        file.write(bytes(4_096))
    again = ConsumeQueues(tmp_path, 10_000 * ENTRY_BYTES)
    (damaged,) = again.load(thorough=True)
    whole = 8_192 // ENTRY_BYTES  # 409 entries, and 12 bytes of the next: its offset and size are there
    assert damaged.log_offset == (whole + 1) * 100
    put_many(again.open("T", 0), 5_000)
    assert again.open("T", 0).read(0, 5_000) != b""


def test_a_missing_file_in_the_middle_ends_the_queue_before_it(queue: ConsumeQueue) -> None:
    put_many(queue, 13)
    queue.write_tail()
    Path(queue.path(FILE_BYTES)).unlink()
    again = ConsumeQueues(Path(queue.family.root), FILE_BYTES)
    (damaged,) = again.load()
    assert (damaged.problem, damaged.log_offset) == (f"{queue.path(FILE_BYTES)} is missing", 500)
    put_many(again.open("T", 0), 13)
    assert again.open("T", 0).entries(0, 100) == [(number * 100, 100, number) for number in range(13)]


def test_looking_at_a_damaged_queue_changes_nothing_on_the_disk(queue: ConsumeQueue) -> None:
    put_many(queue, 13)
    queue.write_tail()
    Path(queue.path(FILE_BYTES)).unlink()
    os.truncate(queue.path(2 * FILE_BYTES), 30)
    before = files(queue)
    again = ConsumeQueues(Path(queue.family.root), FILE_BYTES, writable=False)
    assert len(again.load()) == 1
    assert again.open("T", 0).max_offset == 5
    again.close()
    assert files(queue) == before


@given(entries=st.integers(0, 3_000), file_entries=st.sampled_from([1, 7, 204, 205, 1_000]))
@settings(max_examples=40, deadline=None)
def test_the_end_is_found_wherever_it_is(entries: int, file_entries: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        entries %= 4 * file_entries
        queue = ConsumeQueues(Path(directory), file_entries * ENTRY_BYTES).open("T", 0)
        put_many(queue, entries)
        queue.write_tail()
        for thorough in (True, False):
            again = reopened(queue, thorough=thorough)
            assert (again.max_offset, again.max_log_offset) == (entries, entries * 100 if entries else -1)


@given(bit=st.integers(0, 3 * FILE_BYTES * 8 - 1), thorough=st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_flipped_bit_anywhere_never_stops_the_queue_from_working(bit: int, thorough: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        queue = ConsumeQueues(Path(directory), FILE_BYTES).open("T", 0)
        put_many(queue, 13)
        queue.write_tail()
        path = Path(queue.path(bit // 8 // FILE_BYTES * FILE_BYTES))
        content = bytearray(path.read_bytes())
        content[bit // 8 % FILE_BYTES] ^= 1 << bit % 8
        path.write_bytes(content)

        queues = ConsumeQueues(Path(directory), FILE_BYTES)
        queues.load(thorough=thorough)
        queues.truncate(1_300)  # the end of the log
        queues.delete_expired(0)
        again = queues.open("T", 0)
        put_from = again.max_offset
        put_many(again, 20 - put_from, start=put_from)
        assert (again.min_offset, again.max_offset) == (0, 20)
        differing = [
            number for number, entry in enumerate(again.entries(0, 20)) if entry != (number * 100, 100, number)
        ]
        assert differing in ([], [bit // 8 // ENTRY_BYTES])  # nothing but what was damaged
        queues.close()


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 2**31 - 1), st.just(0)), max_size=50),
    st.binary(max_size=19),
)
def test_counting_by_columns_is_the_same_as_counting_one_by_one(entries: list[Entry], rest: bytes) -> None:
    expected = len(list(itertools.takewhile(lambda entry: is_present(entry[0], entry[1]), entries)))
    assert count_present(b"".join(ENTRY.pack(*entry) for entry in entries) + rest) == expected


def test_one_thread_reads_and_another_writes_tails_while_entries_are_put(tmp_path: Path) -> None:
    queues = ConsumeQueues(tmp_path, 1_000 * ENTRY_BYTES)
    queue = queues.open("T", 0)
    stop = threading.Event()
    wrong: list[object] = []

    def write() -> None:
        while not stop.is_set():
            queues.flush()

    def read() -> None:
        while not stop.is_set():
            end = queue.max_offset
            start = max(end - 40, 0)
            expected = [(number * 100, 100, number) for number in range(start, end)]
            found = queue.entries(start, end - start)
            if found != expected:
                wrong.append((start, found))

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    put_many(queue, 20_000)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    queues.flush()
    assert queue.tail_bytes == 0
    assert reopened(queue).entries(0, 20_000) == [(number * 100, 100, number) for number in range(20_000)]


class QueueMachine(RuleBasedStateMachine):
    """Any order of puts, flushes, truncations, expiries and restarts, beside a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.model: list[Entry] = []  # from `begin` on
        self.begin = 0  # queue offset of model[0]
        self.on_disk = 0  # so many of the model are in files
        self.min_offset = 0
        self.log_offset_min = 0
        self.log_end = 0
        self._open()

    def _open(self, *, thorough: bool = False) -> None:
        self.queues = ConsumeQueues(self.directory, FILE_BYTES)
        assert self.queues.load(thorough=thorough) == []
        self.queue = self.queues.open("T", 0)

    @rule(count=st.integers(1, 12), gap=st.integers(0, 50), size=st.integers(1, 100))
    def put(self, count: int, gap: int, size: int) -> None:
        for _ in range(count):
            self.log_end += gap
            entry = (self.log_end, size, -gap)
            assert self.queue.put(self.begin + len(self.model), *entry)
            self.model.append(entry)
            self.log_end += size

    @precondition(lambda self: not self.model and not self.begin)
    @rule(queue_offset=st.integers(1, 20))
    def begin_later(self, queue_offset: int) -> None:
        self.log_end = max(self.log_end, self.log_offset_min) + 1
        self.begin = self.min_offset = queue_offset
        self.put(1, 0, 10)

    @rule()
    def put_again(self) -> None:
        for number, entry in enumerate(self.model, self.begin):
            if entry[0] >= self.log_offset_min:
                assert not self.queue.put(number, *entry)

    @rule()
    def flush(self) -> None:
        self.queues.flush()
        self.on_disk = len(self.model)

    @rule(thorough=st.booleans())
    def restart(self, thorough: bool) -> None:
        self.queues.close()
        self._open(thorough=thorough)
        self.on_disk = len(self.model)
        self.queue.correct_min(self.log_offset_min)

    @rule(thorough=st.booleans())
    def crash(self, thorough: bool) -> None:
        """Lose the tail, and let the log dispatch again."""
        self._open(thorough=thorough)
        self.queue.correct_min(self.log_offset_min)
        for number, entry in enumerate(self.model, self.begin):
            if entry[0] >= self.log_offset_min:
                self.queue.put(number, *entry)
        self.on_disk = min(self.on_disk, len(self.model))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        places = [entry[0] for entry in self.model if entry[0] >= self.log_offset_min]
        log_offset = data.draw(st.sampled_from([*places, self.log_end]))
        kept = [entry for entry in self.model if entry[0] + entry[1] <= log_offset]
        if not kept:
            return  # a queue that forgets where it began: see the test of its own
        assert self.queue.truncate(log_offset) == len(self.model) - len(kept)
        self.model = kept
        self.on_disk = min(self.on_disk, len(kept))
        self.log_end = log_offset

    @precondition(lambda self: self.model)
    @rule(data=st.data(), delete=st.booleans())
    def expire(self, data: st.DataObject, delete: bool) -> None:
        self.flush()  # as retention must: what is only in a tail could not be told again by a log that is gone
        places = [entry[0] for entry in self.model if entry[0] >= self.log_offset_min]
        self.log_offset_min = data.draw(st.sampled_from([*places, self.log_end]))
        if delete:
            self.queue.delete_expired(self.log_offset_min)
        else:
            self.queue.correct_min(self.log_offset_min)

    @invariant()
    def agrees(self) -> None:
        queue, model = self.queue, self.model
        end = self.begin + len(model)
        if model:
            assert queue.max_offset == end
            is_in_a_file = queue.first < end * ENTRY_BYTES
            assert queue.max_log_offset == (model[-1][0] + model[-1][1] if is_in_a_file else -1)
        expired = sum(entry[0] < self.log_offset_min for entry in model)
        if model:
            assert queue.min_offset == self.begin + expired
        assert queue.entries(queue.min_offset, 1_000) == model[expired:]
        for start in range(queue.min_offset, end, 3):
            assert queue.entries(start, 4) == model[start - self.begin : start - self.begin + 4]

    def teardown(self) -> None:
        shutil.rmtree(self.directory)


TestQueueAgainstAList = QueueMachine.TestCase
TestQueueAgainstAList.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
