"""The stores that Apache RocketMQ 4.9.8 wrote: we open them, find everything in them, and write the same bytes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import Record, RecordState, decode_record, scan_records
from hanabi.wire.message.stored import to_message
from tests.golden_records import STORES, as_pending, golden_logs, golden_store
from tests.store.stores import read_queue

pytestmark = pytest.mark.pure

DELAYS_MS = (1_000, 5_000, 10_000, 30_000, *(minutes * 60_000 for minutes in range(1, 11)))


def deliver_time_ms(level: int, store_ms: int) -> int:
    """Compute as a broker with the default delay levels."""
    return store_ms + DELAYS_MS[level - 1]


def settings(root: Path) -> StoreConfig:
    """Return the sizes that the recorded stores have."""
    return StoreConfig(
        root=str(root),
        commit_log_segment_bytes=65_536,
        consume_queue_segment_bytes=2_000,
        index_slots=100,
        index_entries=400,
    )


def golden_messages(name: str) -> Iterator[Record]:
    """Yield every record of a recorded log, in order, taken from its bytes without the store."""
    for segment in golden_logs(name):
        for position, checked in scan_records(segment):
            if checked.state is RecordState.WHOLE:
                yield decode_record(segment, position)


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def golden(name: str, memory_directory: Path) -> Iterator[MessageStore]:
    for path, content in golden_store(name).items():
        target = memory_directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    with MessageStore.open(settings(memory_directory), hooks=Hooks(deliver_time_ms=deliver_time_ms)) as store:
        yield store


def test_every_message_is_read_from_its_queue_with_the_right_bytes(name: str, golden: MessageStore) -> None:
    expected: dict[tuple[str, int], list[bytes]] = {}
    for record in golden_messages(name):
        expected.setdefault((record.topic, record.queue_id), []).append(record.encode())
    assert set(golden.queues()) == set(expected)
    for (topic, queue_id), records in expected.items():
        assert [record.encode() for record in read_queue(golden, topic, queue_id)] == records
    assert sum(map(len, expected.values())) == 36


def test_every_message_is_found_by_its_offset_id(name: str, golden: MessageStore) -> None:
    for record in golden_messages(name):
        place = decode_offset_id(to_message(record).offset_message_id)
        found = golden.queries.record(place.log_offset)
        assert found is not None
        assert bytes(found) == record.encode()


def test_every_message_is_found_by_each_of_its_keys(name: str, golden: MessageStore) -> None:
    seen = 0
    for record in golden_messages(name):
        message = to_message(record)
        unique = message.properties.get("UNIQ_KEY")
        for key in (*message.keys, *([unique] if unique else [])):
            found = golden.queries.by_key(record.topic, key, 64, 0, 2**62).records
            assert record.encode() in found
            assert all(decode_record(other).topic == record.topic for other in found)
            seen += 1
        if unique:
            assert record.encode() in golden.queries.by_unique_key(record.topic, unique, 64).records
    assert seen > 36


def test_the_queue_offset_of_every_message_is_found_by_its_time(name: str, golden: MessageStore) -> None:
    for record in golden_messages(name):
        offset = golden.queries.offset_by_time(record.topic, record.queue_id, record.store_timestamp_ms)
        assert golden.queries.store_time(record.topic, record.queue_id, offset) == record.store_timestamp_ms


def test_a_golden_store_can_be_written_on(name: str, golden: MessageStore) -> None:
    last = list(golden_messages(name))[-1]
    assert golden.max_log_offset == last.log_offset + last.size
    before = golden.reader.max_offset("Golden", 2)
    again = PendingMessage("Golden", 2, b"more", b"", 1, last.born_host, last.store_host)
    (place,) = golden.put(again).appended
    assert (place.log_offset, place.queue_offset) == (last.log_offset + last.size, before)
    assert read_queue(golden, "Golden", 2)[-1].body == b"more"


def test_nothing_but_reading_changes_no_byte_of_log_queues_and_index(name: str, golden: MessageStore) -> None:
    root = Path(golden.config.root)
    golden.close()
    for path, content in golden_store(name).items():
        if path.startswith(("commitlog", "consumequeue", "config")) and any(content):
            assert (root / path).read_bytes() == content, path
        if path.startswith("index") and name == "store-clean.tar.gz":
            assert (root / path).read_bytes() == content, path


def test_the_same_messages_put_by_us_make_the_same_files(name: str, memory_directory: Path) -> None:
    records = list(golden_messages(name))
    clock = ManualClock(records[0].store_timestamp_ms)
    with MessageStore.open(
        settings(memory_directory), now_ms=clock, hooks=Hooks(deliver_time_ms=deliver_time_ms)
    ) as store:
        for record in records:
            clock.ms = record.store_timestamp_ms
            assert store.put(as_pending(record)).status is PutStatus.PUT_OK
    ours = {
        str(path.relative_to(memory_directory)): path.read_bytes()
        for part in ("commitlog", "consumequeue", "index")
        for path in (memory_directory / part).rglob("*")
        if path.is_file()
    }
    golden = {path: content for path, content in golden_store(name).items() if any(content)}
    for part in ("commitlog", "consumequeue"):
        assert {path: content for path, content in ours.items() if path.startswith(part)} == {
            path: content for path, content in golden.items() if path.startswith(part)
        }
    # An index file is named by the minute in which it was made, in Apache's time zone.
    assert [content for path, content in sorted(ours.items()) if path.startswith("index")] == [
        content for path, content in sorted(golden.items()) if path.startswith("index")
    ]
