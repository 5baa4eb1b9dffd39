"""Brokers of two names and their name server in one process: broker-a has a slave that may act, broker-b stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import ClientConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.message.record import Record, decode_records
from tests.broker.replica.pairs import running_master, running_slave

TOPIC = "T"
QUICK: dict[str, Any] = {
    "acting_master_enabled": True,
    "remote_escape_enabled": True,
    "slave_read_enabled": True,
    "message_delay_levels": "1s 3s",
    "heartbeat_interval_to_namesrv_ms": 250,
    "transaction_timeout_ms": 100,
    "transaction_check_interval_ms": 500,
}


@dataclass(frozen=True)
class Group:
    """The name server, the slave of broker-a, and broker-b; the master of broker-a comes and goes."""

    home: Path
    server: NameServer
    namesrv: str
    slave: Broker
    other: Broker

    @asynccontextmanager
    async def master(self, **settings: Any) -> AsyncIterator[Broker]:
        """Run the master until it is stopped or the block ends."""
        async with running_master(self.home / "master", self.namesrv, **{**QUICK, **settings}) as master:
            await eventually(lambda: self.slave.slave_side is not None and self.slave.slave_side.is_connected)
            if master.tables.topics.find(TOPIC) is None:
                await create_topic(master, TOPIC, queues=1)
            yield master

    def config(self) -> ClientConfig:
        return ClientConfig(
            namesrv=self.namesrv, route_refresh_s=0.5, heartbeat_s=1.0, persist_offsets_s=0.2, rebalance_s=0.5
        )

    async def until_copied(self, master: Broker) -> None:
        """Wait until the slave has the log and the tables of *master*."""
        side = self.slave.slave_side
        assert side is not None
        await eventually(lambda: self.slave.store.max_log_offset == master.store.max_log_offset, "the log is copied")
        await eventually(lambda: side.sync.master is not None, "the slave knows its master")
        async with asyncio.timeout(30):
            # The copying of the slave itself may be under way, and then one of the two fails.
            while not await side.sync.copy(side.sync.master or ""):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def until_acting(self, acts: bool = True) -> None:
        acting = self.slave.acting
        assert acting is not None
        await eventually(lambda: acting.stand_in.is_acting is acts, f"the slave acts: {acts}")


@asynccontextmanager
async def running_group(home: Path, **slave: Any) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        config = NamesrvConfig(support_acting_master=True, notify_min_broker_id_changed=True)
        server = await stack.enter_async_context(NameServer(config, home / "namesrv", scan_seconds=0.5))
        namesrv = format_address(await server.start(HOST, 0))
        other_config = BrokerConfig(
            broker_name="broker-b",
            namesrv_addr=namesrv,
            transaction_timeout_ms=100,
            transaction_check_interval_ms=500,
        )
        other = await stack.enter_async_context(running_broker(home / "other", other_config))
        await other.registration.until_registered()
        await create_topic(other, TOPIC, queues=1)
        slave_broker = await stack.enter_async_context(running_slave(home / "slave", namesrv, **{**QUICK, **slave}))
        yield Group(home, server, namesrv, slave_broker, other)


def records(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
    """Return all messages of a queue."""
    reader, found = broker.store.reader, []
    offset, end = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
    while offset < end:
        result = broker.store.get(topic, queue_id, offset, 32)
        found += [record for piece in result.slices for record in decode_records(bytes(piece))]
        offset = result.next_offset
    return found


def bodies(broker: Broker, topic: str = TOPIC) -> list[bytes]:
    return sorted(bytes(record.body) for record in records(broker, topic))
