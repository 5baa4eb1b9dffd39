"""Logs in memory, and a master and a slave around them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from hanabi.errors import StoreError
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import LogSink, LogSource
from hanabi.replication.master import Master
from hanabi.replication.rules.put_rules import PutRule
from hanabi.replication.slave import Slave

FILE_BYTES = 10_000
HOST = "127.0.0.1"
QUICK = ReplicationConfig(heartbeat_interval_ms=50, housekeeping_interval_ms=20_000, reconnect_interval_ms=50)


class MemoryLog:
    """A log in memory, in files of *file_bytes*. `failure` is what an append or a load raises, `cold` are the offsets
    that must be loaded."""

    def __init__(self, *, start: int = 0, file_bytes: int = FILE_BYTES) -> None:
        self.start, self.file_bytes = start, file_bytes
        self.data = bytearray()
        self.failure: StoreError | None = None
        self.cold: set[int] = set()
        self.compared_bytes = 0  # at its end

    @property
    def min_offset(self) -> int:
        return self.start

    @property
    def end_offset(self) -> int:
        return self.start + len(self.data)

    @property
    def compared_from(self) -> int:
        return min(max(self.end_offset - self.compared_bytes, self.start, 1), self.end_offset)

    def append(self, data: bytes) -> None:
        self.data += data

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        if not self.start <= offset < self.end_offset:
            return None
        size = min(bytes_max, self.file_bytes - offset % self.file_bytes)
        place = offset - self.start
        return memoryview(bytes(self.data[place : place + size]))

    def is_in_memory(self, offset: int, size: int) -> bool:
        return offset not in self.cold

    def load(self, offset: int, size: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.cold -= {*range(offset, offset + size)}

    def append_raw(self, offset: int, *pieces: memoryview) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.end_offset:
            self.start = offset
        assert offset == self.end_offset
        for piece in pieces:
            self.data += piece

    def delete_before(self, offset: int) -> None:
        del self.data[: offset - self.start]
        self.start = offset


def quick(**settings: Any) -> ReplicationConfig:
    """Settings with short intervals."""
    return msgspec.structs.replace(QUICK, **settings)


@contextlib.asynccontextmanager
async def running_master(
    log: LogSource,
    config: ReplicationConfig = QUICK,
    *,
    is_sync: bool = False,
    rule: PutRule | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Master, str]]:
    """Yield a master that listens, and its address."""
    master = Master(log, config, rule or config.put_rule(is_sync=is_sync), **more)
    host, port = await master.start(HOST, 0)
    try:
        yield master, f"{host}:{port}"
    finally:
        await master.stop()


@contextlib.asynccontextmanager
async def running_slave(
    log: LogSink, address: str, config: ReplicationConfig = QUICK, **more: Any
) -> AsyncIterator[Slave]:
    """Yield a slave that follows the master at *address*."""
    slave = Slave(log, config, **more)
    slave.start()
    slave.follow(address)
    try:
        yield slave
    finally:
        await slave.stop()


async def until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.002)


def is_copy(copy: MemoryLog, log: MemoryLog) -> bool:
    """Return whether *copy* holds what *log* holds, from where it begins on."""
    return copy.end_offset == log.end_offset and copy.data == log.data[copy.start - log.start :]


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Read all that a peer sends until it closes, however it does that."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            data += chunk
    return data
