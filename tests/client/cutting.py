"""Stands between clients and a broker, and resets a connection in the middle of what the broker says."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from hanabi.remoting.address import parse_address

HOST = "127.0.0.1"


class Cutter:
    """*cuts*: after so many bytes of the broker the first connection is reset, and so on; the others are not."""

    def __init__(self, broker: str, cuts: Iterable[int]) -> None:
        self._broker, self._cuts = broker, deque(cuts)
        self.address = ""
        self.made = 0  # resets

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._cuts.popleft() if self._cuts else None
        from_broker, to_broker = await asyncio.open_connection(*parse_address(self._broker))
        there = asyncio.create_task(_carry(reader, to_broker))
        try:
            while data := await from_broker.read(1 << 16):
                if left is not None and len(data) >= left:
                    writer.write(data[:left])
                    await writer.drain()
                    self.made += 1
                    _reset(writer)
                    return
                left = None if left is None else left - len(data)
                writer.write(data)
                await writer.drain()
        except OSError:  # the client has gone
            return
        finally:
            there.cancel()
            await asyncio.gather(there, return_exceptions=True)
            for each in (writer, to_broker):
                each.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """As a peer that crashed, or a firewall: no goodbye."""
    own: socket.socket = writer.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def cutting(broker: str, cuts: Iterable[int]) -> AsyncIterator[Cutter]:
    """In front of the broker at this address: give clients it in their address map."""
    cutter = Cutter(broker, cuts)
    server = await asyncio.start_server(cutter.connected, HOST, 0)
    host, port = server.sockets[0].getsockname()[:2]
    cutter.address = f"{host}:{port}"
    async with server:
        yield cutter
