"""A TCP proxy of our own between clients and a server: it can cut, refuse, delay and stall. Knows no protocol.

proxy = Proxy(("127.0.0.1", 10911));  await proxy.start(port)
proxy.latency_s = 0.2        every byte comes so much later, in both directions
proxy.cut()                  connections end at once, as if somebody had pulled the cable and put it back
proxy.refusing = True        new ones are closed as soon as they are accepted
proxy.stall(); proxy.go_on() connections stay and nothing passes
"""

import asyncio
import contextlib
import socket
import struct

_CHUNK_BYTES = 1 << 16
_CHUNKS_UNDER_WAY = 64  # then the sender has to wait, as on any line
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port of this machine and passes everything to *target*."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.latency_s = 0.0
        self.refusing = False
        self.port = 0
        self._passing = asyncio.Event()
        self._passing.set()
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        lines = list(self._lines)
        self.cut()
        if lines:
            await asyncio.wait(lines)

    @property
    def connections(self) -> int:
        return len(self._lines)

    def cut(self) -> None:
        """End every connection that there is."""
        for line in self._lines:
            line.cancel()

    def stall(self) -> None:
        self._passing.clear()

    def go_on(self) -> None:
        self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        try:
            await self._join(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass  # cut, by us or by one of the two
        finally:
            self._lines.discard(line)
            _abort(writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            return
        server_reader, server_writer = await asyncio.open_connection(*self.target)
        try:
            ways = (self._pass(reader, server_writer), self._pass(server_reader, writer))
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            _abort(server_writer)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Everything that *reader* gives goes to *writer*, each piece when its time has come."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY)

        async def write() -> None:
            while True:
                due, chunk = await under_way.get()
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self._passing.wait()
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()

        writing = asyncio.ensure_future(write())
        try:
            while not writing.done():
                chunk = await reader.read(_CHUNK_BYTES)
                await under_way.put((loop.time() + self.latency_s, chunk))
                if not chunk:
                    await writing
                    return
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await writing


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side sees a reset, whatever it was about to read."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
