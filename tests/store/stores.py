"""Small stores for tests: short files, a clock that stands still, and ways to look at everything in them."""

import shutil
from pathlib import Path

import msgspec

from hanabi.store.config import StoreConfig
from hanabi.store.indexer import Hooks
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore
from hanabi.store.read.queue_reader import GetResult
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import Record, decode_records
from tests.store.opened import opened

HOST = encode_host("127.0.0.1", 10911)
SEGMENT_BYTES = 4_096
QUEUE_FILE_BYTES = 200  # ten entries
MEMORY_BYTES = 1 << 30


def small_config(root: Path, **settings: object) -> StoreConfig:
    """Files so short that a few messages fill them."""
    plain = StoreConfig(
        root=str(root),
        commit_log_segment_bytes=SEGMENT_BYTES,
        consume_queue_segment_bytes=QUEUE_FILE_BYTES,
        index_slots=16,
        index_entries=64,
    )
    return msgspec.structs.replace(plain, **settings)


def open_store(
    root: Path,
    *,
    clock: ManualClock | None = None,
    hooks: Hooks | None = None,
    disk_ratio: float = 0.1,
    memory_bytes: int = MEMORY_BYTES,
    **settings: object,
) -> MessageStore:
    """Return a small store, not started: nothing reaches the disk unless the test says so."""
    return opened(
        MessageStore.open(
            small_config(root, **settings),
            now_ms=clock or ManualClock(),
            hooks=hooks,
            disk_ratio=lambda _: disk_ratio,
            memory_bytes=memory_bytes,
        )
    )


def message(
    body: bytes = b"hello",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
    sys_flag: int = 0,
) -> PendingMessage:
    """Return a message, with its properties in plain words."""
    raw = encode_properties(properties or {})
    return PendingMessage(
        topic, queue_id, body, raw, born_timestamp_ms=1, born_host=HOST, store_host=HOST, sys_flag=sys_flag
    )


def records_of(result: GetResult) -> list[Record]:
    """Return the records in a read's answer. Its own figures are checked on the way."""
    records = [record for piece in result.slices for record in decode_records(piece)]
    assert len(records) == result.count
    assert sum(map(len, result.slices)) == result.size
    return records


def read_queue(store: MessageStore, topic: str = "T", queue_id: int = 0, start: int | None = None) -> list[Record]:
    """Return every message of a queue, read as a consumer does."""
    offset = store.reader.min_offset(topic, queue_id) if start is None else start
    records: list[Record] = []
    while offset < store.reader.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, 32)
        assert result.next_offset > offset
        records += records_of(result)
        offset = result.next_offset
    return records


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in read_queue(store, topic, queue_id)]


def copy_as_after_a_kill(store: MessageStore, target: Path) -> Path:
    """Return what is in the files now: what the next process would find if this one were killed."""
    shutil.copytree(store.config.root, target)
    return target
