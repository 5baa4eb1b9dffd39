"""A cluster of brokers behind proxies, for every kind of client: each broker advertises its proxy's address.

    async with proxied_cluster(tmp_path) as cluster:       two brokers, and a name server
        cluster.namesrv                                    through a proxy as well
        cluster.brokers["broker-b"], cluster.proxies["broker-b"]
        cluster.hang("broker-b")                           the standard scenario: one of two brokers hangs

`threads.in_thread(proxied_cluster(...))` has the same for tests that block.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.proxy import Proxy
from hanabi.testing.topics import create_topic

BROKERS: Final = ("broker-a", "broker-b")
NAMESRV: Final = "namesrv"


@dataclass(frozen=True)
class ProxiedCluster:
    """Brokers and proxies by name; `proxies["namesrv"]` stands before the name server, for clients only."""

    name_server: NameServer
    namesrv: str
    brokers: dict[str, Broker]
    proxies: dict[str, Proxy]

    def hang(self, name: str) -> None:
        """Let a broker, or the name server, accept connections and never answer."""
        self.proxies[name].stall()

    def wake(self, name: str) -> None:
        """End `hang`."""
        self.proxies[name].go_on()

    async def create_topic(self, topic: str, *, queues: int = 4, brokers: Sequence[str] | None = None) -> str:
        """Create a topic on all brokers, or on some; the name server knows it when this returns."""
        for name in brokers if brokers is not None else self.brokers:
            await create_topic(self.brokers[name], topic, queues=queues)
        return topic


@asynccontextmanager
async def proxied_cluster(
    home: Path, *, brokers: Sequence[str] = BROKERS, **broker_settings: Any
) -> AsyncIterator[ProxiedCluster]:
    """Run a name server and *brokers*, registered and behind proxies. *broker_settings* are fields of BrokerConfig."""
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), home / NAMESRV))
        bound = await name_server.start(HOST, 0)
        proxies = {NAMESRV: await stack.enter_async_context(Proxy(bound))}
        started: dict[str, Broker] = {}
        for name in brokers:
            proxy = proxies[name] = await stack.enter_async_context(Proxy())
            config = BrokerConfig(
                broker_name=name,
                namesrv_addr=format_address(bound),
                advertised_host=HOST,
                advertised_port=proxy.port,
                **broker_settings,
            )
            broker = started[name] = await stack.enter_async_context(running_broker(home / name, config))
            proxy.target = broker.bound
        for broker in started.values():
            await broker.registration.until_registered()
        yield ProxiedCluster(name_server, proxies[NAMESRV].address, started, proxies)
