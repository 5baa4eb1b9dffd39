"""A master, its slaves and a name server in one process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.broker.replica.slave_side import SlaveSide
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.store.config import StoreConfig
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.waiting import eventually

NAME = "broker-a"


@dataclass(frozen=True)
class Pair:
    """Brokers that run, and the name server's address."""

    namesrv: str
    master: Broker
    slave: Broker

    @property
    def side(self) -> SlaveSide:
        return side_of(self.slave)

    async def caught_up(self) -> None:
        """Wait until the slave has the whole log of its master."""
        await eventually(
            lambda: self.slave.store.max_log_offset == self.master.store.max_log_offset, "the slave has the whole log"
        )

    async def synced(self) -> None:
        """Wait for a copy of all tables that began after this call."""
        await synced(self.slave)


def side_of(slave: Broker) -> SlaveSide:
    assert slave.slave_side is not None
    return slave.slave_side


async def synced(slave: Broker) -> None:
    """Copy the tables of the slave's master once."""
    side = side_of(slave)
    await eventually(lambda: side.sync.master is not None, "the slave knows its master")
    assert await side.sync.copy(side.sync.master or "")


def slave_config(namesrv: str, **settings: Any) -> BrokerConfig:
    """Return the settings of a slave of `NAME`."""
    chosen = {"broker_id": 1, "namesrv_addr": namesrv, **settings}
    return BrokerConfig(broker_name=NAME, broker_role=BrokerRole.SLAVE, **chosen)


@asynccontextmanager
async def running_name_server(home: Path) -> AsyncIterator[str]:
    async with NameServer(NamesrvConfig(), home / "namesrv") as name_server:
        yield format_address(await name_server.start(HOST, 0))


@asynccontextmanager
async def running_master(
    home: Path, namesrv: str, store: StoreConfig | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    config = BrokerConfig(broker_name=NAME, namesrv_addr=namesrv, **settings)
    async with running_broker(home, config, store) as master:
        await master.registration.until_registered()
        yield master


@asynccontextmanager
async def running_slave(
    home: Path, namesrv: str, store: StoreConfig | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    async with running_broker(home, slave_config(namesrv, **settings), store) as slave:
        await slave.registration.until_registered()
        yield slave


@asynccontextmanager
async def running_pair(
    home: Path, *, master: dict[str, Any] | None = None, **slave_settings: Any
) -> AsyncIterator[Pair]:
    """Run a master and a slave that follows it; *master* and *slave_settings* are fields of BrokerConfig."""
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(running_name_server(home))
        first = await stack.enter_async_context(running_master(home / "master", namesrv, **(master or {})))
        second = await stack.enter_async_context(running_slave(home / "slave", namesrv, **slave_settings))
        await eventually(lambda: side_of(second).is_connected, "the slave is connected")
        yield Pair(namesrv, first, second)
