"""Whole brokers that are masters, sends to them, and slaves of several tempers."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.remoting.address import parse_address
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.slave import Slave
from hanabi.store.config import FlushMode
from hanabi.testing.cluster import running_broker, small_store
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.broker.talk import Peer
from tests.replication.logs import MemoryLog, running_slave, until

TOPIC = "TopicTest"  # every new broker has it
SEGMENT = 1 << 20  # of `small_store`
QUICK = ReplicationConfig(heartbeat_interval_ms=50, reconnect_interval_ms=50)
_WAIT = "UNIQ_KEY\x017F00000100000000\x02WAIT\x01true"


@asynccontextmanager
async def sync_master(
    home: Path, *, flush: FlushMode = FlushMode.ASYNC_FLUSH, role: BrokerRole = BrokerRole.SYNC_MASTER, **settings: Any
) -> AsyncIterator[Broker]:
    """Yield a master on free ports; `ha_address` is where its slaves connect to."""
    config = BrokerConfig(broker_name="broker-a", broker_role=role, heartbeat_interval_ms=100, **settings)
    async with running_broker(home, config, small_store(home, flush_mode=flush)) as broker:
        yield broker


def ha_address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.settings.broker.ha_listen_port}"


@asynccontextmanager
async def following(broker: Broker, log: MemoryLog | None = None) -> AsyncIterator[Slave]:
    """Yield a slave that copies *broker*'s log into memory, and has caught up."""
    log = log or MemoryLog(file_bytes=SEGMENT)
    async with running_slave(log, ha_address(broker), QUICK) as slave:
        await until(lambda: broker.master_side.acks.slaves and log.end_offset == broker.store.max_log_offset)
        yield slave


class MuteSlave:
    """A slave that asks for the log, reads it, and acknowledges only what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._reading = asyncio.create_task(reader.read())

    def acknowledge(self, offset: int) -> None:
        self._writer.write(struct.pack(">q", offset))

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


@asynccontextmanager
async def mute_slave(broker: Broker, start: int | None = None) -> AsyncIterator[MuteSlave]:
    """Yield a slave that holds the log up to *start*, or up to its end."""
    host, port = parse_address(ha_address(broker))
    slave = MuteSlave(*await asyncio.open_connection(host, port))
    slave.acknowledge(broker.store.max_log_offset if start is None else start)
    try:
        await until(lambda: broker.master_side.acks.slaves)
        yield slave
    finally:
        await slave.close()


@asynccontextmanager
async def refused_slave(broker: Broker) -> AsyncIterator[None]:
    """Yield a peer that is no slave, and has been told so."""
    host, port = parse_address(ha_address(broker))
    _, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: broker.master_side.master.refusals)
    yield
    writer.close()


def fields(properties: str = _WAIT, *, batch: bool = False) -> dict[str, str]:
    plain = {"a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000123", "h": "0"}
    return {**plain, "i": properties, "j": "0", "k": "false", "m": str(batch).lower()}


def start_send(peer: Peer, body: bytes, properties: str = _WAIT) -> asyncio.Future[Command]:
    return peer.start(RequestCode.SEND_MESSAGE_V2, fields(properties), body)


async def send(peer: Peer, body: bytes = b"one", properties: str = _WAIT) -> Command:
    return await peer.ask(RequestCode.SEND_MESSAGE_V2, fields(properties), body)


async def send_batch(peer: Peer, *bodies: bytes) -> Command:
    parts = encode_batch([BatchMessage(0, body, b"") for body in bodies])
    return await peer.ask(RequestCode.SEND_BATCH_MESSAGE, fields("WAIT\x01true", batch=True), parts)


def log_of(broker: Broker) -> bytes:
    """Return the bytes of a log of one file."""
    tail = broker.store.read_log(0)
    return b"" if tail is None else bytes(tail)
