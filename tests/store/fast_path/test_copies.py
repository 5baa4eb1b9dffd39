"""A slave dispatches runs of records as it dispatches them one by one: the same files, notifications and errors."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanabi.errors import MQError
from hanabi.store.fast_path.loading import copy_run
from hanabi.store.indexer import Dispatched, Hooks
from hanabi.store.log import record_chain
from hanabi.testing.clock import ManualClock
from hanabi.wire.message import sysflag
from hanabi.wire.message.record import RecordState, encode_blank, encode_record, scan_records
from hanabi.wire.system_names import SCHEDULE_TOPIC
from tests.golden_records import STORES, golden_logs
from tests.store.stores import HOST, open_store

pytestmark = pytest.mark.skipif(copy_run() is None, reason="there is only one form without compiled functions")

FILE_BYTES = 1 << 16
FIRST_MS = 1_700_000_000_000
HOST_V6 = bytes(range(20))
UNIQUE_KEY = b"UNIQ_KEY\x017F0000011A2B251A69D701C5F3A000A7\x02"
LISTENED = ("T", 1)


class Copied:
    """A store that copies a log, and everything that can be seen of it."""

    def __init__(self, root: Path, first_offset: int = 0, **settings: Any) -> None:
        self.root = root
        self.told: list[Dispatched] = []
        self.errors: list[str] = []
        hooks = Hooks(
            on_append=self._hear,
            listens=lambda topic, queue_id: (topic, queue_id) == LISTENED,
            deliver_time_ms=lambda level, store_ms: store_ms + level * 1_000,
        )
        files: dict[str, Any] = {
            "commit_log_segment_bytes": FILE_BYTES,
            "consume_queue_segment_bytes": 2_000,
            "index_entries": 200,
        }
        self.store = open_store(root, clock=ManualClock(), hooks=hooks, **(files | settings))
        self.end = first_offset

    def _hear(self, dispatched: Dispatched) -> None:
        if (dispatched.topic, dispatched.queue_id) == LISTENED:  # another queue's listener has nothing to do
            self.told.append(dispatched)

    def take(self, pieces: list[bytes]) -> None:
        try:
            self.store.append_copy(self.end, *pieces)
        except (MQError, ValueError) as error:
            self.errors.append(f"{type(error).__name__}: {error}")
        self.end = self.store.max_log_offset or self.end

    def seen(self) -> dict[str, object]:
        store = self.store
        told = store.latest_store_ms, store._indexer.dispatched_ms, store.undispatched
        store.close()
        files = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and path.parts[len(self.root.parts)] in ("commitlog", "consumequeue", "index")
        }
        return {**files, "told": self.told, "errors": self.errors, "times": told}


@pytest.fixture
def both(memory_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Copies a log in both forms, and compares what is seen afterwards."""

    def compare(log: bytes, reads: list[list[bytes]], first_offset: int = 0, **settings: Any) -> None:
        compiled = Copied(memory_directory / "compiled", first_offset, **settings)
        for pieces in reads:
            compiled.take(pieces)
        monkeypatch.setenv("HANABI_PURE_PYTHON", "1")
        monkeypatch.setattr(record_chain, "follow_records", record_chain.python_follow_records)
        readable = Copied(memory_directory / "readable", first_offset, **settings)
        for pieces in reads:
            readable.take(pieces)
        ours, theirs = compiled.seen(), readable.seen()
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name] == theirs[name], name
        if not theirs["errors"]:
            assert compiled.end == first_offset + len(log)

    return compare


def cut(log: bytes, chance: random.Random) -> list[list[bytes]]:
    """Return the log in reads of some pieces each, cut anywhere."""
    reads: list[list[bytes]] = []
    place = 0
    while place < len(log):
        pieces = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            size = chance.choice((1, 7, 35, 36, 37, 90, 1_000, 32_768))
            pieces.append(log[place : place + size])
            place += size
        reads.append([piece for piece in pieces if piece])
    return reads


class Forge:
    """Writes a log of ugly records."""

    def __init__(self, chance: random.Random) -> None:
        self.log, self._chance, self._now_ms = bytearray(), chance, FIRST_MS
        self._next: dict[tuple[bytes, int], int] = {}

    def record(self, **changes: Any) -> None:
        """Add a record; a filler first, if the file has no room for it."""
        fields: dict[str, Any] = {
            "topic": self._chance.choice((b"T", b"T", b"Other", b"Third")),
            "body": self._chance.randbytes(self._chance.choice((1, 20, 1_024, 3_000))),
            "properties": UNIQUE_KEY + b"TAGS\x01red",
            "queue_id": self._chance.randrange(4),
            "born_timestamp_ms": 1,
            "born_host": HOST,
            "store_host": HOST,
            "store_timestamp_ms": self._now_ms,
            **changes,
        }
        self._now_ms += self._chance.choice((0, 0, 0, 1, 700))
        key = fields["topic"], fields["queue_id"]
        counted = not fields.get("sys_flag", 0) & sysflag.TRANSACTION_PREPARED
        fields.setdefault("queue_offset", self._next.get(key, 0) if counted else 0)
        size = len(encode_record(**fields))
        left = FILE_BYTES - len(self.log) % FILE_BYTES
        if size + 8 > left:
            self.log += encode_blank(left).ljust(left, b"\0")
        self.log += encode_record(**fields, log_offset=len(self.log))
        if counted:
            self._next[key] = fields["queue_offset"] + 1

    def damaged(self) -> None:
        """Add a record whose head is right, and which is damaged inside."""
        start = len(self.log)
        self.record(body=b"x" * 50)
        start = max(start, len(self.log) - len(self.log) % FILE_BYTES)  # a filler may be before it
        at, value = self._chance.choice(((84, b"\xff" * 4), (84, b"\x7f\0\0\0"), (138, b"\xfe"), (84, b"\0\0\0\1")))
        self.log[start + at : start + at + len(value)] = value
        self._next.clear()  # the next ones of each queue leave a hole, or begin it again

    def ugly(self) -> None:
        """Add a record of any kind."""
        self._chance.choice(
            (
                lambda: self.record(properties=b"KEYS\x01a b  c\x02" + UNIQUE_KEY),
                lambda: self.record(properties=b"KEYS\x01a\0b\0\x02TAGS\x01\0"),
                lambda: self.record(properties="KEYS\x01schlüssel\x02TAGS\x01grün".encode()),
                lambda: self.record(properties=b"KEYS\x01\xff\xfe\x02TAGS\x01\xff"),
                lambda: self.record(properties=b""),
                lambda: self.record(properties=b"KEYS\x01\x02\x02\x01\x02UNIQ_KEY\x02TAGS"),
                lambda: self.record(properties=UNIQUE_KEY + b"x\x01" + b"y" * (32_767 - len(UNIQUE_KEY) - 2)),
                lambda: self.record(properties=b"KEYS\x01" + b" ".join(b"k%d" % n for n in range(150))),
                lambda: self.record(sys_flag=sysflag.TRANSACTION_PREPARED),
                lambda: self.record(sys_flag=sysflag.TRANSACTION_COMMIT, prepared_offset=7),
                lambda: self.record(sys_flag=sysflag.TRANSACTION_ROLLBACK),
                lambda: self.record(sys_flag=0x1 | 0x2 | 0x80 | 0x100),  # compressed, several tags, inner batches
                lambda: self.record(topic=SCHEDULE_TOPIC.encode(), properties=b"DELAY\x013\x02TAGS\x01t", queue_id=2),
                lambda: self.record(topic=SCHEDULE_TOPIC.encode(), properties=b"DELAY\x01x\x02", queue_id=2),
                lambda: self.record(topic=b"t" * 200),
                lambda: self.record(topic="grün".encode()),
                lambda: self.record(topic=b"t" * 127),
                lambda: self.record(born_host=HOST_V6),
                lambda: self.record(store_host=HOST_V6, born_host=HOST_V6),
                lambda: self.record(body=b""),
                lambda: self.record(store_timestamp_ms=FIRST_MS - 5_000),
                lambda: self.record(queue_offset=self._chance.choice((0, 5, 40))),
                self.damaged,
            )
        )()


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("seed", range(3))
def test_recorded_stores_of_apache(both: Callable[..., None], name: str, seed: int) -> None:
    segment = golden_logs(name)[0]  # the other one is prepared, and empty
    end, last = list(scan_records(segment))[-1]
    assert last.state is RecordState.UNWRITTEN
    log = segment[:end]
    both(log, cut(log, random.Random(seed)), index_slots=100)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("has_index", [True, False], ids=["index", "no index"])
def test_ugly_records_cut_anywhere(both: Callable[..., None], seed: int, has_index: bool) -> None:
    chance = random.Random(seed)
    forge = Forge(chance)
    for _ in range(150):
        if chance.random() < 0.6:
            forge.record()
        else:
            forge.ugly()
    both(bytes(forge.log), cut(bytes(forge.log), chance), index_enabled=has_index)
