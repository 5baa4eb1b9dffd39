"""The message store: what an append and a read cost, beside a plain copy of the same bytes into a mapped file.

`python -m benches.store [--quick] [--gigabytes N] [--directory DIR]`. Appends include the consume queue and the index.
"""

import argparse
import contextlib
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benches.report import publish, table
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.message_id import UniqueIds
from hanabi.wire.message.properties import encode_properties

TOPIC = "TopicTest"
QUEUES = 4
BATCH = 32
HOST = encode_host("127.0.0.1", 10911)
BODY = random.Random(1).randbytes(1024)
TINY = b"x" * 16
DEMANDS_US = {"no keys": 12.0, "keys": 16.0, "read": 2.0}
GROWTH_MAX = 1.20


@dataclass(frozen=True)
class Cost:
    """One row: microseconds a message in each round, and how large a message is in the log."""

    what: str
    rounds_us: list[float]
    record_bytes: int

    @property
    def us(self) -> float:
        return median(self.rounds_us)

    def cells(self, copy_us: float) -> list[str]:
        each_second = 1e6 / self.us
        megabytes = each_second * self.record_bytes / 1e6
        figures = (f"{self.us:.2f}", f"{min(self.rounds_us):.2f}", f"{each_second:,.0f}", f"{megabytes:,.0f}")
        return [self.what, *figures, f"{self.us / copy_us:.1f}"]


def main(*, quick: bool = False, gigabytes: float | None = None, directory: str | None = None) -> None:
    rounds = 3 if quick else 15
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        root = Path(folder)
        costs = [copies(root, rounds), *appends_and_reads(root / "appends", rounds)]
        syncs = [sync_flush(root / f"sync-{waiters}", waiters, quick=quick) for waiters in (1, 64)]
        growth = [one_long_queue(root / "long", quick=quick), many_queues(root / "many", quick=quick)]
        recovery = [recovery_after_kill(root / "crash", gigabytes or (0.25 if quick else 5.0))]
    copy_us = costs[0].us
    publish(
        "store",
        "The message store",
        f"Messages of 1 KiB (about {costs[1].record_bytes:,} bytes in the log), 4 queues, ASYNC_FLUSH, median of"
        f" {rounds} rounds. The last column is the cost against the plain copy.",
        table(
            ("what", "us/message", "best round", "messages/s", "MB/s", "times the copy"),
            [cost.cells(copy_us) for cost in costs],
        ),
        "SYNC_FLUSH, each message on the disk before it is acknowledged:",
        table(("waiting at once", "messages/s", "ms until told, median", "slowest of 100"), syncs),
        f"Does an append cost more when there is more? (demand: at most {GROWTH_MAX:.2f} times)",
        table(("what", "at first, us", "at last, us", "times", "memory without page cache, bytes each"), growth),
        "Opening a store after kill -9:",
        table(("log, GB", "written, messages", "looked at, messages", "seconds"), recovery),
        verdict(costs),
        quick=quick,
    )


def verdict(costs: Sequence[Cost]) -> str:
    """Return whether the demands are met here."""
    told = []
    for cost in costs[1:]:
        kind = "read" if "read" in cost.what else "no keys" if "no key" in cost.what else "keys"
        told.append(f"{cost.what}: {cost.us:.1f} (best {min(cost.rounds_us):.1f}) of {DEMANDS_US[kind]:.0f} us")
    return "Demands: " + "; ".join(told) + "."


# Messages


def messages(count: int, *, keyed: bool, body: bytes = BODY) -> list[PendingMessage]:
    """Return messages as a Java client sends them, over all queues."""
    ids = UniqueIds(lambda: int(time.time() * 1000), ip=bytes(4), process_id=1, loader_hash=1)
    made = []
    for number in range(count):
        properties = {"TAGS": "TagA", "WAIT": "true"}
        if keyed:
            properties |= {"KEYS": f"order-{random.randrange(10**9)}", "UNIQ_KEY": ids.make()}
        made.append(pending(TOPIC, number % QUEUES, body, encode_properties(properties)))
    return made


def pending(topic: str, queue_id: int, body: bytes, properties: bytes) -> PendingMessage:
    now_ms = int(time.time() * 1000)
    return PendingMessage(topic, queue_id, body, properties, now_ms, HOST, HOST)


@contextlib.contextmanager
def opened(root: Path, **settings: object) -> Iterator[MessageStore]:
    config = StoreConfig(root=str(root), **settings)  # type: ignore[arg-type]
    with MessageStore.open(config, disk_ratio=lambda _: 0.1) as store:
        yield store


def cost_us(work: Callable[[], object], count: int, rounds: int) -> list[float]:
    """Microseconds for one of *count* things that *work* does, in each round."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) / count * 1e6)
    return taken


# Rows


def copies(root: Path, rounds: int) -> Cost:
    """Return the floor: the bytes of a record copied into a preallocated, mapped file, one by one."""
    record, count = bytes(1_150), 20_000
    with (root / "copy").open("w+b") as file:
        size = len(record) * count * (rounds + 1)
        os.posix_fallocate(file.fileno(), 0, size)
        with mmap.mmap(file.fileno(), size) as mapped:
            end = 0

            def copy() -> None:
                nonlocal end
                for _ in range(count):
                    mapped[end : end + 1_150] = record
                    end += 1_150

            us = cost_us(copy, count, rounds)
    (root / "copy").unlink()
    return Cost("plain copy", us, len(record))


def appends_and_reads(root: Path, rounds: int) -> list[Cost]:
    count = 20_000
    costs = []
    with opened(root) as store:
        for name, keyed in (("no key", False), ("key and unique key", True)):
            fresh = messages(count, keyed=keyed)
            size = store.put(fresh[0]).appended[0].size
            put_all(store, fresh)
            costs.append(Cost(f"append, {name}", cost_us(lambda: put_all(store, fresh), count, rounds), size))  # noqa: B023
            batches = batches_of(fresh)
            us = cost_us(lambda: put_batches(store, batches), count, rounds)  # noqa: B023
            costs.append(Cost(f"append in batches of {BATCH}, {name}", us, size))
        end = store.reader.max_offset(TOPIC, 1)
        wanted = min(end, count)
        for start, name in ((0, "one of four queues"), (end - wanted, "mostly side by side")):
            us = cost_us(lambda: read_all(store, start, start + wanted), wanted, rounds)  # noqa: B023
            costs.append(Cost(f"read of {BATCH}, {name}", us, size))
    return costs


def put_all(store: MessageStore, fresh: Sequence[PendingMessage]) -> None:
    put, ok = store.put, PutStatus.PUT_OK
    for message in fresh:
        if put(message).status is not ok:
            raise RuntimeError("the store refused a message")


def batches_of(fresh: Sequence[PendingMessage]) -> list[list[PendingMessage]]:
    by_queue = [[message for message in fresh if message.queue_id == queue_id] for queue_id in range(QUEUES)]
    return [queue[at : at + BATCH] for queue in by_queue for at in range(0, len(queue), BATCH)]


def put_batches(store: MessageStore, batches: Sequence[Sequence[PendingMessage]]) -> None:
    for batch in batches:
        if store.put_batch(batch).status is not PutStatus.PUT_OK:
            raise RuntimeError("the store refused a batch")


def read_all(store: MessageStore, offset: int, end: int) -> None:
    get = store.get
    while offset < end:
        offset = get(TOPIC, 1, offset, BATCH).next_offset


def sync_flush(root: Path, waiters: int, *, quick: bool) -> list[str]:
    """Measure with so many messages on their way to the disk at any time."""
    fresh = messages(waiters * (20 if quick else 200), keyed=True)
    free = threading.Semaphore(waiters)
    taken: list[float] = []
    with opened(root, flush_mode=FlushMode.SYNC_FLUSH) as store:
        store.put(fresh[0])
        began = time.perf_counter()
        for message in fresh:
            free.acquire()
            start = time.perf_counter()

            def told(status: PutStatus, start: float = start) -> None:
                if status is PutStatus.PUT_OK:
                    taken.append(time.perf_counter() - start)
                free.release()

            store.await_flush(store.put(message).end_offset, told)
        for _ in range(waiters):
            free.acquire()
        seconds = time.perf_counter() - began
    taken.sort()
    slow = taken[int(len(taken) * 0.99)]
    return [str(waiters), f"{len(fresh) / seconds:,.0f}", f"{median(taken) * 1000:.2f}", f"{slow * 1000:.2f}"]


def one_long_queue(root: Path, *, quick: bool) -> list[str]:
    """Many small messages in one queue; is the last one as cheap as the first?"""
    total, step = (400_000, 50_000) if quick else (10_000_000, 200_000)
    fresh = [pending(TOPIC, 0, TINY, b"TAGS\x01a")] * step
    with opened(root) as store:
        put_all(store, fresh)
        first = median(cost_us(lambda: put_all(store, fresh), step, 3))
        memory = private_bytes()
        while store.reader.max_offset(TOPIC, 0) < total - 3 * step:
            put_all(store, fresh)
        added = max(private_bytes() - memory, 0)
        last = median(cost_us(lambda: put_all(store, fresh), step, 3))
    return growth_row(f"{total:,} messages in one queue", first, last, added / total)


def many_queues(root: Path, *, quick: bool) -> list[str]:
    """Appends over very many queues, in no order, against appends over four."""
    topics = 1_000 if quick else 10_000
    queues = [(f"Topic-{number}", queue_id) for number in range(topics) for queue_id in range(QUEUES)]
    random.Random(1).shuffle(queues)  # before there are messages: both kinds lie in memory in the order of the puts
    few = [pending(TOPIC, number % QUEUES, BODY, b"TAGS\x01a") for number in range(len(queues))]
    many = [pending(topic, queue_id, BODY, b"TAGS\x01a") for topic, queue_id in queues]
    with opened(root) as store:
        put_all(store, few)
        first = median(cost_us(lambda: put_all(store, few), len(few), 5))
        memory = private_bytes()
        put_all(store, many)
        added = private_bytes() - memory
        store.flush()
        last = median(cost_us(lambda: put_all(store, many), len(many), 5))
    return growth_row(f"{len(queues):,} queues", first, last, added / len(queues))


def growth_row(what: str, first: float, last: float, bytes_each: float) -> list[str]:
    return [what, f"{first:.2f}", f"{last:.2f}", f"{last / first:.2f}", f"{bytes_each:,.1f}"]


def private_bytes() -> int:
    """Return the memory of this process that is not a mapped file."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("smaps_rollup has no line of that name")


def recovery_after_kill(root: Path, gigabytes: float) -> list[str]:
    """Another process fills a store and is killed; how long until it can be used again?"""
    command = [sys.executable, "-m", "benches.store", "--fill", str(root), "--gigabytes", str(gigabytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        written = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    start = time.perf_counter()
    store = MessageStore.open(StoreConfig(root=str(root)), disk_ratio=lambda _: 0.1)
    seconds = time.perf_counter() - start
    found = sum(store.reader.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES))
    assert found == int(written), f"{written} messages were written, {found} are there"
    row = [f"{store.max_log_offset / 1e9:.2f}", f"{found:,}", f"{store.recovery.records:,}", f"{seconds:.2f}"]
    store.close()
    return row


def fill(root: Path, gigabytes: float) -> None:
    """Write so much, say how many messages that were, and wait to be killed."""
    fresh = messages(20_000, keyed=True)
    store = MessageStore.open(StoreConfig(root=str(root)), disk_ratio=lambda _: 0.1)
    store.start()
    written = 0
    while store.max_log_offset < gigabytes * 1e9:
        put_all(store, fresh)
        written += len(fresh)
    print(written, flush=True)
    signal.pause()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    parser.add_argument("--gigabytes", type=float, help="how large the store is that is killed and recovered")
    parser.add_argument("--directory", help="where to measure; a fresh directory is made inside and removed")
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fill:
        fill(Path(asked.fill), asked.gigabytes)
    else:
        main(quick=asked.quick, gigabytes=asked.gigabytes, directory=asked.directory)
