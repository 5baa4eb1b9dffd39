"""A name server with two of Apache's brokers: the same twice, once with Apache's name server and once with ours."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop.apache import TIMERS, ApacheBroker, ApacheNameServer
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.ours import OurNameServer
from tests.interop.probe import routes_to

CLUSTER = "InteropCluster"


class Site:
    """The addresses and brokers of one cluster. Both brokers are in it: one of the 4.9 line, one of the 5.3 line."""

    def __init__(self, namesrv: ApacheNameServer | OurNameServer, home: Path) -> None:
        self.namesrv = namesrv
        self.brokers = [
            ApacheBroker(home / name, jar_set, name=name, cluster=CLUSTER, namesrv=namesrv.address, settings=TIMERS)
            for name, jar_set in (("broker-4", SERVERS_4), ("broker-5", ALL_5))
        ]

    @property
    def own_names(self) -> dict[str, str]:
        """Return what is this site's alone in the output of a command, and the word that stands for it on every
        site."""
        names = {self.namesrv.address: "NAMESRV", str(self.namesrv.home): "NAMESRV_HOME"}
        for broker in self.brokers:
            names |= {broker.address: broker.name.upper(), str(broker.home): f"{broker.name.upper()}_HOME"}
        return names

    def wait_for_topic(self, topic: str) -> None:
        """Wait until the name server sends clients of *topic* to every broker."""

        def routed() -> bool:
            return all(routes_to(self.namesrv.address, topic, broker.name) for broker in self.brokers)

        self.brokers[0].process.wait_until(routed, f"have {topic} routed to all brokers")


@contextmanager
def sites(home: Path) -> Iterator[tuple[Site, Site]]:
    """Apache's site and ours, ready; every process of theirs is ended on the way out, whatever happened."""
    with ExitStack() as stack:
        name_servers = (ApacheNameServer(home / "apache" / "namesrv"), OurNameServer(home / "ours" / "namesrv"))
        for name_server in name_servers:
            stack.callback(name_server.process.kill)
        for name_server in name_servers:
            name_server.wait_ready()
        apache, ours = (Site(name_server, name_server.home.parent) for name_server in name_servers)
        brokers = [*apache.brokers, *ours.brokers]
        for broker in brokers:
            stack.callback(broker.process.kill)
        for broker in brokers:
            broker.wait_ready()
        yield apache, ours
