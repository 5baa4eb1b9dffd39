"""Appending messages: Apache's bytes, offsets, limits, rolling, and what happens when there is no room."""

import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.errors import MessageRefused, StoreClosed, StoreError, StoreFull
from hanabi.store.config import StoreConfig
from hanabi.store.log.commit_log import AppendResult, CommitLog, PendingMessage
from hanabi.store.log.log import Log
from hanabi.testing.clock import ManualClock
from hanabi.wire.message import sysflag
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import (
    MAGIC,
    MAGIC_BLANK,
    MAGIC_LONG_TOPIC,
    Record,
    RecordState,
    decode_record,
    scan_records,
)
from tests.golden_records import STORES, golden_logs

SIZE = 16_384
HOST = encode_host("127.0.0.1", 10911)
HOST_V6 = encode_host("::1", 10911)
EMPTY_RECORD_BYTES = 91 + len("T")  # without body and properties


def message(body: bytes = b"hello", *, topic: str = "T", queue_id: int = 0, **more: object) -> PendingMessage:
    plain = PendingMessage(topic, queue_id, body, b"", born_timestamp_ms=1, born_host=HOST, store_host=HOST)
    return msgspec.structs.replace(plain, **more)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def commit_log(tmp_path: Path, clock: ManualClock) -> CommitLog:
    return CommitLog(Log(tmp_path, SIZE), now_ms=clock)


def stored(commit_log: CommitLog, result: AppendResult) -> Record:
    view = commit_log.read(result.log_offset, result.size)
    assert view is not None
    return decode_record(view)


def all_records(commit_log: CommitLog) -> list[Record]:
    """Return every record, as a scan of all files finds them."""
    records: list[Record] = []
    for segment in commit_log.log.segments:
        tail = segment.tail(0)
        records += [decode_record(tail, at) for at, checked in scan_records(tail) if checked.state is RecordState.WHOLE]
    return records


# The bytes


@pytest.mark.parametrize("name", STORES)
def test_apaches_log_written_again_by_us_is_the_same_byte_for_byte(
    name: str, tmp_path: Path, clock: ManualClock
) -> None:
    golden = [content for content in golden_logs(name) if any(content)]  # one was only prepared
    commit_log = CommitLog(Log(tmp_path, len(golden[0])), now_ms=clock)
    count = 0
    for content in golden:
        for at, checked in scan_records(content):
            if checked.state is not RecordState.WHOLE:
                continue
            record = decode_record(content, at)
            clock.ms = record.store_timestamp_ms
            result = commit_log.append(
                PendingMessage(
                    record.topic,
                    record.queue_id,
                    record.body,
                    record.properties,
                    record.born_timestamp_ms,
                    record.born_host,
                    record.store_host,
                    record.flag,
                    record.sys_flag,
                    record.reconsume_times,
                    record.prepared_offset,
                )
            )
            assert (result.log_offset, result.size) == (record.log_offset, record.size)
            count += 1
    assert count > 20
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == golden


def test_a_message_gets_its_place_its_number_and_its_time(commit_log: CommitLog, clock: ManualClock) -> None:
    first = commit_log.append(message(b"first"))
    clock.ms += 5
    second = commit_log.append(message(b"second", properties=b"TAGS\x01a", flag=7, reconsume_times=2))
    assert (first.log_offset, first.queue_offset, first.store_timestamp_ms) == (0, 0, 1_000_000)
    assert (second.log_offset, second.queue_offset, second.store_timestamp_ms) == (first.size, 1, 1_000_005)
    assert second.end_offset == commit_log.log.end_offset
    record = stored(commit_log, second)
    assert record.body == b"second"
    assert record.properties == b"TAGS\x01a"
    assert (record.flag, record.reconsume_times, record.queue_offset) == (7, 2, 1)
    assert (record.log_offset, record.store_timestamp_ms) == (second.log_offset, 1_000_005)


def test_the_message_id_names_the_broker_and_the_place(commit_log: CommitLog) -> None:
    commit_log.append(message())
    result = commit_log.append(message())
    assert decode_offset_id(result.offset_message_id) == (HOST, result.log_offset)
    v6 = commit_log.append(message(store_host=HOST_V6))
    assert len(v6.offset_message_id) == 56


def test_hosts_of_both_families_are_stored(commit_log: CommitLog) -> None:
    for born, store in itertools.product((HOST, HOST_V6), repeat=2):
        record = stored(commit_log, commit_log.append(message(born_host=born, store_host=store)))
        assert (record.born_host, record.store_host, record.body) == (born, store, b"hello")
    assert len(all_records(commit_log)) == 4


def test_a_body_may_be_a_slice_of_the_network_buffer(commit_log: CommitLog) -> None:
    pending = msgspec.structs.replace(message(), body=memoryview(b"..hello..")[2:7])
    assert stored(commit_log, commit_log.append(pending)).body == b"hello"
    assert stored(commit_log, commit_log.append_batch([pending, pending])[1]).body == b"hello"


def test_a_record_is_found_by_its_offset_alone(commit_log: CommitLog, clock: ManualClock) -> None:
    commit_log.append(message())
    clock.ms += 9
    result = commit_log.append(message(b"second"))
    view = commit_log.read_record(result.log_offset)
    assert view is not None
    assert decode_record(view).body == b"second"
    assert commit_log.store_timestamp_at(result.log_offset, result.size) == clock.ms
    for nowhere in (-1, result.end_offset, result.log_offset + 3, SIZE, 10 * SIZE):
        assert commit_log.read_record(nowhere) is None
        assert commit_log.store_timestamp_at(nowhere, result.size) is None


# Queue offsets


def test_every_queue_counts_for_itself(commit_log: CommitLog) -> None:
    places = [("A", 0), ("A", 1), ("B", 0), ("A", 0), ("B", 0), ("A", 0)]
    offsets = [commit_log.append(message(topic=topic, queue_id=queue)).queue_offset for topic, queue in places]
    assert offsets == [0, 0, 0, 1, 1, 2]
    assert commit_log.next_queue_offset("A", 0) == 3
    assert commit_log.next_queue_offset("C", 0) == 0


def test_queues_go_on_where_they_were_restored_to(commit_log: CommitLog) -> None:
    commit_log.restore_queue_offsets({("A", 0): 17})
    assert commit_log.append(message(topic="A")).queue_offset == 17
    assert commit_log.append(message(topic="B")).queue_offset == 0
    commit_log.forget_queue("A", 0)
    commit_log.forget_queue("never", 0)
    assert commit_log.append(message(topic="A")).queue_offset == 0


def test_prepared_and_rolled_back_messages_get_no_number(commit_log: CommitLog) -> None:
    commit_log.append(message())
    for kind in (sysflag.TRANSACTION_PREPARED, sysflag.TRANSACTION_ROLLBACK):
        assert commit_log.append(message(sys_flag=kind)).queue_offset == 0
    assert commit_log.append(message(sys_flag=sysflag.TRANSACTION_COMMIT)).queue_offset == 1
    assert commit_log.append(message()).queue_offset == 2


# Time


def test_the_store_timestamp_never_goes_back(commit_log: CommitLog, clock: ManualClock) -> None:
    commit_log.append(message())
    clock.ms -= 60_000
    assert commit_log.append(message()).store_timestamp_ms == 1_000_000
    assert commit_log.append_batch([message()])[0].store_timestamp_ms == 1_000_000
    clock.ms += 60_001
    assert commit_log.append(message()).store_timestamp_ms == 1_000_001


# Rolling


@pytest.mark.parametrize(("left", "rolls"), [(8, False), (7, True), (0, True)])
def test_a_record_must_leave_eight_bytes_for_the_filler(commit_log: CommitLog, left: int, rolls: bool) -> None:
    body = b"x" * (SIZE - EMPTY_RECORD_BYTES - 400)
    used = commit_log.append(message(body)).size
    last = commit_log.append(message(b"y" * (SIZE - used - EMPTY_RECORD_BYTES - left)))
    assert (last.log_offset == SIZE) is rolls
    assert decode_record(commit_log.log.read_tail(last.log_offset) or b"").log_offset == last.log_offset
    if rolls:
        blank = commit_log.log.read(used, 8)
        assert blank is not None
        assert bytes(blank) == (SIZE - used).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")


def test_the_smallest_filler_has_eight_bytes(commit_log: CommitLog) -> None:
    used = commit_log.append(message(b"x" * (SIZE - EMPTY_RECORD_BYTES - 8))).size
    assert used == SIZE - 8
    after = commit_log.append(message())
    assert after.log_offset == SIZE
    assert bytes(commit_log.log.read(used, 8) or b"") == (8).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    assert [record.queue_offset for record in all_records(commit_log)] == [0, 1]


# Limits


def test_limits_are_refused_and_nothing_is_stored(tmp_path: Path, clock: ManualClock) -> None:
    commit_log = CommitLog(Log(tmp_path, SIZE), now_ms=clock, message_bytes_max=1000)
    commit_log.append(message(b"x" * 1000))
    end = commit_log.log.end_offset
    refused = [
        (message(b"x" * 1001), "a body of 1001 bytes, limit 1000"),
        (message(properties=bytes(32_768)), "properties of 32768 bytes, limit 32767"),
        (message(topic="t" * 256), "a topic of 256 bytes, limit 255"),
        (message(topic="ü" * 128), "a topic of 256 bytes"),
        (message(topic=""), "a topic of 0 bytes"),
        (message(properties=bytes(SIZE)), "do not fit in a log file"),
    ]
    for pending, reason in refused:
        with pytest.raises(MessageRefused, match=reason):
            commit_log.append(pending)
        with pytest.raises(MessageRefused):
            commit_log.append_batch([pending])
    assert commit_log.log.end_offset == end
    assert commit_log.next_queue_offset("T", 0) == 1


def test_the_largest_properties_and_topics_are_stored(tmp_path: Path, clock: ManualClock) -> None:
    commit_log = CommitLog(Log(tmp_path, 1 << 17), now_ms=clock)
    for topic, magic in (("t" * 127, MAGIC), ("t" * 128, MAGIC_LONG_TOPIC), ("t" * 255, MAGIC_LONG_TOPIC)):
        record = stored(commit_log, commit_log.append(message(topic=topic, properties=b"p" * 32_767)))
        assert (record.topic, record.magic, len(record.properties)) == (topic, magic, 32_767)


# Batches


def test_a_batch_is_a_record_each_with_consecutive_numbers_and_one_time(commit_log: CommitLog) -> None:
    commit_log.append(message(b"before"))
    results = commit_log.append_batch([message(b"%d" % number) for number in range(5)])
    assert [result.queue_offset for result in results] == [1, 2, 3, 4, 5]
    assert [stored(commit_log, result).body for result in results] == [b"0", b"1", b"2", b"3", b"4"]
    assert commit_log.append(message(b"after")).queue_offset == 6
    assert [record.queue_offset for record in all_records(commit_log)] == list(range(7))


def test_a_batch_is_the_same_bytes_as_its_messages_one_by_one(tmp_path: Path, clock: ManualClock) -> None:
    messages = [message(b"%d" % number, properties=b"KEYS\x01%d" % number) for number in range(4)]
    one_by_one = CommitLog(Log(tmp_path / "one", SIZE), now_ms=clock)
    together = CommitLog(Log(tmp_path / "all", SIZE), now_ms=clock)
    assert [one_by_one.append(pending) for pending in messages] == together.append_batch(messages)
    assert one_by_one.log.read_tail(0) == together.log.read_tail(0)


def test_a_batch_that_does_not_fit_goes_wholly_into_the_next_segment(commit_log: CommitLog) -> None:
    used = commit_log.append(message(b"x" * (SIZE - 1000))).size
    results = commit_log.append_batch([message(b"y" * 300)] * 4)
    assert [result.log_offset for result in results] == [SIZE + number * results[0].size for number in range(4)]
    assert bytes(commit_log.log.read(used, 8) or b"")[4:] == MAGIC_BLANK.to_bytes(4, "big")
    assert [record.queue_offset for record in all_records(commit_log)] == [0, 1, 2, 3, 4]


def test_a_batch_with_one_bad_message_stores_none(tmp_path: Path, clock: ManualClock) -> None:
    commit_log = CommitLog(Log(tmp_path, SIZE), now_ms=clock, message_bytes_max=1000)
    good = message(b"x" * 400)
    refused = [
        ([], "without messages"),
        ([good, message(queue_id=1)], "goes to one queue"),
        ([good, message(topic="U")], "goes to one queue"),
        ([good, message(sys_flag=sysflag.TRANSACTION_PREPARED)], "transaction"),
        ([good, good, good], "a batch of 1200 bytes, limit 1000"),
        ([good, message(properties=bytes(32_768))], "properties of 32768"),
        ([message(b"", properties=bytes(5_000))] * 4, "do not fit in a log file"),
    ]
    for batch, reason in refused:
        with pytest.raises(MessageRefused, match=reason):
            commit_log.append_batch(batch)
    assert commit_log.log.end_offset == 0
    assert commit_log.next_queue_offset("T", 0) == 0


# Copies of another log


def test_a_copy_of_another_log_is_the_same_however_it_is_cut(tmp_path: Path, clock: ManualClock) -> None:
    master = CommitLog(Log(tmp_path / "master", SIZE), now_ms=clock)
    for number in range(60):
        master.append(message(b"x" * (number * 13)))
    master.log.delete_oldest()
    slave = CommitLog(Log(tmp_path / "slave", SIZE), now_ms=clock)
    offset = master.log.min_offset
    while offset < master.log.end_offset:
        piece = (master.log.read_tail(offset) or memoryview(b""))[:777]
        slave.append_copy(offset, piece)
        offset += len(piece)
    assert all_records(slave) == all_records(master)
    assert (slave.log.min_offset, slave.log.end_offset) == (SIZE, master.log.end_offset)
    with pytest.raises(StoreError, match=f"the log ends at {offset}"):
        slave.append_copy(offset + 1, b"gap")


# Faults


def test_a_closed_log_takes_nothing(commit_log: CommitLog) -> None:
    commit_log.append(message())
    commit_log.log.close()
    with pytest.raises(StoreClosed):
        commit_log.append(message())
    with pytest.raises(StoreClosed):
        commit_log.append_batch([message()])


def test_messages_refused_by_a_full_disk_leave_no_trace_and_no_hole(small_disk: Path, clock: ManualClock) -> None:
    commit_log = CommitLog(Log(small_disk / "commitlog", SIZE), now_ms=clock)
    taken: list[AppendResult] = []

    def append_for_ever() -> None:
        while True:
            taken.append(commit_log.append(message(b"x" * 1500)))

    with pytest.raises(StoreFull):
        append_for_ever()
    with pytest.raises(StoreFull):
        commit_log.append_batch([message(b"x" * 1500)] * 2)
    taken.append(commit_log.append(message(b"small")))  # the rest of the last file is still good for it
    assert [record.queue_offset for record in all_records(commit_log)] == list(range(len(taken)))

    commit_log.log.delete_oldest()
    taken.append(commit_log.append(message(b"x" * 1500)))
    assert [result.queue_offset for result in taken] == list(range(len(taken)))
    assert all_records(commit_log)[-1].queue_offset == taken[-1].queue_offset
    assert commit_log.log.flush() == commit_log.log.end_offset
    commit_log.log.close()


# Opening by configuration


def test_a_commit_log_is_opened_as_the_settings_say(tmp_path: Path) -> None:
    config = StoreConfig(root=str(tmp_path), commit_log_segment_bytes=SIZE, message_bytes_max=10)
    commit_log = CommitLog.open(config, now_ms=ManualClock(1_000_000))
    result = commit_log.append(message(b"0123456789"))
    assert stored(commit_log, result).body == b"0123456789"
    with pytest.raises(MessageRefused):
        commit_log.append(message(b"01234567890"))
    assert [path.name for path in tmp_path.iterdir()] == ["commitlog"]


# Any sequence

bodies = st.binary(max_size=3000)
steps = st.one_of(
    st.tuples(st.just("one"), st.lists(bodies, min_size=1, max_size=1)),
    st.tuples(st.just("batch"), st.lists(bodies, min_size=1, max_size=5)),
)


@settings(deadline=None, max_examples=40)
@given(script=st.lists(st.tuples(st.integers(0, 2), st.integers(-10, 10), steps), max_size=25))
def test_whatever_was_appended_is_in_the_log_in_order_and_once(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[int, int, tuple[str, list[bytes]]]]
) -> None:
    clock = ManualClock(1_000_000)
    commit_log = CommitLog(Log(tmp_path_factory.mktemp("log"), SIZE), now_ms=clock)
    expected: list[tuple[int, int, bytes]] = []
    counts = [0, 0, 0]
    for queue_id, clock_step, (kind, contents) in script:
        clock.ms += clock_step
        batch = [message(content, queue_id=queue_id) for content in contents]
        results = commit_log.append_batch(batch) if kind == "batch" else [commit_log.append(batch[0])]
        assert len({result.log_offset // SIZE for result in results}) == 1
        for content, result in zip(contents, results, strict=True):
            assert result.queue_offset == counts[queue_id]
            expected.append((queue_id, counts[queue_id], content))
            counts[queue_id] += 1
    records = all_records(commit_log)
    assert [(record.queue_id, record.queue_offset, record.body) for record in records] == expected
    times = [record.store_timestamp_ms for record in records]
    assert times == sorted(times)
    for record, following in itertools.pairwise(records):
        end = record.log_offset + record.size
        assert following.log_offset in (end, -(-end // SIZE) * SIZE)
    commit_log.log.close()
