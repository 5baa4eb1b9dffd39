"""Name server and brokers in this process, on free ports: for asynchronous tests of Hanabi and of its users.

async with running_cluster(tmp_path) as cluster:
    cluster.namesrv      "127.0.0.1:40123", for clients
    cluster.broker       the broker itself: its parts are attributes
    await cluster.create_topic("Orders", queues=4)

`embedded` has the same in a thread, for tests that block.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import ClientConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.store.config import StoreConfig
from hanabi.testing.topics import READ_WRITE, create_topic

HOST = "127.0.0.1"


def small_store(root: Path, **settings: object) -> StoreConfig:
    """Make the configuration of a store with short files, so that it is cheap to create."""
    plain = StoreConfig(
        root=str(root),
        commit_log_segment_bytes=1 << 20,
        consume_queue_segment_bytes=20 * 1_000,
        index_slots=128,
        index_entries=1_024,
    )
    return msgspec.structs.replace(plain, **settings)


@dataclass(frozen=True)
class Cluster:
    """A running cluster. `broker` is the first of `brokers`, `address` is that broker's."""

    name_server: NameServer
    namesrv: str
    brokers: Sequence[Broker]

    @property
    def broker(self) -> Broker:
        return self.brokers[0]

    @property
    def address(self) -> str:
        return self.broker.address

    def config(self, **options: Any) -> ClientConfig:
        """Make the configuration of a client of this cluster, with *options* in place of the defaults."""
        return ClientConfig(**{"namesrv": self.namesrv, **options})

    async def create_topic(
        self, topic: str, *, queues: int = 4, perm: int = READ_WRITE, brokers: Sequence[Broker] | None = None
    ) -> str:
        """Create a topic on all brokers, or on some; the name server knows it when this returns."""
        for broker in brokers if brokers is not None else self.brokers:
            await create_topic(broker, topic, queues=queues, perm=perm)
        return topic


@asynccontextmanager
async def running_broker(
    home: Path,
    config: BrokerConfig = BrokerConfig(broker_name="broker-a"),  # noqa: B008 - frozen
    store: StoreConfig | None = None,
    *,
    now_ms: Callable[[], int] | None = None,
) -> AsyncIterator[Broker]:
    """Run a broker on a free port, with no name server unless *config* names one."""
    async with Broker(config, store or small_store(home), now_ms=now_ms) as broker:
        await broker.start(HOST, 0)
        yield broker


@asynccontextmanager
async def running_cluster(
    home: Path,
    *,
    brokers: Sequence[str] = ("broker-a",),
    store: Callable[[Path], StoreConfig] = small_store,
    now_ms: Callable[[], int] | None = None,
    **broker_settings: Any,
) -> AsyncIterator[Cluster]:
    """Run a name server and *brokers* that are registered with it, each with its store in a folder of its name.

    *broker_settings* are fields of BrokerConfig.
    """
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), home / "namesrv"))
        namesrv = format_address(await name_server.start(HOST, 0))
        started = []
        for name in brokers:
            config = BrokerConfig(broker_name=name, namesrv_addr=namesrv, **broker_settings)
            context = running_broker(home / name, config, store(home / name), now_ms=now_ms)
            started.append(await stack.enter_async_context(context))
        for broker in started:
            await broker.registration.until_registered()
        yield Cluster(name_server, namesrv, started)
