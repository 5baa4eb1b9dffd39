"""The store against a model that is a few lists, under any interleaving of what can happen to it."""

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.store.read.queue_reader import GetStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.message.record import decode_record
from tests.store.stores import message, open_store, read_queue, records_of

pytestmark = pytest.mark.pure

MEMORY = Path("/dev/shm")  # noqa: S108 (a fresh directory inside it)
TOPICS = ("A", "B")
QUEUES = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
SIZES = st.sampled_from((0, 1, 30, 300, 2_000))


class StoreMachine(RuleBasedStateMachine):
    """Model of a store: what was put, by queue; `durable` says how many of them a power cut would leave."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = ManualClock()
        self.stored: dict[tuple[str, int], list[bytes]] = {}
        self.order: list[tuple[str, int]] = []  # the queue of each message, in the order of the log
        self.durable = 0
        self.recovered: dict[tuple[str, int], int] | None = None  # the ends of the queues after the last crash
        self.synced: Path | None = None
        self.generation = self.sequence = 0
        self.disk_ratio = 0.1

    @initialize()
    def begin(self) -> None:
        self.store = self.opened(self.home / "0")

    def opened(self, root: Path) -> MessageStore:
        store = open_store(root, clock=self.clock)
        store.retention._disk_ratio = lambda _: self.disk_ratio
        return store

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.home)

    def next_body(self, size: int) -> bytes:
        self.sequence += 1
        return b"%d " % self.sequence + b"x" * size

    # What a program does

    @rule(queue=QUEUES, size=SIZES)
    def put(self, queue: tuple[str, int], size: int) -> None:
        body = self.next_body(size)
        result = self.store.put(
            message(body, topic=queue[0], queue_id=queue[1], properties={"KEYS": f"k{self.sequence}"})
        )
        assert result.status is PutStatus.PUT_OK
        self.note(queue, [body], [place.queue_offset for place in result.appended])

    @rule(queue=QUEUES, sizes=st.lists(st.sampled_from((1, 30, 300)), min_size=1, max_size=6))
    def put_batch(self, queue: tuple[str, int], sizes: list[int]) -> None:
        bodies = [self.next_body(size) for size in sizes]
        result = self.store.put_batch([message(body, topic=queue[0], queue_id=queue[1]) for body in bodies])
        assert result.status is PutStatus.PUT_OK
        self.note(queue, bodies, [place.queue_offset for place in result.appended])

    def note(self, queue: tuple[str, int], bodies: list[bytes], offsets: list[int]) -> None:
        stored = self.stored.setdefault(queue, [])
        assert offsets == list(range(len(stored), len(stored) + len(bodies)))
        stored += bodies
        self.order += [queue] * len(bodies)

    @rule(size=st.sampled_from((5_000, 3_990)))
    def put_too_much(self, size: int) -> None:
        before = self.store.max_log_offset
        result = self.store.put(message(b"x" * size, topic="A"))
        if result.status is PutStatus.PUT_OK:
            self.note(("A", 0), [b"x" * size], [place.queue_offset for place in result.appended])
        else:
            assert (result.status, self.store.max_log_offset) == (PutStatus.MESSAGE_ILLEGAL, before)

    @rule(queue=QUEUES, start=st.integers(-2, 40), count=st.integers(1, 40))
    def get(self, queue: tuple[str, int], start: int, count: int) -> None:
        stored = self.stored.get(queue, [])
        result = self.store.get(*queue, start, count)
        low = self.store.reader.min_offset(*queue)
        if not stored:
            assert result.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
        elif start < low:
            assert (result.status, result.next_offset) == (GetStatus.OFFSET_TOO_SMALL, low)
        elif start > len(stored) and self.recovered is not None:  # a consumer that lived through the crash
            assert result.next_offset == max(low, min(self.recovered.get(queue, 0), len(stored)))
        elif start >= len(stored):
            assert result.next_offset == len(stored)
            assert result.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY)
        else:
            records = records_of(result)
            assert result.status is GetStatus.FOUND
            assert 1 <= len(records) <= count
            assert [record.body for record in records] == stored[start : start + len(records)]
            assert result.next_offset == start + len(records)

    @rule(queue=QUEUES)
    def find_by_key(self, queue: tuple[str, int]) -> None:
        for record in read_queue(self.store, *queue)[-2:]:
            number = record.body.split()[0].decode() if record.body[:1].isdigit() else ""
            for found in self.store.queries.by_key(queue[0], f"k{number}", 8, 0, 2**62).records:
                assert decode_record(found).body == record.body

    # What time does

    @rule(step_ms=st.sampled_from((-5_000, 0, 1, 2_000, 10_000)))
    def time_passes(self, step_ms: int) -> None:
        self.clock.ms += step_ms

    @rule(everything=st.booleans())
    def flush(self, everything: bool) -> None:
        self.store.flush(log_only=not everything)
        self.durable = len(self.order)
        self.forget_synced()
        self.synced = self.copy("synced")

    @rule()
    def write_queues(self) -> None:
        self.store._queues.flush()

    @precondition(lambda self: len(self.order) > 5)
    @rule()
    def disk_gets_full(self) -> None:
        self.disk_ratio = 0.88
        self.store.retention.run_round()
        self.disk_ratio = 0.1
        self.store.retention.run_round()
        self.forget_synced()  # what is deleted does not come back
        self.store.flush()
        self.durable = len(self.order)

    # What happens to a process

    def copy(self, name: str) -> Path:
        self.generation += 1
        target = self.home / f"{self.generation} {name}"
        shutil.copytree(self.store.config.root, target)
        return target

    def forget_synced(self) -> None:
        if self.synced is not None:
            shutil.rmtree(self.synced)
            self.synced = None

    @rule()
    def restart(self) -> None:
        root = Path(self.store.config.root)
        self.store.close()
        self.store = self.opened(root)
        self.recovered = None
        self.durable = len(self.order)
        self.forget_synced()

    @rule()
    def kill(self) -> None:
        copy = self.copy("killed")
        self.replace(copy)

    @precondition(lambda self: self.synced is not None)
    @rule(dice=st.randoms(use_true_random=False))
    def cut_the_power(self, dice: Random) -> None:
        assert self.synced is not None
        written = self.copy("cut")
        lose_pages(self.synced, written, dice)
        self.replace(written)

    def replace(self, root: Path) -> None:
        old = Path(self.store.config.root)
        self.store.close()
        shutil.rmtree(old)
        self.store = self.opened(root)
        self.recovered = {queue: self.store.reader.max_offset(*queue) for queue in self.stored}
        self.forget_synced()
        self.forget_what_is_lost()

    def forget_what_is_lost(self) -> None:
        """Check that the log lost at most its end, but nothing that was durable and nothing in between."""
        left = {queue: self.store.reader.max_offset(*queue) for queue in self.stored}
        while self.order and len(self.stored[self.order[-1]]) > left[self.order[-1]]:
            self.stored[self.order.pop()].pop()
        assert len(self.order) >= self.durable
        self.durable = len(self.order)

    # What must hold

    @invariant()
    def every_message_is_there_once_and_in_order(self) -> None:
        for queue, stored in self.stored.items():
            low = self.store.reader.min_offset(*queue)
            assert self.store.reader.max_offset(*queue) == len(stored)
            assert [record.body for record in read_queue(self.store, *queue)] == stored[low:]


def lose_pages(synced: Path, written: Path, dice: Random) -> None:
    """Cut the power: of what was written after the last sync, each page is on the disk or not."""
    for path in sorted(path for path in written.rglob("*") if path.is_file() and path.name != "abort"):
        before = synced / path.relative_to(written)
        new, old = bytearray(path.read_bytes()), before.read_bytes() if before.exists() else b""
        old = old.ljust(len(new), b"\0")
        for start in range(0, len(new), 512):
            if old[start : start + 512] != new[start : start + 512] and dice.random() < 0.5:
                new[start : start + 512] = old[start : start + 512]
        path.write_bytes(new)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
