"""The parts that administration looks at, real ones, small: a store, tables, figures, and a server that answers."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.message_store import PutStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import Header
from tests.broker.clients.people import Recorder, a_client, a_consumer, subscribed
from tests.broker.talk import Peer, connected, serving
from tests.store.stores import message, open_store, small_config

BROKER = "broker-a"
CLUSTER = "C"
ADDRESS = "192.0.2.7:10911"

T = TypeVar("T")


class World:
    """Everything administration needs, without the rest of a broker. Close it."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.clock = ManualClock()
        broker = BrokerConfig(broker_name=BROKER, cluster_name=CLUSTER, **settings)  # type: ignore[arg-type]
        self.settings = Settings(broker, small_config(root))
        self.topics = Topics(None, self.settings, self.clock)
        self.groups = Groups(None, self.settings, self.clock)
        self.offsets = ConsumerOffsets(None)
        self.stats = BrokerStats(CLUSTER, self.clock)
        self.producers = Producers(self.clock)
        self.filters = ConsumerFilters(None, self.settings, self.clock)
        self.heard = Recorder()
        self.consumers = Consumers(self.heard, self.heard, self.clock)
        self.locks = QueueLocks(self.clock)
        self.store = open_store(root, clock=self.clock)
        self.registrations = 0
        self.delay_offsets = {1: 0, 3: 5}

    async def registered(self) -> None:
        self.registrations += 1

    def topic(self, name: str = "T", queues: int = 2, **settings: object) -> None:
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **settings)  # type: ignore[arg-type]
        self.topics.update(config)

    def put(self, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, **properties: str) -> int:
        """Store one message; return where it lies in the log."""
        result = self.store.put(message(body, topic=topic, queue_id=queue_id, properties=properties))
        assert result.status is PutStatus.PUT_OK
        self.stats.put(topic, 1, result.appended[0].size, queue_id)
        return result.appended[0].log_offset

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.ms += 1000
            self.stats.tick()

    def consumer(self, group: str, *topics: str, client_id: str = "c1") -> Client:
        """Return a member of *group* that subscribes to all of *topics*."""
        client = a_client(client_id)
        self.consumers.heartbeat(client, a_consumer(group, *map(subscribed, topics)))
        return client

    def queue(self, queue_id: int = 0, topic: str = "T") -> MessageQueue:
        return MessageQueue(topic, BROKER, queue_id)

    def close(self) -> None:
        self.store.close()


class Admin:
    """Asks, and looks at the answer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def ask(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, version: int = 409
    ) -> Command:
        """Return the answer, which must be yes."""
        reply = await self.peer.ask(code, header, body, version=version)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    async def read(self, kind: type[T], code: int, header: Header | None = None, body: bytes = b"") -> T:
        """Return the body of an answer that must be yes."""
        return decode_body((await self.ask(code, header, body)).body, kind)

    async def refused(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, str]:
        """Return the code and the remark of an answer that must be no."""
        reply = await self.peer.ask(code, header, body)
        assert reply.code != ResponseCode.SUCCESS
        return reply.code, reply.remark or ""


@asynccontextmanager
async def asking(
    root: Path, handlers: Callable[[World], dict[int, Handler]], **settings: object
) -> AsyncIterator[tuple[World, Admin]]:
    """Yield a world whose *handlers* answer, and a client."""
    world = World(root, **settings)
    try:
        async with serving(handlers(world)) as address, connected(address) as peer:
            yield world, Admin(peer)
    finally:
        world.close()
