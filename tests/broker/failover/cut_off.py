"""Brokers in controller mode behind proxies, so that each of them can be cut off from the controller and its slaves.

Clients still reach a broker that is cut off: the worst case, since it may answer them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hanabi.remoting.address import parse_address
from hanabi.testing.proxy import Proxy
from tests.broker.replica.replicas import SAFE, Replicas, running_replicas
from tests.interop.processes import free_port

HA_HOST = "127.0.0.2"  # the proxies' side of the ports for slaves


class HaProxy(Proxy):
    """A proxy in front of a port for slaves: the same port of another address."""

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, HA_HOST, port)
        self.port = port


@dataclass
class CutOff:
    """A group whose members can be cut off by their number."""

    replicas: Replicas
    to_controller: dict[int, Proxy] = field(default_factory=dict)
    from_slaves: dict[int, HaProxy] = field(default_factory=dict)

    def cut(self, number: int) -> None:
        """Let nothing pass between this broker, the controller and its slaves. No connection is closed."""
        self.to_controller[number].stall()
        for proxy in self.from_slaves.values():
            proxy.stall()  # also what it follows itself

    def join(self, number: int) -> None:
        """End that. Bytes that were under way are lost, as after a real partition that lasted."""
        for proxy in (self.to_controller[number], *self.from_slaves.values()):
            proxy.cut()
            proxy.go_on()


SETTINGS: dict[str, Any] = {
    **SAFE,
    "controller_heartbeat_timeout_ms": 1_500,
    "heartbeat_interval_ms": 200,
    "housekeeping_interval_ms": 1_500,
    "reconnect_interval_ms": 300,
    "slave_timeout_ms": 1_000,
    "check_sync_set_period_ms": 500,
    "sync_metadata_period_ms": 300,
    "ha_advertised_host": HA_HOST,
}


@asynccontextmanager
async def running_cut_off(home: Path, count: int = 3) -> AsyncIterator[CutOff]:
    """Run *count* brokers with the safe settings."""
    async with AsyncExitStack() as stack:
        replicas = await stack.enter_async_context(running_replicas(home, 0))
        group = CutOff(replicas)
        for number in range(1, count + 1):
            to_controller, from_slaves = Proxy(parse_address(replicas.controller)), HaProxy()
            port = free_port()
            await to_controller.start()
            await from_slaves.start(port)
            from_slaves.target = ("127.0.0.1", port)
            for proxy in (to_controller, from_slaves):
                stack.push_async_callback(proxy.stop)
            group.to_controller[number], group.from_slaves[number] = to_controller, from_slaves
        stack.push_async_callback(_stop_all, replicas)
        for number in range(1, count + 1):
            await replicas.start(
                number,
                controller_addr=group.to_controller[number].address,
                ha_listen_port=group.from_slaves[number].port,
                **SETTINGS,
            )
        yield group


async def _stop_all(replicas: Replicas) -> None:
    for number in list(replicas.brokers):
        await replicas.stop(number)
