"""Looking into stores: what is told of Apache's own, of damaged ones, and of one that is being written."""

import os
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanabi.errors import ConfigError, StoreError
from hanabi.store.config import StoreConfig
from hanabi.store.index.index_file import ENTRY as INDEX_ENTRY
from hanabi.store.index.index_file import HEADER, SLOT
from hanabi.store.index.key_hash import key_hash
from hanabi.store.inspection.expected import expected_entries, expected_key_hashes
from hanabi.store.inspection.home import FileReader, StoreHome
from hanabi.store.inspection.index_files import find_index_files, find_slots
from hanabi.store.inspection.log_scan import Broken, LogScan, Whole
from hanabi.store.inspection.messages import Wanted, find_messages
from hanabi.store.inspection.overview import Overview, QueueInfo, survey
from hanabi.store.inspection.raw_entries import index_entries, queue_entries
from hanabi.store.inspection.verify.damage import Damage
from hanabi.store.inspection.verify.verify import VerifyReport, verify
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES
from hanabi.store.queues.consume_queue_ext import UNIT
from hanabi.wire.delay_levels import parse_delay_levels
from hanabi.wire.message import sysflag
from hanabi.wire.message.record import decode_dispatch, decode_records, encode_record
from tests.golden_records import STORES, golden_logs, golden_store
from tests.store.sample_stores import (
    FIRST_STORED_MS,
    HOST,
    LOG_FILE_BYTES,
    delayed_store,
    flip,
    make_store,
    overwrite,
    snapshot,
    unpack_golden,
    write_queue,
)

CLEAN, CRASHED = STORES
LOG = "commitlog/00000000000000000000"
GOLDEN_2 = "consumequeue/Golden/2/00000000000000000000"
GOLDEN_END = 9512  # of the log
SECOND_OF_GOLDEN_1 = 1140  # where that record lies: 228 bytes of head, a body of 7, and the rest
BODY_AT = 88
GOLDEN_QUEUES = {
    ("%DLQ%cg_golden", 0): 3,
    ("%RETRY%cg_golden", 0): 3,
    ("Golden", 0): 5,
    ("Golden", 1): 3,
    ("Golden", 2): 7,
    ("Golden", 3): 2,
    ("GoldenTx", 0): 1,
    ("GoldenTx", 2): 1,
    ("RMQ_SYS_TRANS_HALF_TOPIC", 0): 4,
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0): 3,
    ("SCHEDULE_TOPIC_XXXX", 0): 4,
}


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Return a copy of the store that was stopped cleanly."""
    return unpack_golden(CLEAN, tmp_path)


def check(root: Path, **options: str) -> VerifyReport:
    """Verify, and make sure that nothing was touched."""
    before = snapshot(root)
    report = verify(StoreHome.open(root), **options)  # type: ignore[arg-type]
    assert snapshot(root) == before
    assert report.clean == (not report.damage) == (not report.damage_count)
    return report


def look(root: Path) -> Overview:
    before = snapshot(root)
    overview = survey(StoreHome.open(root))
    assert snapshot(root) == before
    return overview


def bodies(root: Path, **wanted: object) -> list[int]:
    """Return the numbers that the messages of a made store carry."""
    found = find_messages(StoreHome.open(root), Wanted(**wanted), pytest.fail)  # type: ignore[arg-type]
    return [int(record.body) for record in found]


def only(report: VerifyReport) -> Damage:
    (damage,) = report.damage
    return damage


# ---- Apache's stores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_apache_is_described_with_its_own_numbers(tmp_path: Path, name: str) -> None:
    store = look(unpack_golden(name, tmp_path))
    files = 1 if name == CLEAN else 2
    assert store.abort == (name == CRASHED)
    assert store.lock
    assert (store.log.min_offset, store.log.max_offset, store.log.bytes) == (0, GOLDEN_END, files * 65_536)
    assert (store.log.earliest_stored_ms, store.log.latest_stored_ms) == (1794725147138, 1794725149539)
    assert store.log.ends_with is None
    ranges = [(file.name, file.bytes, file.min_offset, file.max_offset) for file in store.log.files]
    assert ranges[0] == ("00000000000000000000", 65_536, 0, GOLDEN_END)
    assert ranges[1:] == [("00000000000000065536", 65_536, 65_536, 65_536)][: files - 1]
    assert store.topics == 7
    assert store.queues == [
        QueueInfo(topic, queue_id, 0, count, count, 1, 2_000) for (topic, queue_id), count in GOLDEN_QUEUES.items()
    ]
    (index,) = store.index
    assert (index.bytes, index.entries, index.min_log_offset, index.max_log_offset) == (8_440, 52, 0, 9_047)
    assert (index.begin_ms, index.end_ms) == (1794725147138, 1794725149539)
    assert store.checkpoint is not None
    assert msgspec.structs.astuple(store.checkpoint) == (1794725149539, 1794725149539, 0, None)
    assert {table.name: table.bytes for table in store.config} == {
        path.removeprefix("config/"): len(content)
        for path, content in golden_store(name).items()
        if path.startswith("config/")
    }
    assert not any(table.problem for table in store.config)


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_apache_has_no_damage(tmp_path: Path, name: str) -> None:
    report = check(unpack_golden(name, tmp_path))
    assert report.clean
    assert (report.log.records, report.log.min_offset, report.log.max_offset) == (36, 0, GOLDEN_END)
    assert (report.log.files, report.log.broken) == (1 if name == CLEAN else 2, 0)
    assert msgspec.structs.astuple(report.queues) == (11, 36, 0, 0, 0, 0)
    assert msgspec.structs.astuple(report.index) == (1, 52, 0, 41)


@pytest.mark.parametrize("name", STORES)
def test_every_message_of_apache_is_found_in_the_order_of_the_log(tmp_path: Path, name: str) -> None:
    home = StoreHome.open(unpack_golden(name, tmp_path))
    expected = decode_records(golden_logs(name)[0][:GOLDEN_END])
    assert list(find_messages(home, Wanted(), pytest.fail)) == expected
    for (topic, queue_id), count in GOLDEN_QUEUES.items():
        found = list(find_messages(home, Wanted(topic=topic, queue_id=queue_id), pytest.fail))
        assert found == [record for record in expected if (record.topic, record.queue_id) == (topic, queue_id)]
        assert len(found) == count


# ---- damage in the log -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "mask", "reason"),
    [
        (BODY_AT + 3, 0x20, "its body has CRC"),
        (3, 0x01, "size 229, but its parts end at 228"),
        (0, 0x40, "size 1073742052, 64396 bytes left in the file"),
        (0, 0x80, "size -2147483420"),
        (4, 0x01, "unknown magic 0xdba320a7"),
        (8, 0x01, "its body has CRC"),
        (35, 0x01, "the record says that it lies at log offset 1141"),
        (84, 0x40, "body of 1073741831 bytes in a record of 228"),
    ],
)
def test_a_flipped_bit_costs_one_record_and_is_found_where_it_is(golden: Path, at: int, mask: int, reason: str) -> None:
    flip(golden / LOG, SECOND_OF_GOLDEN_1 + at, mask)
    report = check(golden)
    assert (report.log.records, report.log.broken, report.log.broken_bytes) == (35, 1, 228)
    assert report.log.max_offset == GOLDEN_END
    damage = report.damage[0]
    assert (damage.kind, damage.file, damage.position, damage.log_offset) == ("commitlog", LOG, 1140, 1140)
    assert reason in damage.reason
    # Who points at it is told too, where it cannot even be recognised as that message.
    followers = {"consumequeue/Golden/1/00000000000000000000", "index/20261115064547147"}
    assert {other.file for other in report.damage[1:]} == (set() if "CRC" in reason else followers)
    store = look(golden)
    assert store.log.max_offset == SECOND_OF_GOLDEN_1
    assert store.log.ends_with is not None
    assert reason in store.log.ends_with


@pytest.mark.parametrize(("at", "field"), [(15, "queue id"), (27, "queue offset")])
def test_a_record_that_says_it_is_of_another_place_in_a_queue_is_found(golden: Path, at: int, field: str) -> None:
    flip(golden / LOG, SECOND_OF_GOLDEN_1 + at, 0x40)
    report = check(golden)
    assert not report.clean, field
    place = [(damage.file, damage.position) for damage in report.damage]
    assert ("consumequeue/Golden/1/00000000000000000000", ENTRY_BYTES) in place


def test_a_page_of_zeros_in_the_log_is_damage_when_records_follow(golden: Path) -> None:
    overwrite(golden / LOG, 1140, bytes(460))  # two records of 228 and 232, but for their last bytes
    report = check(golden)
    damage = report.damage[0]
    assert (damage.file, damage.position, damage.reason) == (LOG, 1140, "nothing is written here")
    assert (report.log.records, report.log.broken_bytes) == (34, 460)


def test_zeros_up_to_the_end_are_the_end_of_the_log_and_its_queues_say_more(golden: Path) -> None:
    overwrite(golden / LOG, 8701, bytes(GOLDEN_END - 8701))  # the last three records
    report = check(golden)
    assert (report.log.records, report.log.max_offset, report.log.broken) == (33, 8701, 0)
    assert {(damage.file, damage.position, damage.queue_offset) for damage in report.damage} == {
        ("consumequeue/GoldenTx/0/00000000000000000000", 0, 0),
        ("consumequeue/RMQ_SYS_TRANS_HALF_TOPIC/0/00000000000000000000", 60, 3),
        ("consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0/00000000000000000000", 40, 2),
        ("index/20261115064547147", 1460, None),  # entry 51
    }
    assert look(golden).log.max_offset == 8701


@pytest.mark.parametrize("size", [4, 7, 8, 87, 88, 90])
def test_a_torn_last_record_is_the_end_and_is_told(golden: Path, size: int) -> None:
    last = 9377  # 135 bytes
    content = (golden / LOG).read_bytes()[last : last + size]
    overwrite(golden / LOG, last, content.ljust(135, b"\0"))
    report = check(golden)
    assert (report.log.records, report.log.max_offset) == (35, last)
    assert (report.damage[0].file, report.damage[0].position) == (LOG, last)
    assert look(golden).log.max_offset == last


@pytest.mark.parametrize("size", [5_000, 1_140, 1_141, 1_147])
def test_a_log_file_that_was_cut_is_damaged_at_its_end(golden: Path, size: int) -> None:
    os.truncate(golden / LOG, size)
    report = check(golden)
    damage = report.damage[0]
    assert (damage.kind, damage.file) == ("commitlog", LOG)
    assert damage.position == (4_864 if size == 5_000 else 1_140)
    assert report.log.records < 36


def test_an_empty_log_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert check(tmp_path).clean
    (tmp_path / LOG).write_bytes(bytes(4_096))
    assert check(tmp_path).clean
    store = look(tmp_path)
    assert (store.log.max_offset, store.log.earliest_stored_ms, store.checkpoint) == (0, None, None)


def test_a_store_of_many_files_is_read_across_their_borders(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    report = check(tmp_path)
    assert report.clean, report.damage
    assert report.log.files == 5
    assert report.log.records == report.queues.entries == 60
    assert report.index.entries == 180
    assert bodies(tmp_path) == list(range(60))
    store = look(tmp_path)
    assert [(queue.min_offset, queue.max_offset, queue.files) for queue in store.queues] == [(0, 30, 3), (0, 30, 3)]
    assert store.log.latest_stored_ms == FIRST_STORED_MS + 59_000
    assert store.log.files[1].first_stored_ms == FIRST_STORED_MS + 12_000


def test_a_zero_tail_in_an_old_file_is_damage_and_the_log_goes_on_behind_it(tmp_path: Path) -> None:
    places = make_store(tmp_path, 60)
    second = tmp_path / "commitlog" / f"{LOG_FILE_BYTES:020d}"
    start = places[15] - LOG_FILE_BYTES
    overwrite(second, start, bytes(LOG_FILE_BYTES - start))
    report = check(tmp_path)
    damage = report.damage[0]
    assert (damage.file, damage.position) == (f"commitlog/{second.name}", start)
    assert damage.log_offset == places[15]
    assert report.log.broken == 1
    assert report.log.records == 60 - 9  # those of the tail
    assert report.log.max_offset > places[-1]


def test_the_first_damage_of_each_file_is_told_and_all_are_counted(tmp_path: Path) -> None:
    places = make_store(tmp_path, 60)
    for number in (3, 5, 14):
        file, position = divmod(places[number], LOG_FILE_BYTES)
        flip(tmp_path / "commitlog" / f"{file * LOG_FILE_BYTES:020d}", position + BODY_AT)
    report = check(tmp_path)
    assert [(damage.log_offset, damage.count) for damage in report.damage] == [(places[3], 2), (places[14], 1)]
    assert (report.damage_count, report.log.broken, report.log.records) == (3, 3, 57)


def test_a_missing_log_file_is_named(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    (tmp_path / "commitlog" / f"{2 * LOG_FILE_BYTES:020d}").unlink()
    damage = check(tmp_path).damage[0]
    assert damage.file == f"commitlog/{2 * LOG_FILE_BYTES:020d}"
    assert "missing" in damage.reason


def test_a_log_file_of_another_size_is_named(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    os.truncate(tmp_path / "commitlog" / f"{LOG_FILE_BYTES:020d}", 3_000)
    report = check(tmp_path)
    damage = next(damage for damage in report.damage if damage.file == f"commitlog/{LOG_FILE_BYTES:020d}")
    assert damage.count == 2  # the record that was cut, and the size
    assert damage.position < 3_000


def test_what_retention_deleted_is_no_damage(tmp_path: Path) -> None:
    places = make_store(tmp_path, 60)
    (tmp_path / LOG).unlink()
    (tmp_path / "commitlog" / f"{LOG_FILE_BYTES:020d}").unlink()
    first = next(number for number, place in enumerate(places) if place >= 2 * LOG_FILE_BYTES)
    report = check(tmp_path)
    assert report.clean, report.damage
    assert (report.queues.expired, report.queues.entries) == (first, 60 - first)
    assert report.index.expired == 3 * first
    assert report.log.min_offset == 2 * LOG_FILE_BYTES
    assert [queue.min_offset for queue in look(tmp_path).queues] == [first // 2, first // 2]
    assert bodies(tmp_path, topic="T", queue_id=0) == list(range(first, 60, 2))


# ---- damage in the queues --------------------------------------------------------------------------------------------


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60, deadline=None
)
@given(bit=st.integers(0, 8 * 7 * ENTRY_BYTES - 1))
def test_any_bit_that_changes_in_a_queue_is_found_at_its_entry(golden: Path, bit: int) -> None:
    path = golden / GOLDEN_2
    original = path.read_bytes()
    try:
        flip(path, bit // 8, 1 << bit % 8)
        damage = only(check(golden))
    finally:
        path.write_bytes(original)
    number = bit // 8 // ENTRY_BYTES
    assert (damage.kind, damage.file) == ("consumequeue", GOLDEN_2)
    assert (damage.position, damage.queue_offset) == (number * ENTRY_BYTES, number)


def test_an_entry_that_points_at_another_message_is_found(golden: Path) -> None:
    content = (golden / GOLDEN_2).read_bytes()
    overwrite(golden / GOLDEN_2, 2 * ENTRY_BYTES, content[3 * ENTRY_BYTES : 4 * ENTRY_BYTES])
    damage = only(check(golden))
    assert (damage.position, damage.queue_offset) == (40, 2)
    assert "there lies message 3 of Golden/2" in damage.reason


def test_entries_that_are_missing_before_others_are_found(golden: Path) -> None:
    overwrite(golden / GOLDEN_2, 3 * ENTRY_BYTES, bytes(2 * ENTRY_BYTES))
    damage = only(check(golden))
    assert (damage.file, damage.position) == (GOLDEN_2, 60)


@pytest.mark.parametrize(("name", "is_clean"), [(CLEAN, False), (CRASHED, True)])
def test_entries_missing_at_the_end_are_damage_unless_the_store_was_not_stopped(
    tmp_path: Path, name: str, is_clean: bool
) -> None:
    root = unpack_golden(name, tmp_path)
    overwrite(root / GOLDEN_2, 5 * ENTRY_BYTES, bytes(2 * ENTRY_BYTES))
    report = check(root)
    assert report.clean == is_clean
    assert report.queues.pending == (2 if is_clean else 0)
    if not is_clean:
        damage = only(report)
        assert (damage.file, damage.position, damage.queue_offset) == (GOLDEN_2, 100, 5)
        assert "has no entry (nor have 1 later ones)" in damage.reason


def test_a_queue_that_is_gone_is_missed(golden: Path) -> None:
    shutil.rmtree(golden / "consumequeue/Golden/3")
    damage = only(check(golden))
    assert (damage.file, damage.position) == ("consumequeue/Golden/3/00000000000000000000", 0)
    assert damage.log_offset == 684


def test_a_queue_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    (tmp_path / "consumequeue/T/1/00000000000000000200").unlink()
    damage = only(check(tmp_path))
    assert (damage.file, damage.queue_offset) == ("consumequeue/T/1/00000000000000000200", 10)


def test_the_first_queue_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    (tmp_path / "consumequeue/T/1/00000000000000000000").unlink()
    damage = only(check(tmp_path))
    assert (damage.file, damage.queue_offset) == ("consumequeue/T/1/00000000000000000000", 0)


def test_a_queue_file_that_was_cut_is_found(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    os.truncate(tmp_path / "consumequeue/T/1/00000000000000000200", 50)
    damage = only(check(tmp_path))
    assert damage.file == "consumequeue/T/1/00000000000000000200"
    assert damage.position == 40


def test_blank_entries_before_the_first_message_are_no_damage(tmp_path: Path) -> None:
    make_store(tmp_path, 30, first_queue_offset=107)
    report = check(tmp_path)
    assert report.clean, report.damage
    assert report.queues.blank == 14
    assert [(queue.min_offset, queue.max_offset) for queue in look(tmp_path).queues] == [(107, 122), (107, 122)]
    assert bodies(tmp_path, topic="T", queue_id=1) == list(range(1, 30, 2))


def test_messages_of_a_deleted_topic_need_no_queue(golden: Path) -> None:
    shutil.rmtree(golden / "consumequeue/Golden")
    topics = golden / "config/topics.json"
    topics.write_bytes(topics.read_bytes().replace(b'"Golden"', b'"Other"'))
    report = check(golden)
    assert report.clean, report.damage
    assert report.queues.deleted == 17


def test_messages_of_a_topic_that_was_made_again_need_no_entry(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    log = tmp_path / "commitlog" / f"{5 * LOG_FILE_BYTES:020d}"
    again = encode_record(
        topic=b"T",
        body=b"60",
        queue_id=0,
        queue_offset=0,
        log_offset=5 * LOG_FILE_BYTES,
        born_timestamp_ms=FIRST_STORED_MS + 90_000,
        born_host=HOST,
        store_timestamp_ms=FIRST_STORED_MS + 90_000,
        store_host=HOST,
    )
    last = tmp_path / "commitlog" / f"{4 * LOG_FILE_BYTES:020d}"
    used = sum(piece.dispatch.size for piece in scan(tmp_path) if piece.dispatch.log_offset >= 4 * LOG_FILE_BYTES)
    overwrite(last, used, struct.pack(">iI", LOG_FILE_BYTES - used, 0xCBD43194))
    log.write_bytes(bytes(again).ljust(LOG_FILE_BYTES, b"\0"))
    shutil.rmtree(tmp_path / "consumequeue/T/0")
    write_queue(tmp_path / "consumequeue/T/0", 0, [ENTRY.pack(5 * LOG_FILE_BYTES, len(again), 0)])
    report = check(tmp_path)
    assert report.clean, report.damage
    assert report.queues.deleted == 30


def scan(root: Path) -> list[Whole]:
    with FileReader() as reader:
        return [piece for piece in LogScan(StoreHome.open(root).log_files(), reader) if isinstance(piece, Whole)]


def test_the_delay_topic_keeps_delivery_times_by_the_brokers_levels(golden: Path) -> None:
    assert check(golden, delay_levels="1s").clean
    damage = only(check(golden, delay_levels="2s 5s"))
    assert (damage.file, damage.position) == ("consumequeue/SCHEDULE_TOPIC_XXXX/0/00000000000000000000", 0)
    assert damage.count == 4


@pytest.mark.parametrize("levels", ["1s 5s 10s", "7s 9d"])
def test_a_store_is_not_damaged_because_its_broker_had_other_delay_levels(tmp_path: Path, levels: str) -> None:
    root = delayed_store(tmp_path, parse_delay_levels(levels).delays_ms, [1, 2, 1])
    assert check(root).clean
    assert check(root, delay_levels=levels).clean
    assert check(root, delay_levels="8s 2s").damage_count == 3


def test_a_store_is_not_damaged_because_its_brokers_clock_was_behind(tmp_path: Path) -> None:
    assert check(delayed_store(tmp_path, (1_000,), [1], behind_ms=3_600_001)).clean


@pytest.mark.parametrize("code", [0, 2_601, FIRST_STORED_MS ^ 1 << 40, -5 - 2**31])
def test_what_is_no_time_of_delivery_is_found_without_the_levels(tmp_path: Path, code: int) -> None:
    root = delayed_store(tmp_path, (7_000,), [1, 1])
    queue = root / "consumequeue/SCHEDULE_TOPIC_XXXX/0/00000000000000000000"
    log_offset, size, _ = ENTRY.unpack_from(queue.read_bytes(), ENTRY_BYTES)
    overwrite(queue, ENTRY_BYTES, ENTRY.pack(log_offset, size, code))
    damage = only(check(root))
    assert (damage.queue_offset, damage.count) == (1, 1)
    assert damage.reason.endswith("tags code a time of delivery")


def test_the_extension_of_a_queue_is_looked_up(tmp_path: Path) -> None:
    places = make_store(tmp_path, 4, queues=1)
    code = 65  # the hash of "A"
    units = UNIT.pack(UNIT.size + 2, code, 0, 2) + b"ab" + UNIT.pack(UNIT.size, code, 0, 0) + UNIT.pack(20, 66, 0, 0)
    directory = tmp_path / "consumequeue_ext/T/0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}").write_bytes(units.ljust(1_024, b"\0"))
    queue = tmp_path / "consumequeue/T/0/00000000000000000000"
    for number, position in enumerate((0, UNIT.size + 2)):
        _, size, _ = ENTRY.unpack_from(queue.read_bytes(), number * ENTRY_BYTES)
        overwrite(queue, number * ENTRY_BYTES, ENTRY.pack(places[number], size, position - 2**63))
    assert check(tmp_path).clean
    _, size, _ = ENTRY.unpack_from(queue.read_bytes(), 2 * ENTRY_BYTES)
    overwrite(queue, 2 * ENTRY_BYTES, ENTRY.pack(places[2], size, 2 * UNIT.size + 2 - 2**63))
    assert only(check(tmp_path)).queue_offset == 2


# ---- damage in the index and the small files -------------------------------------------------------------------------

INDEX = "index/20261115064547147"
SLOTS_AT = HEADER.size
ENTRIES_AT = SLOTS_AT + 100 * SLOT.size


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=80, deadline=None
)
@given(number=st.integers(1, 52), bit=st.integers(0, 8 * INDEX_ENTRY.size - 1))
def test_any_bit_that_changes_in_an_index_entry_is_found(golden: Path, number: int, bit: int) -> None:
    path = golden / INDEX
    original = path.read_bytes()
    position = ENTRIES_AT + number * INDEX_ENTRY.size
    is_link = bit // 8 >= 16
    is_ignored = number == 1 and 12 <= bit // 8 < 16  # the first entry's seconds say nothing
    try:
        flip(path, position + bit // 8, 1 << bit % 8)
        report = check(golden)
    finally:
        path.write_bytes(original)
    if is_ignored:
        assert report.clean
        return
    damage = only(report)
    assert (damage.kind, damage.file) == ("index", INDEX)
    if not is_link and 1 < number < 52:
        assert damage.position <= position
        assert f"entry {number} " in damage.reason or damage.count > 1


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60, deadline=None
)
@given(slot=st.integers(0, 99), bit=st.integers(0, 31))
def test_any_bit_that_changes_in_an_index_slot_is_found(golden: Path, slot: int, bit: int) -> None:
    path = golden / INDEX
    original = path.read_bytes()
    position = SLOTS_AT + slot * SLOT.size + bit // 8
    try:
        flip(path, position, 1 << bit % 8)
        report = check(golden)
    finally:
        path.write_bytes(original)
    (newest,) = SLOT.unpack_from(original, SLOTS_AT + slot * SLOT.size)
    changed = newest ^ (1 << 24 - bit // 8 * 8 + bit % 8)
    # A slot that points at an entry not counted yet is what a broker leaves when it dies in between.
    if newest == 0 and 52 < changed < 400:
        assert report.clean
    else:
        assert only(report).file == INDEX


@pytest.mark.parametrize(
    ("at", "name"), [(7, "begin time"), (15, "end time"), (23, "begin"), (31, "end"), (39, "count")]
)
def test_a_header_of_the_index_that_does_not_fit_its_entries_is_found(golden: Path, at: int, name: str) -> None:
    flip(golden / INDEX, at, 0x04)
    assert only(check(golden)).file == INDEX, name


def test_an_index_that_fits_no_layout_is_one_damage(tmp_path: Path) -> None:
    make_store(tmp_path, 20, slots=11)
    (path,) = (tmp_path / "index").iterdir()
    flip(path, 31)
    damage = only(check(tmp_path))
    assert "its number of slots is unknown" in damage.reason


@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("slots", [1, 2, 7, 11, 250, 1_000])
def test_the_number_of_slots_is_found_out_from_the_file(tmp_path: Path, slots: int, count: int) -> None:
    make_store(tmp_path, count, slots=slots)
    with FileReader() as reader:
        (file,) = find_index_files(tmp_path / "index", reader)
        known: dict[int, int] = {}
        assert find_slots(file, reader, known) == slots
        assert known == {file.size: slots}
    assert check(tmp_path).clean


def test_an_entry_that_was_not_counted_yet_is_no_damage(golden: Path) -> None:
    data = bytearray((golden / INDEX).read_bytes())
    hashed_key, log_offset, seconds, _ = INDEX_ENTRY.unpack_from(data, ENTRIES_AT + 52 * INDEX_ENTRY.size)
    INDEX_ENTRY.pack_into(data, ENTRIES_AT + 53 * INDEX_ENTRY.size, hashed_key, log_offset, seconds, 52)
    SLOT.pack_into(data, SLOTS_AT + hashed_key % 100 * SLOT.size, 53)
    (golden / INDEX).write_bytes(data)
    assert check(golden).clean


@pytest.mark.parametrize("content", [b"", b"\xff" * 4_096, bytes(100)])
def test_a_damaged_checkpoint_is_named(golden: Path, content: bytes) -> None:
    (golden / "checkpoint").write_bytes(content)
    damage = only(check(golden))
    assert (damage.kind, damage.file) == ("checkpoint", "checkpoint")
    store = look(golden)
    assert store.checkpoint is not None
    assert store.checkpoint.problem == damage.reason


def test_a_table_that_cannot_be_read_is_named(golden: Path) -> None:
    path = golden / "config/consumerOffset.json"
    path.write_bytes(path.read_bytes()[:-20])
    damage = only(check(golden))
    assert (damage.kind, damage.file) == ("config", "config/consumerOffset.json")
    assert [table.name for table in look(golden).config if table.problem] == ["consumerOffset.json"]


# ---- what should be there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "1", "s", "1w", "-1s", "1s,2s"])
def test_delay_levels_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Level"):
        parse_delay_levels(text)


def test_transactions_that_are_not_committed_are_in_no_queue() -> None:
    def dispatch(sys_flag: int) -> tuple[int, int]:
        record = encode_record(
            topic=b"T",
            body=b"",
            properties=b"KEYS\x01a b",
            queue_id=0,
            sys_flag=sys_flag,
            born_timestamp_ms=0,
            born_host=HOST,
            store_host=HOST,
        )
        dispatch = decode_dispatch(record)
        return len(expected_entries(dispatch, (1,))), len(expected_key_hashes(dispatch))

    assert dispatch(sysflag.TRANSACTION_NONE) == dispatch(sysflag.TRANSACTION_COMMIT) == (1, 2)
    assert dispatch(sysflag.TRANSACTION_PREPARED) == (0, 2)
    assert dispatch(sysflag.TRANSACTION_ROLLBACK) == (0, 0)


def test_a_message_may_be_in_light_queues_too(tmp_path: Path) -> None:
    record = encode_record(
        topic=b"T",
        body=b"0",
        properties=b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,3",
        queue_id=2,
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=1,
        store_host=HOST,
    )
    (tmp_path / "commitlog").mkdir()
    (tmp_path / LOG).write_bytes(bytes(record).ljust(1_000, b"\0"))
    entry = ENTRY.pack(0, len(record), 0)
    write_queue(tmp_path / "consumequeue/T/2", 0, [entry])
    assert check(tmp_path).clean  # the broker's settings may be against it
    write_queue(tmp_path / "consumequeue/%LMQ%a/0", 0, [entry])
    write_queue(tmp_path / "consumequeue/%LMQ%b/0", 3, [entry])
    assert check(tmp_path).clean
    assert bodies(tmp_path, topic="%LMQ%b", queue_id=0) == [0]
    write_queue(tmp_path / "consumequeue/%LMQ%c/0", 0, [entry])
    assert only(check(tmp_path)).file.startswith("consumequeue/%LMQ%c/")


# ---- choosing messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, range(60)),
        ({"count": 3}, range(3)),
        ({"count": 0}, range(0)),
        ({"topic": "T", "count": 2}, range(2)),
        ({"queue_id": 1}, range(1, 60, 2)),
        ({"queue_offset": 28}, range(56, 60)),
        ({"topic": "T", "queue_id": 1, "queue_offset": 28}, range(57, 60, 2)),
        ({"topic": "T", "queue_id": 1, "queue_offset": 28, "count": 1}, [57]),
        ({"key": "k7"}, [7]),
        ({"key": "U7"}, [7]),
        ({"key": "both", "count": 2}, range(2)),
        ({"key": "k"}, range(0)),
        ({"topic": "T", "queue_id": 1, "key": "k7"}, [7]),
        ({"from_ms": FIRST_STORED_MS + 40_000}, range(40, 60)),
        ({"from_ms": FIRST_STORED_MS + 40_001, "to_ms": FIRST_STORED_MS + 45_000}, range(41, 45)),
        ({"to_ms": FIRST_STORED_MS}, range(0)),
        ({"topic": "T", "queue_id": 0, "from_ms": FIRST_STORED_MS + 40_001}, range(42, 60, 2)),
        ({"topic": "T", "queue_id": 0, "to_ms": FIRST_STORED_MS + 4_000}, range(0, 4, 2)),
        ({"log_offset": 1, "count": 1}, [1]),
        ({"log_offset": LOG_FILE_BYTES - 1, "count": 1}, [12]),
        ({"log_offset": LOG_FILE_BYTES, "count": 1}, [12]),
        ({"log_offset": 10**9}, range(0)),
        ({"topic": "T", "queue_id": 1, "log_offset": LOG_FILE_BYTES}, range(13, 60, 2)),
    ],
)
def test_messages_are_chosen_by_what_is_asked_for(tmp_path: Path, wanted: dict[str, object], numbers: range) -> None:
    make_store(tmp_path, 60)
    assert bodies(tmp_path, **wanted) == list(numbers)


def test_a_broken_record_is_passed_over_and_named(tmp_path: Path) -> None:
    places = make_store(tmp_path, 10)
    flip(tmp_path / LOG, places[4] + BODY_AT)
    home = StoreHome.open(tmp_path)
    told: list[str] = []
    found = [int(record.body) for record in find_messages(home, Wanted(), told.append)]
    assert found == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(told) == 1
    assert f"log offset {places[4]} to {places[5]}" in told[0]
    told.clear()
    found = [int(record.body) for record in find_messages(home, Wanted(topic="T", queue_id=0), told.append)]
    assert found == [0, 2, 6, 8]
    assert told == [f"message 2 of T/0: no valid record lies at log offset {places[4]}"]


def test_a_message_that_an_entry_wrongly_points_at_is_never_shown(tmp_path: Path) -> None:
    places = make_store(tmp_path, 10)
    overwrite(tmp_path / "consumequeue/T/0/00000000000000000000", ENTRY_BYTES, places[4].to_bytes(8, "big"))
    told: list[str] = []
    wanted = Wanted(topic="T", queue_id=0)
    found = [int(record.body) for record in find_messages(StoreHome.open(tmp_path), wanted, told.append)]
    assert found == [0, 4, 6, 8]
    assert told == [f"message 1 of T/0: another message lies at log offset {places[4]}"]


def test_a_queue_that_is_not_there_is_an_error(golden: Path) -> None:
    for read in (queue_entries, lambda home, wanted: find_messages(home, wanted, pytest.fail)):
        with pytest.raises(StoreError, match="has no queue Golden/9"):
            list(read(StoreHome.open(golden), Wanted(topic="Golden", queue_id=9)))
        with pytest.raises(StoreError, match="has no queue of topic Other"):
            list(read(StoreHome.open(golden), Wanted(topic="Other")))
        assert not list(read(StoreHome.open(golden), Wanted(topic="Golden", log_offset=10**9)))  # a topic, no messages


def test_entries_are_shown_as_they_are_stored(golden: Path) -> None:
    home = StoreHome.open(golden)
    lines = list(queue_entries(home, Wanted(topic="Golden", queue_id=3)))
    assert [msgspec.structs.astuple(line) for line in lines] == [
        ("Golden", 3, 0, 684, 228, 2598919),
        ("Golden", 3, 1, 1600, 201, 2598920),
    ]
    assert len(list(queue_entries(home, Wanted()))) == 36
    assert [line.queue_offset for line in queue_entries(home, Wanted(topic="Golden", queue_offset=6))] == [6]
    entries = list(index_entries(home, Wanted()))
    assert len(entries) == 52
    assert (entries[0].number, entries[0].log_offset, entries[0].stored_ms) == (1, 0, 1794725147138)
    (found,) = index_entries(home, Wanted(topic="Golden", key="key1"))
    assert (found.log_offset, found.key_hash) == (228, key_hash("Golden#key1"))


# ---- a store that changes while we look ------------------------------------------------------------------------------


class Meddling(FileReader):
    """Does something before a given read, as a running broker would."""

    def __init__(self, at_read: int, act: Callable[[], None]) -> None:
        super().__init__()
        self._reads_left, self._act = at_read, act

    def read(self, path: str, position: int, size: int) -> bytes:
        if self._reads_left == 0:
            self._act()
        self._reads_left -= 1
        return super().read(path, position, size)


@pytest.mark.parametrize("written", [10, 50, 100, 300])
def test_a_record_that_was_half_written_when_it_was_read_is_no_damage(tmp_path: Path, written: int) -> None:
    places = make_store(tmp_path, 6)
    whole = (tmp_path / LOG).read_bytes()
    overwrite(tmp_path / LOG, places[5] + written, bytes(LOG_FILE_BYTES - places[5] - written))
    with Meddling(1, lambda: overwrite(tmp_path / LOG, 0, whole)) as reader:
        pieces = list(LogScan(StoreHome.open(tmp_path).log_files(), reader))
    assert [type(piece) for piece in pieces] == [Whole] * 6


@pytest.mark.parametrize("at_read", [1, 2])
def test_records_written_behind_the_end_that_was_read_are_no_damage(tmp_path: Path, at_read: int) -> None:
    places = make_store(tmp_path, 9)
    whole = (tmp_path / LOG).read_bytes()
    overwrite(tmp_path / LOG, places[5], bytes(LOG_FILE_BYTES - places[5]))
    with Meddling(at_read, lambda: overwrite(tmp_path / LOG, 0, whole)) as reader:
        log = LogScan(StoreHome.open(tmp_path).log_files(), reader)
        assert [type(piece) for piece in log] == [Whole] * 9
    assert log.end_offset > places[8]


def test_a_file_that_is_deleted_while_we_look_is_no_damage(tmp_path: Path) -> None:
    places = make_store(tmp_path, 60)
    with FileReader() as reader:
        files = StoreHome.open(tmp_path).log_files()
        (tmp_path / LOG).unlink()
        log = LogScan(files, reader)
        pieces = list(log)
    assert [type(piece) for piece in pieces] == [Whole] * sum(place >= LOG_FILE_BYTES for place in places)
    assert log.min_offset == LOG_FILE_BYTES


def test_a_file_that_is_cut_while_we_look_is_damage_and_not_a_signal(tmp_path: Path) -> None:
    places = make_store(tmp_path, 9)
    with FileReader() as reader:
        files = StoreHome.open(tmp_path).log_files()
        os.truncate(tmp_path / LOG, places[3])
        pieces = list(LogScan(files, reader))
    assert [type(piece) for piece in pieces] == [Whole] * 3 + [Broken]
    assert isinstance(pieces[-1], Broken)
    assert (pieces[-1].log_offset, pieces[-1].reason) == (places[3], "the file ends here: it was cut")


def test_a_store_of_ours_can_be_looked_into_while_it_is_written(tmp_path: Path) -> None:
    config = StoreConfig(
        root=str(tmp_path),
        commit_log_segment_bytes=LOG_FILE_BYTES,
        consume_queue_segment_bytes=10 * ENTRY_BYTES,
        index_slots=13,
        index_entries=50,
    )
    with MessageStore.open(config) as store:
        for number in range(100):
            properties = b"TAGS\x01A\x02KEYS\x01k%d" % number
            message = PendingMessage("T", number % 3, b"%0200d" % number, properties, 1, HOST, HOST)
            assert store.put(message).status is PutStatus.PUT_OK
            if number % 7 == 0:
                report = verify(StoreHome.open(tmp_path))
                assert report.clean, report.damage
                assert report.log.records == number + 1
                assert bodies(tmp_path) == list(range(number + 1))
                assert survey(StoreHome.open(tmp_path)).abort
    report = check(tmp_path)
    assert report.clean, report.damage
    assert (report.log.records, report.queues.entries, report.queues.pending) == (100, 100, 0)
    assert (report.index.entries, report.index.files) == (100, 3)
    assert not look(tmp_path).abort


def test_memory_does_not_grow_with_the_store(tmp_path: Path) -> None:
    make_store(tmp_path, 2_500, body_bytes=8_000, log_file_bytes=1 << 20, queue_file_bytes=20_000, queues=3)
    assert sum(file.stat().st_size for file in (tmp_path / "commitlog").iterdir()) > 18_000_000
    home = StoreHome.open(tmp_path)
    tracemalloc.start()
    try:
        report = verify(home)
        assert sum(1 for _ in find_messages(home, Wanted(), pytest.fail)) == 2_500
        survey(home)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.log.records == 2_500
    assert peak < 5_000_000


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    told: list[tuple[str, int, int]] = []
    verify(StoreHome.open(tmp_path), on_progress=lambda *at: told.append(at))
    assert list(dict.fromkeys(part for part, _, _ in told)) == ["commit log", "consume queues", "key index"]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1] == told[-1][2] > 0


def test_what_is_not_a_store_is_said_in_a_sentence(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "does not exist"), (tmp_path, "is not a store: there is no")):
        with pytest.raises(StoreError, match=reason):
            StoreHome.open(path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be read: Not a directory"):
        StoreHome.open(tmp_path / "file")


def test_a_commit_log_elsewhere_is_looked_at(golden: Path, tmp_path: Path) -> None:
    (golden / "commitlog").rename(tmp_path / "log")
    home = StoreHome.open(golden, tmp_path / "log")
    assert verify(home).clean
    assert survey(home).log.max_offset == GOLDEN_END
