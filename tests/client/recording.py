"""Stands between clients and a broker, and writes down what the clients ask: real frames, from a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hanabi.remoting.address import parse_address
from hanabi.wire.command import Command, decode_command
from hanabi.wire.frame import FrameDecoder

HOST = "127.0.0.1"


class Recorder:
    """`requests` are those of all clients, in the order in which they came. `address` is where clients connect to."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self.address = ""
        self.requests: list[Command] = []

    def of(self, *codes: int) -> list[Command]:
        """Return the requests with these codes."""
        return [request for request in self.requests if request.code in codes]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes in both directions until one side has enough."""
        to_broker = await asyncio.open_connection(*parse_address(self._broker))
        decoder = FrameDecoder()

        def note(data: bytes) -> None:
            commands = (decode_command(bytes(frame)) for frame in decoder.feed(data))
            self.requests += [command for command in commands if not command.is_response]

        there = asyncio.create_task(_carry(reader, to_broker[1], note))
        back = asyncio.create_task(_carry(to_broker[0], writer, lambda _: None))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            for each in (writer, to_broker[1]):
                each.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]) -> None:
    while data := await reader.read(1 << 16):
        note(data)
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def recording(broker: str) -> AsyncIterator[Recorder]:
    """Yield a recorder in front of the broker at this address: give clients it in their address map."""
    recorder = Recorder(broker)
    server = await asyncio.start_server(recorder.connected, HOST, 0)
    host, port = server.sockets[0].getsockname()[:2]
    recorder.address = f"{host}:{port}"
    async with server:
        yield recorder
