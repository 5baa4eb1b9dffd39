"""Apache's own brokers, one of the 4.9 and one of the 5.3 line, in one cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.apache import ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4
from tests.spark.broker_world import make_topic

LINES = {"4": SERVERS_4, "5": ALL_5}


@dataclass(frozen=True)
class Apache:
    """A broker of Apache's, and who knows it. A topic is on one broker, so its name has the broker's line in it."""

    line: str
    namesrv: str
    broker: str
    store: Path

    def topic(self, name: str, queues: int = 4) -> str:
        return make_topic(self, f"{name}-{self.line}", queues)


@contextmanager
def apache_brokers(home: Path) -> Iterator[dict[str, Apache]]:
    """Yield a broker of each line, ready; ended in any case."""
    with ExitStack() as stack:
        server = ApacheNameServer(home / "namesrv")
        stack.callback(server.process.kill)
        server.wait_ready()
        brokers = {}
        for line, jar_set in LINES.items():
            name = f"broker-{line}"
            brokers[line] = ApacheBroker(
                home / name,
                jar_set,
                name=name,
                cluster="spark",
                namesrv=server.address,
                settings={"traceTopicEnable": "true"},
            )
            stack.callback(brokers[line].process.kill)
        for broker in brokers.values():
            broker.wait_ready()
        yield {
            line: Apache(line, server.address, broker.address, broker.home / "store")
            for line, broker in brokers.items()
        }
