"""The metrics that a name server and a broker share: connections, requests, protocol errors.

Both may be in one process, and a family must be in one piece: so these lines cover all servers together.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from hanabi.metrics.exposition import counter, gauge, histogram, labels
from hanabi.metrics.request_times import BOUNDS, RequestTimes
from hanabi.remoting.transport.server import ServerStatistics


def server_lines(servers: Mapping[str, ServerStatistics], times: Mapping[str, RequestTimes]) -> Iterator[str]:
    """Yield the families of all servers, by their names."""
    each = [(labels(server=name), statistics) for name, statistics in servers.items()]
    yield from gauge("hanabi_connections", "Open connections.", [(name, one.connections) for name, one in each])
    for family, about, value in (
        ("hanabi_connections_accepted_total", "Connections accepted.", "accepted"),
        ("hanabi_connections_refused_total", "Connections refused over the limit.", "refused"),
        ("hanabi_requests_total", "Requests received.", "requests"),
        ("hanabi_protocol_errors_total", "Peers that violated the protocol.", "protocol_errors"),
    ):
        yield from counter(family, about, [(name, getattr(one, value)) for name, one in each])
    yield from histogram(
        "hanabi_request_seconds",
        "Time from request to answer, held pulls excluded.",
        BOUNDS,
        chain.from_iterable(one.series(name) for name, one in times.items()),
    )
    yield from counter(
        "hanabi_requests_failed_total",
        "Error answers, pulls without messages included.",
        chain.from_iterable(one.failures(name) for name, one in times.items()),
    )
    held = [(labels(server=name), one.held) for name, one in times.items()]
    yield from counter("hanabi_requests_held_total", "Pulls held because no message was available.", held)


def together(parts: list[ServerStatistics]) -> ServerStatistics:
    """Combine several ports of one server into one."""
    return ServerStatistics(
        connections=sum(part.connections for part in parts),
        accepted=sum(part.accepted for part in parts),
        refused=sum(part.refused for part in parts),
        requests=sum(part.requests for part in parts),
        protocol_errors=sum(part.protocol_errors for part in parts),
    )
