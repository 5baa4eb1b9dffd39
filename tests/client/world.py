"""A cluster of ours to test clients with: a name server and brokers in this process, on free ports, on real sockets.

    async with world(tmp_path) as cluster:              for asyncio tests, inside asyncio.run(...)
        await cluster.make_topic("T", queues=4)
        config = cluster.config()

For the blocking face, the fixture `cluster_thread` runs the same in a thread of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import ClientConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.threads import Running, in_thread
from hanabi.wire.bodies.topics import TopicConfig

T = TypeVar("T")

# On a slow machine, too, unless something is broken; less than the 20 s after which members share anew by themselves.
SECONDS = 18.0


class World:
    """A running cluster. `broker` is the first of `brokers`."""

    def __init__(self, name_server: NameServer, namesrv: str, brokers: Sequence[Broker]) -> None:
        self.name_server, self.namesrv, self.brokers = name_server, namesrv, list(brokers)

    @property
    def broker(self) -> Broker:
        return self.brokers[0]

    def config(self, **options: Any) -> ClientConfig:
        """How a client reaches this cluster; with *options* in place of the defaults."""
        return ClientConfig(**{"namesrv": self.namesrv, **options})

    async def make_topic(
        self, name: str, *, queues: int = 4, perm: int = 6, brokers: Sequence[Broker] | None = None
    ) -> str:
        """Make a topic on all brokers, or on some; the name server knows it when this returns."""
        for broker in brokers if brokers is not None else self.brokers:
            topic = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            await broker.tables.topics.update(topic)
            await broker.registration.settled()
        return name


@asynccontextmanager
async def world(home: Path, *, brokers: Sequence[str] = ("broker-a",), **broker_settings: Any) -> AsyncIterator[World]:
    """A name server and *brokers* that are registered with it. *broker_settings* are fields of BrokerConfig."""
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), home / "namesrv"))
        namesrv = format_address(await name_server.start(HOST, 0))
        started = []
        for name in brokers:
            config = BrokerConfig(broker_name=name, namesrv_addr=namesrv, **broker_settings)
            started.append(await stack.enter_async_context(running_broker(home / name, config)))
        for broker in started:
            await broker.registration.until_registered()
        yield World(name_server, namesrv, started)


async def eventually(true: Callable[[], object], what: str = "it", seconds: float = SECONDS) -> None:
    """Wait until *true()* is; fail if it does not become so in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not true():
        assert loop.time() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.005)


async def within(work: Awaitable[T], seconds: float = SECONDS) -> T:
    """*work*'s result; a TimeoutError if it takes too long."""
    async with asyncio.timeout(seconds):
        return await work


class WorldThread:
    """A `World` whose loop runs in a thread of its own, for tests that block."""

    def __init__(self, running: Running[World]) -> None:
        self._running, self.world = running, running.it
        self.namesrv = running.it.namesrv

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the cluster's loop."""
        return self._running.run(work, SECONDS)

    def make_topic(self, name: str, *, queues: int = 4) -> str:
        return self.run(self.world.make_topic(name, queues=queues))

    def config(self, **options: Any) -> ClientConfig:
        return self.world.config(**options)


@contextmanager
def world_thread(home: Path, **settings: Any) -> Iterator[WorldThread]:
    """A cluster in a thread."""
    with in_thread(world(home, **settings)) as running:
        yield WorldThread(running)
