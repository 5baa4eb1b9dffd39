"""Peers for tests of the transport: a server for a moment, peers of raw bytes, a transport in memory."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from hanabi.remoting.address import format_address, parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.server import RemotingServer
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.header import Header, NoHeader

ECHO, WAIT, FAIL, BLOB, NUMBER = 1, 2, 3, 4, 5
BLOB_BYTES = 1024 * 1024


class NumberHeader(Header, frozen=True, kw_only=True):
    """One field of a type that text may fail to be."""

    number: int


def echo(_: NoHeader, request: Command, __: Connection) -> Reply:
    return Reply(body=request.body)


def fail(_: NoHeader, __: Command, ___: Connection) -> Reply:
    raise RuntimeError("as planned")


def blob(_: NoHeader, __: Command, ___: Connection) -> Reply:
    return Reply(body=bytes(BLOB_BYTES))


def number(header: NumberHeader, _: Command, __: Connection) -> Reply:
    return Reply(header=header)


HANDLERS = {
    ECHO: Handler(NoHeader, echo),
    FAIL: Handler(NoHeader, fail),
    BLOB: Handler(NoHeader, blob),
    NUMBER: Handler(NumberHeader, number),
}


class Gate:
    """A handler that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.waiting = 0
        self.cancelled = 0
        self.open = asyncio.Event()

    async def handle(self, _: NoHeader, request: Command, __: Connection) -> Reply:
        self.waiting += 1
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return Reply(body=request.body)

    def handlers(self) -> dict[int, Handler]:
        return {**HANDLERS, WAIT: Handler(NoHeader, self.handle)}


@asynccontextmanager
async def serving(
    handlers: Mapping[int, Handler] = HANDLERS,
    config: RemotingConfig = RemotingConfig(),  # noqa: B008
    *,
    tls: TlsConfig | None = None,
    on_close: Callable[[Connection], None] | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[tuple[RemotingServer, str]]:
    """Yield a server on a free port, and its address."""
    server = RemotingServer(handlers, config, tls=tls, on_close=on_close)
    address = format_address(await server.start(host, 0))
    try:
        yield server, address
    finally:
        await server.stop(1.0)


@asynccontextmanager
async def connecting(
    handlers: Mapping[int, Handler] | None = None,
    config: RemotingConfig = RemotingConfig(),  # noqa: B008
    *,
    tls: TlsConfig | None = None,
) -> AsyncIterator[Connector]:
    connector = Connector(handlers, config, tls=tls)
    try:
        yield connector
    finally:
        await connector.close()


class RawPeer:
    """A client that sends whatever bytes the test wants, and reads only when the test says so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, code: int, opaque: int = 7, body: bytes = b"", *, oneway: bool = False) -> None:
        self.send(encode_request(code, opaque, None, body, oneway=oneway))

    async def answer(self) -> Command:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return decode_command(await self.reader.readexactly(size))

    async def until_closed(self) -> bytes:
        """Everything that still arrives until the server closes."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def raw_peer(address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawPeer]:
    # A small limit, so that the peer does not read ahead of the test.
    reader, writer = await asyncio.open_connection(*parse_address(address), ssl=tls, limit=1024)
    try:
        yield RawPeer(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):  # the server was quicker, or ruder
            await writer.wait_closed()


async def ends_with(error: type[Exception], awaitable: Awaitable[Any]) -> str:
    """Return what *awaitable* says when it fails as it must."""
    with pytest.raises(error) as caught:
        await awaitable
    return str(caught.value)


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    """Return every line that an operator would see."""
    return [record.getMessage() for record in log.records if record.levelno >= logging.WARNING]


class MemoryTransport(asyncio.Transport):
    """Remembers what was written, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[bytes | memoryview]] = []
        self.reading = True
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.writes.append(list(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close
