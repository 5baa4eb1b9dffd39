"""Measurement of the store on a disk: appends, reads of these, and appends that each wait for the disk.

On a fresh store in a folder of its own inside the directory that is given; the folder is removed in any case. Blocks:
call it in a thread where there is an event loop.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from hanabi.bench.meter import Meter
from hanabi.bench.results import Ended, Flow, Second, StoreMeasured, flow_of, times_of
from hanabi.bench.send_schedule import BESIDE_BODY_BYTES, Limits, SendSchedule
from hanabi.clock import wall_ms
from hanabi.errors import ConfigError, StoreError
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties

TOPIC: Final = "Bench"
QUEUES: Final = 4
READ_AT_ONCE: Final = 32
SEGMENT_BYTES: Final = 64 << 20
SPARE_BYTES: Final = 4 * SEGMENT_BYTES  # files are made before they are needed
HOST: Final = encode_host("127.0.0.1", 10911)
FOLDER: Final = "hanabi-bench-"

clock = time.perf_counter


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to append. The limits are those of the appends. Appends that wait for the disk get a quarter of the
    time in addition, or `sync_count` messages where there is no time limit."""

    directory: Path
    limits: Limits
    size: int = 1024
    sync_count: int = 200

    @property
    def sync_limits(self) -> Limits:
        seconds = self.limits.seconds
        if seconds is None:
            return Limits(count=min(self.limits.count or self.sync_count, self.sync_count))
        return Limits(seconds=seconds / 4, bytes_max=self.limits.bytes_max)


def measure_store(work: Work, stopped: Callable[[], bool], on_second: Callable[[Second], None]) -> StoreMeasured:
    """Measure, until the limits are reached or *stopped* is true."""
    with _fresh(work) as root:
        message = _message(work.size)
        with _opened(root / "async", FlushMode.ASYNC_FLUSH) as store:
            appended = _Phase("appended", work.limits, work.size)
            appended.run(lambda: _checked(store.put(message())), stopped, on_second)
            read = _read(store, work.size, stopped, on_second)
        with _opened(root / "sync", FlushMode.SYNC_FLUSH) as store:
            synced = _Phase("synced", work.sync_limits, work.size)
            synced.run(lambda: _put_and_wait(store, message()), stopped, on_second)
    return StoreMeasured(
        directory=str(work.directory),
        ended=Ended.INTERRUPTED if stopped() else appended.ended,
        append=appended.flow,
        append_latency=times_of(appended.meter.times),
        read=read,
        sync=synced.flow,
        sync_latency=times_of(synced.meter.times),
    )


class _Phase:
    """One thing done again and again, one after the other."""

    def __init__(self, what: str, limits: Limits, size: int) -> None:
        self._limits, self._size = limits, size
        self._began = clock()
        self.meter = Meter(what, self._began)
        self.ended = Ended.INTERRUPTED
        self.flow = flow_of(0, 0, 0)

    def run(self, do: Callable[[], None], stopped: Callable[[], bool], on_second: Callable[[Second], None]) -> None:
        pace = SendSchedule(self._limits, self._began, size=self._size)
        meter, tell_at = self.meter, self._began + 1.0
        while not stopped() and pace.take(begin := clock()) is not None:
            do()
            now = clock()
            meter.add(now, now - begin, 1, self._size)
            if now >= tell_at:
                on_second(meter.second(now))
                tell_at = now + 1.0
        self.ended = pace.ended or Ended.INTERRUPTED
        self.flow = flow_of(meter.messages, meter.body_bytes, clock() - self._began)


def _read(store: MessageStore, size: int, stopped: Callable[[], bool], on_second: Callable[[Second], None]) -> Flow:
    """Everything once, queue by queue."""
    began = clock()
    meter, tell_at = Meter("read", began), began + 1.0
    for queue_id in range(QUEUES):
        offset, end = 0, store.reader.max_offset(TOPIC, queue_id)
        while offset < end and not stopped():
            begin = clock()
            next_offset = store.get(TOPIC, queue_id, offset, READ_AT_ONCE).next_offset
            now = clock()
            if next_offset <= offset:
                raise StoreError(f"queue {queue_id} of {store.config.root} cannot be read on from offset {offset}")
            meter.add(now, now - begin, next_offset - offset, (next_offset - offset) * size)
            offset = next_offset
            if now >= tell_at:
                on_second(meter.second(now))
                tell_at = now + 1.0
    return flow_of(meter.messages, meter.body_bytes, clock() - began)


def _put_and_wait(store: MessageStore, message: PendingMessage) -> None:
    done, ends = threading.Event(), list[PutStatus]()

    def on_done(status: PutStatus) -> None:
        ends.append(status)
        done.set()

    result = store.put(message)
    _checked(result)
    store.await_flush(result.end_offset, on_done)
    done.wait()
    _checked(PutResult(ends[0], result.appended))


def _checked(result: PutResult) -> None:
    if result.status is not PutStatus.PUT_OK:
        raise StoreError(f"the store took no more: {result.status.value} {result.reason}".rstrip())


def _message(size: int) -> Callable[[], PendingMessage]:
    """Return messages with a tag, over all queues."""
    body, properties, number = os.urandom(size), encode_properties({"TAGS": "bench", "WAIT": "true"}), 0

    def make() -> PendingMessage:
        nonlocal number
        number += 1
        return PendingMessage(TOPIC, number % QUEUES, body, properties, wall_ms(), HOST, HOST)

    return make


@contextmanager
def _opened(root: Path, flush_mode: FlushMode) -> Iterator[MessageStore]:
    config = StoreConfig(root=str(root), flush_mode=flush_mode, commit_log_segment_bytes=SEGMENT_BYTES)
    with MessageStore.open(config) as store:
        yield store


@contextmanager
def _fresh(work: Work) -> Iterator[Path]:
    """Provide a new folder with room for the run."""
    directory, limits = work.directory, work.limits
    if not directory.is_dir():
        raise ConfigError(f"--home {directory}: there is no such directory")
    planned = [limits.bytes_max, None if limits.count is None else limits.count * (work.size + BESIDE_BODY_BYTES)]
    needed = SPARE_BYTES + min((each for each in planned if each is not None), default=0)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise ConfigError(f"--home {directory}: {needed >> 20} MiB may be needed, and {free >> 20} MiB are free")
    try:
        root = Path(tempfile.mkdtemp(prefix=FOLDER, dir=directory))
    except OSError as error:
        raise StoreError.from_os_error(error, f"making a folder in {directory}") from error
    try:
        yield root
    finally:
        shutil.rmtree(root)
