"""The metrics of a name server, in addition to those of all servers."""

from collections.abc import Iterator

from hanabi.metrics.exposition import gauge
from hanabi.namesrv.name_server import NameServer


def namesrv_lines(server: NameServer) -> Iterator[str]:
    """Yield the families of *server*."""
    brokers, processes, topics = server.routes.size()
    yield from gauge("hanabi_namesrv_brokers", "Registered broker names.", brokers)
    yield from gauge("hanabi_namesrv_broker_processes", "Registered masters and slaves.", processes)
    yield from gauge("hanabi_namesrv_topics", "Topics with a route.", topics)
