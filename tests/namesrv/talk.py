"""A name server on a free port and a peer that talks to it by bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.testing.clock import ManualClock
from hanabi.wire.codes import HeaderForm
from hanabi.wire.command import VERSION, Command, decode_command, encode_head
from hanabi.wire.header import Header, header_fields


class Peer:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._opaque = 0

    async def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        version: int = VERSION,
        form: HeaderForm = HeaderForm.JSON,
    ) -> Command:
        self._opaque += 1
        fields = header_fields(header) if header is not None else None
        head = encode_head(
            code=code, opaque=self._opaque, fields=fields, body_bytes=len(body), version=version, form=form
        )
        reply = await self.send(head + body)
        assert reply.is_response
        assert reply.opaque == self._opaque
        assert reply.form is form
        return reply

    async def send(self, frame: bytes) -> Command:
        """Send *frame* as it is, and return what comes back."""
        self._writer.write(frame)
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return decode_command(await self._reader.readexactly(length))

    async def closed_by_server(self) -> None:
        assert await self._reader.read() == b""

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Running:
    """A started server, its clock, and peers for it."""

    def __init__(self, server: NameServer, clock: ManualClock, address: tuple[str, int]) -> None:
        self.server = server
        self.clock = clock
        self.address = address
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(*self.address))
        self._peers.append(peer)
        return peer

    async def until_gone(self, topic: str) -> None:
        """Wait until the server has noticed that the only broker of *topic* is gone."""
        async with asyncio.timeout(60):
            while self.server.routes.route(topic) is not None:  # noqa: ASYNC110 - a table has no events
                await asyncio.sleep(0)

    async def close_peers(self) -> None:
        for peer in self._peers:
            await peer.close()


@asynccontextmanager
async def running(
    home: Path,
    config: NamesrvConfig = NamesrvConfig(),  # noqa: B008 - frozen
    *,
    scan_seconds: float = 3600.0,
) -> AsyncIterator[Running]:
    clock = ManualClock(0)
    async with NameServer(config, home, now_ms=clock, scan_seconds=scan_seconds) as server:
        talk = Running(server, clock, await server.start("127.0.0.1", 0))
        try:
            yield talk
        finally:
            await talk.close_peers()
