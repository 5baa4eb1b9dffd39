"""A name server and a broker in this process, on free ports: for tests of ours and of those who use Hanabi.

async with cluster(tmp_path) as running:
    running.namesrv      "127.0.0.1:40123", for clients
    running.broker       the broker itself: its parts are attributes
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.store.config import StoreConfig

HOST = "127.0.0.1"


def small_store(root: Path, **settings: object) -> StoreConfig:
    """A store whose files are short, so that it costs nothing to make one."""
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
    """What runs, and where it is reached."""

    name_server: NameServer
    broker: Broker
    namesrv: str
    address: str  # the broker's


@asynccontextmanager
async def running_broker(
    home: Path,
    config: BrokerConfig = BrokerConfig(broker_name="broker-a"),  # noqa: B008 - frozen
    store: StoreConfig | None = None,
    *,
    now_ms: Callable[[], int] | None = None,
) -> AsyncIterator[Broker]:
    """A broker on a free port, with no name server unless *config* names one."""
    async with Broker(config, store or small_store(home), now_ms=now_ms) as broker:
        await broker.start(HOST, 0)
        yield broker


@asynccontextmanager
async def cluster(
    home: Path,
    config: BrokerConfig = BrokerConfig(broker_name="broker-a"),  # noqa: B008 - frozen
    store: StoreConfig | None = None,
    *,
    now_ms: Callable[[], int] | None = None,
) -> AsyncIterator[Cluster]:
    """A name server, and a broker that is registered with it."""
    async with NameServer(NamesrvConfig(), home) as name_server:
        namesrv = format_address(await name_server.start(HOST, 0))
        known_to = msgspec.structs.replace(config, namesrv_addr=namesrv)
        async with running_broker(home, known_to, store, now_ms=now_ms) as broker:
            await broker.registration.until_registered()
            yield Cluster(name_server, broker, namesrv, broker.address)
