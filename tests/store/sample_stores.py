"""Stores for tests to look into: Apache's own on the disk, and small ones of several files made here byte by byte."""

from collections.abc import Sequence
from pathlib import Path

from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Hooks
from hanabi.store.message_store import PutStatus
from hanabi.store.queues.consume_queue import ENTRY
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.record import encode_blank, encode_record
from hanabi.wire.message.tags import tags_code
from hanabi.wire.system_names import SCHEDULE_TOPIC
from tests.golden_records import golden_store
from tests.store.stores import message, open_store

LOG_FILE_BYTES = 4_096
QUEUE_FILE_BYTES = 10 * ENTRY.size
HOST = encode_host("127.0.0.1", 10911)
FIRST_STORED_MS = 1_700_000_000_000

Snapshot = dict[str, tuple[int, bytes]]


def unpack_golden(name: str, directory: Path) -> Path:
    """Return a recorded store in *directory*/store."""
    root = directory / "store"
    for path, content in golden_store(name).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def snapshot(root: Path) -> Snapshot:
    """Return when each file and directory was changed, and what is in it."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (root, *root.rglob("*"))
    }


def make_store(
    root: Path,
    count: int,
    *,
    queues: int = 2,
    body_bytes: int = 200,
    first_queue_offset: int = 0,
    log_file_bytes: int = LOG_FILE_BYTES,
    queue_file_bytes: int = QUEUE_FILE_BYTES,
    slots: int = 7,
) -> list[int]:
    """Return a store that was stopped cleanly: *count* messages of topic T, one a second; returns their log offsets."""
    log = _Log(root / "commitlog", log_file_bytes)
    entries: list[list[bytes]] = [[] for _ in range(queues)]
    index = KeyIndex(root / "index", slots=slots, entries_max=1_000, now_ms=lambda: FIRST_STORED_MS)
    places: list[int] = []
    for number in range(count):
        queue_id = number % queues
        stored_ms = FIRST_STORED_MS + number * 1000
        record = encode_record(
            topic=b"T",
            body=b"%0*d" % (body_bytes, number),
            properties=b"TAGS\x01A\x02KEYS\x01k%d both\x02UNIQ_KEY\x01U%d" % (number, number),
            queue_id=queue_id,
            queue_offset=first_queue_offset + len(entries[queue_id]),
            log_offset=log.place(91 + body_bytes + 64),
            born_timestamp_ms=stored_ms,
            born_host=HOST,
            store_timestamp_ms=stored_ms,
            store_host=HOST,
        )
        places.append(log.append(record))
        entries[queue_id].append(ENTRY.pack(places[-1], len(record), tags_code("A")))
        index.put("T", [f"U{number}", f"k{number}", "both"], places[-1], stored_ms)
    log.close()
    index.close()
    for queue_id, packed in enumerate(entries):
        write_queue(root / "consumequeue" / "T" / str(queue_id), first_queue_offset, packed, queue_file_bytes)
    return places


def delayed_store(root: Path, delays_ms: tuple[int, ...], levels: Sequence[int], *, behind_ms: int = 0) -> Path:
    """Return a store of ours with a message of each of *levels*, of a broker whose clock is behind the store's
    times."""
    hooks = Hooks(deliver_time_ms=lambda level, stored_ms: stored_ms - behind_ms + delays_ms[level - 1])
    store = open_store(root, clock=ManualClock(FIRST_STORED_MS), hooks=hooks)
    for level in levels:
        put = store.put(message(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties={"DELAY": str(level)}))
        assert put.status is PutStatus.PUT_OK
    store.close()
    return root


def write_queue(
    directory: Path, first_offset: int, packed: Sequence[bytes], file_bytes: int = QUEUE_FILE_BYTES
) -> None:
    """Write the files of a queue whose first message has *first_offset*; blank before it, as Apache does."""
    per_file = file_bytes // ENTRY.size
    blanks = first_offset % per_file
    data = ENTRY.pack(0, 2**31 - 1, 0) * blanks + b"".join(packed)
    directory.mkdir(parents=True)
    base = (first_offset - blanks) * ENTRY.size
    for start in range(0, len(data), file_bytes):
        (directory / f"{base + start:020d}").write_bytes(data[start : start + file_bytes].ljust(file_bytes, b"\0"))


class _Log:
    def __init__(self, directory: Path, file_bytes: int) -> None:
        directory.mkdir(parents=True)
        self._directory, self._file_bytes = directory, file_bytes
        self._base, self._data = 0, bytearray()

    def place(self, bytes_max: int) -> int:
        """Return where the next record goes, if it has at most so many bytes."""
        left = self._file_bytes - len(self._data)
        if bytes_max + 8 > left:
            self._data += encode_blank(left)
            self.close()
            self._base, self._data = self._base + self._file_bytes, bytearray()
        return self._base + len(self._data)

    def append(self, record: bytes | bytearray) -> int:
        self._data += record
        return self._base + len(self._data) - len(record)

    def close(self) -> None:
        path = self._directory / f"{self._base:020d}"
        path.write_bytes(self._data.ljust(self._file_bytes, b"\0"))


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Change bits of one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def overwrite(path: Path, position: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(content)] = content
    path.write_bytes(data)
