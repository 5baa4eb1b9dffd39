"""Servers of a pair: a name server, two brokers of which one is the master, and the link between them as a proxy."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from chaos.pair.plan import PairFault, Planned
from chaos.servers import Server, broker_server, namesrv_server
from hanabi.admin import Admin, Where
from hanabi.admin.replication_report import SlaveState
from hanabi.errors import InvalidParameter, MQError
from hanabi.testing.proxy import Proxy
from tests.interop.processes import free_port

NAME: Final = "broker-a"
TOPIC: Final = "PairChaos"
HOST: Final = "127.0.0.1"
LATENCY_S: Final = 0.15
JOIN_S: Final = 60.0
LOOK_S: Final = 0.1
# A dead link is noticed within seconds, so that a short run has more than one fault.
QUICK: Final = {
    "haHousekeepingInterval": 2_000,
    "haSendHeartbeatInterval": 500,
    "haReconnectInterval": 500,
    "slaveTimeout": 1_000,
    "registerNameServerPeriod": 10_000,
}


class Pair:
    """A running pair. `master_home` and `slave_home` change places at a promotion."""

    def __init__(self, home: Path, role: str, namesrv: str) -> None:
        self._home, self._role, self.namesrv = home, role, namesrv
        self._ports = {"one": free_port(beside=(-2, 1)), "two": free_port(beside=(-2, 1))}
        self._link = Proxy()
        self._generation = 0
        self.places = ["one", "two"]  # the master's, the slave's
        self.master, self.slave = self._server("one", is_master=True), self._server("two", is_master=False)

    @property
    def slave_home(self) -> Path:
        return self._home / self.places[1]

    def _server(self, place: str, *, is_master: bool) -> Server:
        logs = self._home / f"logs-{self._generation}-{place}"
        logs.mkdir(parents=True, exist_ok=True)
        port = self._ports[place]
        settings: dict[str, object] = {**QUICK, "flushDiskType": "ASYNC_FLUSH"}
        if is_master:
            settings |= {"brokerRole": self._role, "brokerId": 0}
        else:
            settings |= {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": self._link.address}
        return broker_server(NAME, logs, self._home / place, (port, port), self.namesrv, settings, {})

    async def start(self) -> None:
        """Start both, and wait until the slave is in sync."""
        await self._link.start(self._link.port or free_port())
        self._link.target = (HOST, self._ports[self.places[0]] + 1)
        self.master = self._server(self.places[0], is_master=True)
        self.slave = self._server(self.places[1], is_master=False)
        for server in (self.master, self.slave):
            await asyncio.to_thread(server.start)
        await self.until_in_sync()

    async def until_in_sync(self) -> None:
        async with asyncio.timeout(JOIN_S), Admin(namesrv=self.namesrv) as admin:
            while not await self._is_in_sync(admin):  # noqa: ASYNC110 - another process is waited for
                await asyncio.sleep(LOOK_S)

    async def _is_in_sync(self, admin: Admin) -> bool:
        try:
            (found,) = await admin.replication.all(Where(broker=NAME))
        except (MQError, ValueError):
            return False  # the name server does not know them yet
        is_in_sync = [(slave.state, slave.lag_bytes) for slave in found.slaves] == [(SlaveState.IN_SYNC, 0)]
        return is_in_sync and (not found.log_end or self._can_be_promoted())

    def _can_be_promoted(self) -> bool:
        """Return whether the slave knows the ends of its master's queues: before that it refuses to be promoted."""
        path = self.slave_home / "config" / "replica.json"
        return path.exists() and b'"isKnown":true' in path.read_bytes()

    async def play(self, fault: Planned) -> None:
        """Do it, and heal it."""
        killed = {
            PairFault.MASTER_KILL: (self.master,),
            PairFault.SLAVE_KILL: (self.slave,),
            PairFault.BOTH_KILL: (self.master, self.slave),
        }
        paused = {PairFault.MASTER_PAUSE: self.master, PairFault.SLAVE_PAUSE: self.slave}
        if fault.kind in killed:
            await _kill(killed[fault.kind], fault.seconds)
        elif fault.kind in paused:
            await _pause(paused[fault.kind], fault.seconds)
        else:
            await self._disturb_link(fault)

    async def _disturb_link(self, fault: Planned) -> None:
        link = self._link
        if fault.kind is PairFault.LINK_DELAY:
            link.latency_s = LATENCY_S
        elif fault.kind is PairFault.LINK_MUTE:
            link.swallow()
        else:
            link.refusing = True
            link.cut()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            link.latency_s, link.refusing = 0.0, False

    async def lose_master(self) -> None:
        """Kill the master, then the slave, and close the link: nothing more can reach the slave."""
        await asyncio.to_thread(self.master.kill)
        await asyncio.to_thread(self.slave.kill)
        self._link.cut()

    async def promote(self) -> None:
        """Make the slave the master, with an empty slave in the place of the old master."""
        await asyncio.to_thread(shutil.rmtree, self._home / self.places[0])
        self.places.reverse()
        self._generation += 1
        await self._link.stop()
        await self.start()

    async def stop(self) -> None:
        for server in (self.master, self.slave):
            await asyncio.to_thread(server.kill)
        await self._link.stop()


async def _kill(servers: tuple[Server, ...], seconds: float) -> None:
    for server in servers:
        await asyncio.to_thread(server.kill)
    await asyncio.sleep(seconds)
    for server in servers:
        await asyncio.to_thread(server.start)


async def _pause(server: Server, seconds: float) -> None:
    server.pause()
    try:
        await asyncio.sleep(seconds)
    finally:
        server.go_on()


@asynccontextmanager
async def running_pair(home: Path, role: str) -> AsyncIterator[Pair]:
    """A pair in sync, in an existing folder; ended in any case."""
    async with AsyncExitStack() as undo:
        port = free_port()
        namesrv = namesrv_server(home, port)
        undo.callback(namesrv.kill)
        await asyncio.to_thread(namesrv.start)
        pair = Pair(home, role, f"{HOST}:{port}")
        undo.push_async_callback(pair.stop)
        await pair.start()
        yield pair


async def make_topic(namesrv: str) -> None:
    """Create the topic if it is missing: a slave that is promoted early has not copied it yet."""
    async with Admin(namesrv=namesrv) as admin:
        with contextlib.suppress(InvalidParameter):  # it is there
            await admin.topics.create(TOPIC, read_queues=4, write_queues=4)
