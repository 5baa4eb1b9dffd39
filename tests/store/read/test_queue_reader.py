"""Reading a queue: what comes, how much of it, where to go on, and that nothing wrong ever comes."""

import logging
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import GetResult, GetStatus
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.tags import java_hash
from tests.store.stores import HOST, SEGMENT_BYTES, bodies, message, open_store, read_queue, records_of

pytestmark = pytest.mark.pure

HOST_V6 = encode_host("::1", 10911)


def put(store: MessageStore, count: int, *, size: int = 8, topic: str = "T", queue_id: int = 0) -> None:
    for number in range(count):
        assert store.put(message(b"%0*d" % (size, number), topic=topic, queue_id=queue_id)).appended


@pytest.fixture
def store(memory_directory: Path) -> Iterator[MessageStore]:
    store = open_store(memory_directory)
    yield store
    store.close()


def outcome(result: GetResult) -> tuple[GetStatus, int, int]:
    return result.status, result.count, result.next_offset


# Statuses and the next offset, as DefaultMessageStore.getMessage


def test_a_queue_that_nobody_wrote_to_has_no_messages(store: MessageStore) -> None:
    assert outcome(store.get("T", 0, 7, 32)) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0)
    assert list(store.queues()) == []  # asking makes no queue


def test_an_empty_queue_sends_the_reader_to_its_beginning(store: MessageStore) -> None:
    store._queues.open("T", 0)
    assert outcome(store.get("T", 0, 7, 32)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0)


def test_offsets_out_of_range_are_corrected(store: MessageStore) -> None:
    put(store, 3)
    assert outcome(store.get("T", 0, 3, 32)) == (GetStatus.OFFSET_OVERFLOW_ONE, 0, 3)
    assert outcome(store.get("T", 0, 9, 32)) == (GetStatus.OFFSET_OVERFLOW_BADLY, 0, 3)
    assert outcome(store.get("T", 0, -1, 32)) == (GetStatus.OFFSET_TOO_SMALL, 0, 0)


def test_a_slave_corrects_no_offset(store: MessageStore) -> None:
    put(store, 3)
    store.reader.corrects_offsets = False
    assert outcome(store.get("T", 0, 9, 32)) == (GetStatus.OFFSET_OVERFLOW_BADLY, 0, 9)
    assert outcome(store.get("Other", 0, 9, 32)) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 9)


def test_messages_come_in_order_and_tell_where_the_queue_begins_and_ends(store: MessageStore) -> None:
    put(store, 5)
    result = store.get("T", 0, 1, 3)
    assert outcome(result) == (GetStatus.FOUND, 3, 4)
    assert [record.queue_offset for record in records_of(result)] == [1, 2, 3]
    assert (result.min_offset, result.max_offset) == (0, 5)


def test_reading_on_gives_every_message_once_over_file_borders(store: MessageStore) -> None:
    put(store, 100, size=100)
    assert store.max_log_offset > 3 * SEGMENT_BYTES
    assert [int(body) for body in bodies(store)] == list(range(100))


def test_messages_side_by_side_come_as_one_slice(store: MessageStore) -> None:
    put(store, 4)
    put(store, 1, topic="Other")
    put(store, 3)
    assert [
        len(piece) // len(records_of(store.get("T", 0, 0, 1))[0].encode()) for piece in store.get("T", 0, 0, 9).slices
    ] == [4, 3]


def test_a_slice_is_of_the_log_itself_and_cannot_be_written(store: MessageStore) -> None:
    put(store, 1)
    piece = store.get("T", 0, 0, 1).slices[0]
    assert isinstance(piece, memoryview)
    assert piece.readonly
    store.close()
    assert decode_record(piece).body == b"00000000"  # and it outlives the store


# How much


def test_at_most_the_count_and_the_bytes_of_the_settings_come_at_once(memory_directory: Path) -> None:
    store = open_store(memory_directory, memory_transfer_count_max=6, memory_transfer_bytes_max=500)
    put(store, 20)
    size = records_of(store.get("T", 0, 0, 1))[0].size
    assert store.get("T", 0, 0, 32).count == 500 // size < 6
    put(store, 20, queue_id=1, size=1)
    assert store.get("T", 1, 0, 4).count == 4
    store.close()


def test_one_message_comes_however_large_it_is_and_whatever_count_is_asked_for(memory_directory: Path) -> None:
    store = open_store(memory_directory, memory_transfer_bytes_max=10)
    put(store, 2, size=1000)
    assert outcome(store.get("T", 0, 0, 32)) == (GetStatus.FOUND, 1, 1)
    assert outcome(store.get("T", 0, 0, 0)) == (GetStatus.FOUND, 1, 1)
    store.close()


def test_a_reader_far_behind_gets_less_and_is_sent_to_a_slave(memory_directory: Path) -> None:
    store = open_store(memory_directory, memory_bytes=4000, memory_ratio_percent=50, disk_transfer_count_max=3)
    put(store, 40)
    behind, near = store.get("T", 0, 0, 32), store.get("T", 0, 35, 32)
    assert (behind.count, behind.suggests_slave) == (3, True)
    assert (near.count, near.suggests_slave) == (5, False)
    assert behind.behind_bytes == store.max_log_offset - records_of(behind)[-1].log_offset - records_of(behind)[-1].size
    assert store.reader.is_on_disk("T", 0, 0)
    assert not store.reader.is_on_disk("T", 0, 39)
    store.close()


# Filters


def test_a_tag_filter_looks_at_the_entry_alone(store: MessageStore) -> None:
    for number in range(6):
        store.put(message(b"%d" % number, properties={"TAGS": "even" if number % 2 == 0 else "odd"}))
    wanted = {java_hash("odd")}
    result = store.get("T", 0, 0, 32, entry_filter=lambda code, _: code in wanted)
    assert [record.body for record in records_of(result)] == [b"1", b"3", b"5"]
    assert result.next_offset == 6


def test_a_record_filter_sees_the_whole_record(store: MessageStore) -> None:
    put(store, 6)
    result = store.get("T", 0, 0, 32, record_filter=lambda record: decode_record(record).queue_offset in (2, 3))
    assert [record.queue_offset for record in records_of(result)] == [2, 3]


def test_when_nothing_matches_the_reader_goes_on_behind_what_was_looked_at(store: MessageStore) -> None:
    put(store, 900, size=1)
    nothing = store.get("T", 0, 0, 4, entry_filter=lambda *_: False)
    assert outcome(nothing) == (GetStatus.NO_MATCHED_MESSAGE, 0, 800)  # Apache: 16,000 bytes of entries
    rest = store.get("T", 0, 800, 4, entry_filter=lambda *_: False)
    assert outcome(rest) == (GetStatus.NO_MATCHED_MESSAGE, 0, 900)


def test_a_filter_that_takes_few_still_gets_as_many_as_asked_for(store: MessageStore) -> None:
    put(store, 100, size=3)
    result = store.get("T", 0, 0, 4, record_filter=lambda record: decode_record(record).queue_offset % 10 == 9)
    assert ([record.queue_offset for record in records_of(result)], result.next_offset) == ([9, 19, 29, 39], 40)


# What the log no longer has, or never had


def test_messages_gone_from_the_log_are_passed_over(store: MessageStore) -> None:
    put(store, 60, size=100)
    while store.min_log_offset < SEGMENT_BYTES * 2:
        store._log.delete_oldest()  # before the queues have followed
    result = store.get("T", 0, 0, 4)
    assert result.status is GetStatus.FOUND
    first = records_of(result)[0]
    assert first.log_offset == store.min_log_offset
    store.retention._follow()
    assert outcome(store.get("T", 0, 0, 4)) == (GetStatus.OFFSET_TOO_SMALL, 0, first.queue_offset)
    assert store.reader.min_offset("T", 0) == first.queue_offset
    assert [int(body) for body in bodies(store)] == list(range(first.queue_offset, 60))


def test_when_everything_looked_at_is_gone_the_status_says_so(store: MessageStore) -> None:
    put(store, 850, size=1)
    put(store, 200, queue_id=1, size=100)
    for _ in range(store._log.end_offset // SEGMENT_BYTES):
        store._log.delete_oldest()
    assert outcome(store.get("T", 0, 0, 4)) == (GetStatus.MESSAGE_WAS_REMOVING, 0, 800)


def flip(path: Path, position: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("byte", range(12))
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_bad_bit_in_an_entry_never_delivers_another_message(
    store: MessageStore, byte: int, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, 5)
    put(store, 5, topic="U")
    store.flush()
    flip(Path(store.config.consume_queue_path, "T", "0", f"{0:020d}"), 2 * 20 + byte, bit)
    with caplog.at_level(logging.ERROR):
        assert [record.queue_offset for record in read_queue(store)] == [0, 1, 3, 4]
    assert "message 2 of T/0 is skipped" in caplog.text
    caplog.clear()
    read_queue(store)
    assert not caplog.records  # told once


def test_an_entry_that_points_at_the_same_number_of_another_topic_delivers_nothing(store: MessageStore) -> None:
    put(store, 1)
    put(store, 1, topic="U")
    store.flush()
    other = store.reader.log_offset("U", 0, 0)
    assert other is not None
    path = Path(store.config.consume_queue_path, "T", "0", f"{0:020d}")
    with path.open("r+b") as file:
        file.write(struct.pack(">q", other))
    assert outcome(store.get("T", 0, 0, 32)) == (GetStatus.NO_MATCHED_MESSAGE, 0, 1)


@pytest.mark.parametrize("host", [HOST, HOST_V6])
def test_a_bad_bit_in_an_old_body_is_passed_over_and_the_rest_is_read(memory_directory: Path, host: bytes) -> None:
    store = open_store(memory_directory)
    for number in range(4):
        body = b"body %d" % number
        store.put(PendingMessage("T", 0, body, b"", born_timestamp_ms=1, born_host=host, store_host=host))
    where = store._log.segments[0].tail(0).tobytes().index(b"body 1")
    store.close()
    flip(memory_directory / "commitlog" / f"{0:020d}", where)
    store = open_store(memory_directory)
    assert bodies(store) == [b"body 0", b"body 2", b"body 3"]
    assert store.reader.max_offset("T", 0) == 4
    store.close()


def test_a_queue_file_deleted_under_us_sends_the_reader_behind_it(store: MessageStore) -> None:
    put(store, 25)
    store.flush()
    store._queues.descriptors.close()
    Path(store.config.consume_queue_path, "T", "0", f"{200:020d}").unlink()
    assert outcome(store.get("T", 0, 12, 4)) == (GetStatus.OFFSET_FOUND_NULL, 0, 20)
    assert store.get("T", 0, 20, 32).count == 5


# Small questions


def test_where_a_message_lies(store: MessageStore) -> None:
    put(store, 2)
    second = records_of(store.get("T", 0, 1, 1))[0]
    assert store.reader.log_offset("T", 0, 1) == second.log_offset
    assert store.reader.log_offset("T", 0, 2) is None
    assert store.reader.log_offset("T", 9, 0) is None
    assert store.reader.min_offset("T", 9) == store.reader.max_offset("T", 9) == 0


def test_a_read_that_finds_nothing_looks_at_no_more_than_its_share_however_many_it_was_asked_for(
    store: MessageStore,
) -> None:
    put(store, 1_000)
    for asked in (1, 32, 2**31 - 1):
        nothing = store.get("T", 0, 0, asked, entry_filter=lambda _code, _unit: False)
        assert outcome(nothing) == (GetStatus.NO_MATCHED_MESSAGE, 0, 800)
    assert outcome(store.get("T", 0, 0, 2**31 - 1)) == (GetStatus.FOUND, 32, 32)


def test_a_read_ends_when_its_filter_took_too_long_and_its_reader_comes_to_the_end_all_the_same(
    store: MessageStore,
) -> None:
    put(store, 10)

    def wants(record: memoryview) -> bool:
        began = time.thread_time()
        while time.thread_time() - began < 0.006:
            pass
        return b"00000007" in bytes(record)

    offset, found = 0, []
    for _ in range(10):
        result = store.get("T", 0, offset, 32, record_filter=wants)
        assert result.next_offset == offset + 1
        assert result.status is (GetStatus.FOUND if offset == 7 else GetStatus.NO_MATCHED_MESSAGE)
        found += [record.body for record in records_of(result)]
        offset = result.next_offset
    assert found == [b"00000007"]
