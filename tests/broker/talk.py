"""A peer that talks to a broker, or to a few handlers, by bytes: it asks, is asked, and reads when it pleases."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.server import RemotingServer
from hanabi.wire.codes import HeaderForm
from hanabi.wire.command import VERSION, Command, decode_command, encode_head, encode_reply_head
from hanabi.wire.header import Header, header_fields

SECONDS = 60.0  # nothing here takes so long, unless it is broken


class Peer:
    """One connection. Answers are matched with their requests, so any number may be under way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._opaque = 0
        self._answers: dict[int, asyncio.Future[Command]] = {}
        self._requests: asyncio.Queue[Command] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, address: tuple[str, int] | str, ssl: SSLContext | None = None) -> "Peer":
        if isinstance(address, str):
            host, _, port = address.rpartition(":")
            address = (host, int(port))
        return cls(*await asyncio.open_connection(*address, ssl=ssl))

    @property
    def local_address(self) -> tuple[str, int]:
        host, port = self._writer.get_extra_info("sockname")[:2]
        return host, port

    def start(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = VERSION,
        form: HeaderForm = HeaderForm.JSON,
    ) -> asyncio.Future[Command]:
        """Send a request; the answer is the future's result."""
        self._opaque += 1
        fields = header_fields(header) if isinstance(header, Header) else header
        head = encode_head(
            code=code, opaque=self._opaque, fields=fields, body_bytes=len(body), version=version, form=form
        )
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._answers[self._opaque] = answer
        self._writer.write(head + body)
        return answer

    async def ask(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = VERSION,
        form: HeaderForm = HeaderForm.JSON,
    ) -> Command:
        """Send a request, and wait for its answer."""
        async with asyncio.timeout(SECONDS):
            return await self.start(code, header, body, version=version, form=form)

    async def request(self) -> Command:
        """Return the next thing that the broker asks or tells us."""
        async with asyncio.timeout(SECONDS):
            return await self._requests.get()

    @property
    def requests_waiting(self) -> int:
        return self._requests.qsize()

    def reply(self, request: Command, code: int = 0, *, remark: str | None = None, body: bytes = b"") -> None:
        """Answer what the broker asked."""
        self._writer.write(encode_reply_head(request, code=code, remark=remark, body_bytes=len(body)) + body)

    def send(self, frame: bytes) -> None:
        """Send *frame* as it is."""
        self._writer.write(frame)

    async def _read(self) -> None:
        try:
            while True:
                length = int.from_bytes(await self._reader.readexactly(4), "big")
                command = decode_command(await self._reader.readexactly(length))
                if not command.is_response:
                    self._requests.put_nowait(command)
                elif command.opaque in self._answers:
                    self._answers.pop(command.opaque).set_result(command)
        except (asyncio.IncompleteReadError, ConnectionError):
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the broker closed the connection"))
                    answer.exception()  # whoever does not look at it does not mind

    async def closed_by_broker(self) -> None:
        async with asyncio.timeout(SECONDS):
            await asyncio.shield(self._reading)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait((self._reading,))
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def connected(address: tuple[str, int] | str) -> AsyncIterator[Peer]:
    """Yield a peer of whoever listens there."""
    peer = await Peer.connect(address)
    try:
        yield peer
    finally:
        await peer.close()


@asynccontextmanager
async def serving(
    handlers: Mapping[int, Handler],
    *,
    config: RemotingConfig = RemotingConfig(),  # noqa: B008 - frozen
    on_close: Callable[[Connection], None] | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """*handlers* alone, without the rest of a broker, on a free port."""
    server = RemotingServer(handlers, config, on_close=on_close)
    address = await server.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        await server.stop(1.0)
