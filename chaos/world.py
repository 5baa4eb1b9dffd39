"""The world of a run: a name server, two brokers, a proxy in front of each, producers, consumers, and their histories.

Clients reach everything through the proxies; the brokers reach the name server directly, as in a data centre whose
clients are elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.clients import Clients
from chaos.clock import ClockUnavailable, ShiftedClock, compile_library
from chaos.disk import DiskUnavailable, SmallDisk
from chaos.memory import BrokerMemory, MemoryUnavailable, broker_memory
from chaos.plan import BROKERS, DISK_BROKER, NAMESRV, NEED_SHIM, FaultKind
from chaos.servers import Server, broker_server, namesrv_server
from chaos.traffic import Kind, topic_of
from hanabi.admin import Admin
from hanabi.testing.proxy import Proxy
from tests.faults.shim import Faults, ShimUnavailable, compile_shim, preloaded
from tests.interop.processes import free_port

QUEUES: Final = 4
ORDERLY_QUEUES: Final = 2
DISK_MIB: Final = 192  # and more for each minute
DISK_MIB_A_MINUTE: Final = 24


@dataclass
class World:
    """What runs."""

    home: Path
    history: Path
    namesrv: str  # where clients find it: a proxy
    servers: dict[str, Server]
    proxies: dict[str, Proxy]
    addresses: dict[str, str]  # where brokers really are
    producers: Clients
    consumers: Clients
    clocks: dict[str, ShiftedClock] = field(default_factory=dict)
    systems: dict[str, Faults] = field(default_factory=dict)  # whose calls can be made to fail
    memory: dict[str, BrokerMemory] = field(default_factory=dict)
    disk: SmallDisk | None = None
    impossible: dict[FaultKind, str] = field(default_factory=dict)  # and why

    def check_running(self) -> None:
        """Raise `Died` if something ended that nobody ended."""
        self.producers.check_running()
        self.consumers.check_running()


@asynccontextmanager
async def world(home: Path, kinds: Sequence[Kind], flush: str, minutes: float) -> AsyncIterator[World]:
    """Everything started; everything ended, whatever happens."""
    history, logs = home / "history", home / "logs"
    for folder in (history, logs):
        folder.mkdir(parents=True)
    async with AsyncExitStack() as undo:
        impossible: dict[FaultKind, str] = {}
        clocks, systems = _clocks(logs, impossible), _systems(logs, impossible)
        memory = _memory(undo, impossible)
        disk = _disk(home, int(DISK_MIB + DISK_MIB_A_MINUTE * minutes), impossible)
        if disk is not None:
            undo.callback(disk.unmount)
        namesrv_port = free_port()
        servers = {NAMESRV: namesrv_server(logs, namesrv_port)}
        proxies = {NAMESRV: Proxy(("127.0.0.1", namesrv_port))}
        addresses: dict[str, str] = {}
        ports: dict[str, int] = {}
        for name in BROKERS:
            port = ports[name] = free_port(beside=(-2, 1))
            proxies[name] = Proxy(("127.0.0.1", port))
            addresses[name] = f"127.0.0.1:{port}"
        for proxy in proxies.values():
            await proxy.start(free_port())
            undo.push_async_callback(proxy.stop)
        for name in BROKERS:
            store = (disk.path if disk is not None and name == DISK_BROKER else home) / f"store-{name}"
            servers[name] = broker_server(
                name,
                logs,
                store,
                (ports[name], proxies[name].port),
                f"127.0.0.1:{namesrv_port}",
                {"flushDiskType": flush},
                preloaded(*(each[name].environment for each in (clocks, systems) if name in each)),
                memory[name].launcher if name in memory else (),
            )
        for server in servers.values():
            undo.callback(server.kill)
            await asyncio.to_thread(server.start)
        namesrv = f"127.0.0.1:{proxies[NAMESRV].port}"
        await _make_topics(namesrv, kinds)
        producers = Clients("producing", namesrv, history, logs, kinds)
        consumers = Clients("consuming", namesrv, history, logs, kinds)
        undo.callback(producers.kill_all)
        undo.callback(consumers.kill_all)
        yield World(
            home=home,
            history=history,
            namesrv=namesrv,
            servers=servers,
            proxies=proxies,
            addresses=addresses,
            producers=producers,
            consumers=consumers,
            clocks=clocks,
            systems=systems,
            memory=memory,
            disk=disk,
            impossible=impossible,
        )


def _clocks(folder: Path, impossible: dict[FaultKind, str]) -> dict[str, ShiftedClock]:
    try:
        library = compile_library(folder)
    except ClockUnavailable as error:
        impossible[FaultKind.CLOCK_JUMP] = str(error)
        return {}
    return {name: ShiftedClock(library, folder / f"clock-{name}") for name in BROKERS}


def _systems(folder: Path, impossible: dict[FaultKind, str]) -> dict[str, Faults]:
    try:
        library = compile_shim(folder)
    except ShimUnavailable as error:
        impossible.update(dict.fromkeys(NEED_SHIM, str(error)))
        return {}
    return {name: Faults(library, folder / f"faults-{name}") for name in BROKERS}


def _memory(undo: AsyncExitStack, impossible: dict[FaultKind, str]) -> dict[str, BrokerMemory]:
    try:
        return {name: undo.enter_context(broker_memory(name)) for name in BROKERS}
    except MemoryUnavailable as error:
        impossible[FaultKind.MEMORY_LIMIT] = str(error)
        return {}


def _disk(home: Path, mib: int, impossible: dict[FaultKind, str]) -> SmallDisk | None:
    try:
        return SmallDisk(home / "small-disk", mib)
    except DiskUnavailable as error:
        impossible[FaultKind.DISK_FULL] = str(error)
        return None


async def _make_topics(namesrv: str, kinds: Sequence[Kind]) -> None:
    async with Admin(namesrv=namesrv) as admin:
        for kind in kinds:
            queues = ORDERLY_QUEUES if kind is Kind.ORDERLY else QUEUES
            await admin.topics.create(topic_of(kind), read_queues=queues, write_queues=queues)
