"""TCP proxy with faults: it swallows, delays, stalls, cuts and half-closes connections. Knows no protocol.

    async with Proxy(("127.0.0.1", 10911)) as proxy:     clients connect to proxy.address
        proxy.latency_s = 0.2            every byte arrives that much later, in both directions
        proxy.stall(); proxy.go_on()     connections stay, bytes wait; new connections are accepted: a hung server
        proxy.swallow()                  connections stay, their bytes are lost for good; new connections work
        proxy.cut()                      connections are reset
        proxy.cut_after([1_500])         the next connection is reset after 1,500 bytes of the server's
        proxy.half_close()               clients read the end of the stream, and can still write
        proxy.refusing = True            new connections are closed as soon as they are accepted
        proxy.garbage = b"HTTP/1.1 400"  clients read this in place of every answer, until it is b"" again

`threads.in_thread` runs a proxy for tests that block; `proxied` has a whole cluster behind proxies.
"""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 1 << 16
_CHUNKS_UNDER_WAY: Final = 64  # then the sender has to wait, as on any connection
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port of this machine and passes every byte to *target*, which may be set after the start.

    `connections` counts those that are open; `cuts` counts those that `cut_after` has reset.
    """

    def __init__(self, target: tuple[str, int] | None = None) -> None:
        self.target = target
        self.latency_s = 0.0
        self.refusing = False
        self.garbage = b""
        self.port = 0
        self.cuts = 0
        self.passing = asyncio.Event()  # cleared while it stalls
        self.passing.set()
        self._cut_after: deque[int] = deque()
        self._server: asyncio.Server | None = None
        self._lines: dict[asyncio.Task[None], _Line] = {}

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        lines = list(self._lines)
        self.cut()
        if lines:
            await asyncio.wait(lines)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._lines)

    def cut(self) -> None:
        """Reset every open connection."""
        for task in self._lines:
            task.cancel()

    def cut_after(self, server_bytes: Iterable[int]) -> None:
        """Reset the next connections, each after this many bytes from the server; later connections are kept."""
        self._cut_after.extend(server_bytes)

    def stall(self) -> None:
        """Pass nothing, on open and on new connections, until `go_on`."""
        self.passing.clear()

    def go_on(self) -> None:
        """End `stall`: held bytes arrive."""
        self.passing.set()

    def swallow(self) -> None:
        """Lose all further bytes of the open connections silently. New connections work."""
        for line in self._lines.values():
            line.swallowed = True

    def half_close(self) -> None:
        """End the stream from the server to the client of every open connection; the reverse direction works."""
        for line in self._lines.values():
            line.end_answers()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("the loop accepts connections in a task")
        line = self._lines[task] = _Line(self, reader, writer, self._cut_after.popleft() if self._cut_after else None)
        try:
            if not self.refusing and self.target is not None:
                await line.run(self.target)
        except (asyncio.CancelledError, OSError):
            pass  # cut, by a test or by one of the two sides
        finally:
            del self._lines[task]
            _abort(writer)


class _Line:
    """One connection through the proxy."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut_after: int | None
    ) -> None:
        self._proxy, self._reader, self._writer, self._cut_after = proxy, reader, writer, cut_after
        self._answers_ended = False
        self.swallowed = False

    async def run(self, target: tuple[str, int]) -> None:
        """Run until both directions have ended, or one of them is reset."""
        server_reader, server_writer = await asyncio.open_connection(*target)
        try:
            await _together(
                self._pass(self._reader, server_writer, self._asked),
                self._pass(server_reader, self._writer, self._answered),
            )
        finally:
            _abort(server_writer)

    def end_answers(self) -> None:
        """Send the client the end of the server's stream."""
        self._answers_ended = True
        self._writer.write_eof()

    def _asked(self, chunk: bytes) -> bytes:
        return chunk

    def _answered(self, chunk: bytes) -> bytes:
        """Return the part of *chunk* that the client is to read; nothing after its stream has ended."""
        chunk = self._proxy.garbage or chunk
        if self._cut_after is not None:
            chunk, self._cut_after = chunk[: self._cut_after], self._cut_after - len(chunk)
        return b"" if self._answers_ended else chunk

    def _must_go_on(self) -> None:
        if self._cut_after is not None and self._cut_after <= 0:
            self._proxy.cuts += 1
            raise ConnectionResetError("cut by the test")

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, allowed: Callable[[bytes], bytes]
    ) -> None:
        """Pass the bytes of *reader*, and their end, each piece at its time."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY)
        await _together(self._read(reader, under_way), self._write(under_way, writer, allowed))

    async def _read(self, reader: asyncio.StreamReader, under_way: "asyncio.Queue[tuple[float, bytes]]") -> None:
        loop = asyncio.get_running_loop()
        chunk = b"."
        while chunk:
            chunk = await reader.read(_CHUNK_BYTES)
            await under_way.put((loop.time() + self._proxy.latency_s, chunk))

    async def _write(
        self,
        under_way: "asyncio.Queue[tuple[float, bytes]]",
        writer: asyncio.StreamWriter,
        allowed: Callable[[bytes], bytes],
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await under_way.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._proxy.passing.wait()
            if self.swallowed:
                continue  # also the end: the peer is never notified
            if not chunk:
                if writer.can_write_eof() and not writer.is_closing():
                    writer.write_eof()
                return
            if passed := allowed(chunk):
                writer.write(passed)
                await writer.drain()
            self._must_go_on()


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them; the first failure cancels the rest."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close so that the peer sees a reset, even with unread bytes."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
