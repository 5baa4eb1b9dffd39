"""A simulated network: connections with delays, links that are cut, requests that are lost, repeated or late.

A connection delivers its bytes in order, as TCP does, while its link is whole; on a cut link they wait. A request to
the controller may overtake another one, be executed twice, or be executed long after its sender has given up.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from hanabi.errors import ConnectError, RequestTimeoutError
from tests.simulation.virtual_loop import TURN_SECONDS

LATE_SECONDS_MAX = 15.0  # that a request may wait for a link
WAIT_SECONDS = 0.05  # how often a delivery on a cut link is tried again


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", host: str, peer: str) -> None:
        super().__init__()
        self._network, self.host, self._peer_host = network, host, peer
        self.protocol: Any = None
        self.other: Transport | None = None
        self.is_open = True
        self._arrives_at = 0.0
        self._inbox: list[bytes | None] = []  # None: the end
        self._is_reading = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer_host, 40_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def is_closing(self) -> bool:
        return not self.is_open

    def write(self, data: Any) -> None:
        if self.is_open and data:
            self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def abort(self) -> None:
        if self.is_open:
            self._send(None)
            self.lost()

    close = abort

    def lost(self) -> None:
        """End this side."""
        if self.is_open:
            self.is_open = False
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def vanish(self) -> None:
        """End this side without a word to the other: its host has crashed."""
        self.is_open = False

    def _send(self, data: bytes | None) -> None:
        if self.other is not None:
            loop = asyncio.get_running_loop()
            self._arrives_at = max(self._arrives_at + TURN_SECONDS, loop.time() + self._network.delay())
            loop.call_at(self._arrives_at, self.other.arrived, data)

    def arrived(self, data: bytes | None) -> None:
        self._inbox.append(data)
        if not self._is_reading:
            self._read()

    def _read(self) -> None:
        self._is_reading = False
        while self._inbox and self.is_open:
            if not self._network.is_whole(self.host, self._peer_host):
                self._is_reading = True
                asyncio.get_running_loop().call_later(WAIT_SECONDS, self._read)
                return
            data = self._inbox.pop(0)
            if data is None:
                self.lost()
            elif isinstance(self.protocol, asyncio.BufferedProtocol):
                self._fill(data)
            else:
                self.protocol.data_received(data)

    def _fill(self, data: bytes) -> None:
        while data and self.is_open:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.protocol.buffer_updated(size)
            data = data[size:]


class Server:
    """A port that listens."""

    def __init__(self, network: "Network", address: tuple[str, int]) -> None:
        self._network, self._address = network, address

    def close(self) -> None:
        self._network.servers.pop(self._address, None)


class Network:
    """All hosts. *rng* decides about delays and losses."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self.servers: dict[tuple[str, int], Callable[[], Any]] = {}
        self.transports: list[Transport] = []
        self.cut: set[frozenset[str]] = set()  # links between two hosts
        self.slowness = 0.002
        self.loss = 0.0
        self.caller: Callable[[], str] = lambda: ""  # the host whose code runs now

    def delay(self) -> float:
        """Return the delay of one delivery: short as a rule, sometimes long."""
        slowness = self.slowness
        return self._random.expovariate(1 / (slowness * (50 if self._random.random() < 0.02 else 1)))

    def is_whole(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cut

    # Connections

    def listen(self, new_protocol: Callable[[], Any], host: str, port: int) -> Server:
        self.servers[host, port] = new_protocol
        return Server(self, (host, port))

    async def connect(self, new_protocol: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        own = self.caller()
        await asyncio.sleep(self.delay())
        accept = self.servers.get((host, port))
        if accept is None or not self.is_whole(own, host):
            await asyncio.sleep(0.5)
            raise ConnectionRefusedError(f"{host}:{port} does not answer")
        near, far = Transport(self, own, host), Transport(self, host, own)
        near.other, far.other = far, near
        near.protocol, far.protocol = new_protocol(), accept()
        self.transports = [each for each in self.transports if each.is_open]
        self.transports += (near, far)
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def host_crashed(self, host: str, *, is_noticed: bool) -> None:
        """End all connections of *host*. Its peers learn that at once, or only by its silence."""
        for address in [address for address in self.servers if address[0] == host]:
            del self.servers[address]
        for transport in self.transports:
            if transport.host == host and transport.is_open:
                if is_noticed and transport.other is not None:
                    asyncio.get_running_loop().call_later(self.delay(), transport.other.arrived, None)
                transport.vanish()

    # Requests

    async def call(self, own: str, host: str, execute: Callable[[], Any], seconds: float) -> Any:
        """Execute a request at *host*; it may be lost, late or repeated, and so may its answer."""
        if not self.is_whole(own, host):
            await asyncio.sleep(min(seconds, 1.0))
            raise ConnectError(f"{host} does not answer")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        async def run() -> None:
            until = loop.time() + LATE_SECONDS_MAX
            while not self.is_whole(own, host):
                if loop.time() > until:
                    return  # the connection has ended meanwhile
                await asyncio.sleep(WAIT_SECONDS)
            try:
                result = await execute()
            except Exception as error:  # noqa: BLE001 - travels back to the caller
                loop.call_later(self.delay(), _fail, answer, error)
            else:
                if self.is_whole(own, host) and self._random.random() >= self.loss:
                    loop.call_later(self.delay(), _answer, answer, result)

        executions = 0 if self._random.random() < self.loss else 1 + (self._random.random() < self.loss)
        for _ in range(executions):
            late = 6.0 * self._random.random() if self._random.random() < self.loss else 0.0
            loop.call_later(self.delay() + late, lambda: _keep(loop.create_task(run())))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise RequestTimeoutError(f"no answer of {host} in {seconds} s") from None


_TASKS: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
