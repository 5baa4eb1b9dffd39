"""Limits of a name server's memory. Every peer that reaches its port can register brokers and topics.

Every refusal is a NoPermission that names the limit, so that the broker's own log says what to change. The first three
are settings in namesrv.conf. The rest are not: nothing that RocketMQ's brokers send comes near them.
"""

from collections.abc import Iterable

import msgspec

from hanabi.errors import NoPermission

NAME_CHARACTERS_MAX = 512  # of topics, brokers, clusters, addresses; Java's longest is %RETRY% and a group of 255
FILTER_SERVERS_MAX = 16  # beside one broker; Java starts none unless it is told to, and stands them on one machine


class RouteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one route table."""

    brokers_max: int = 4_096  # processes; the largest clusters have some hundreds, and cluster info lists them all
    topics_per_broker_max: int = 50_000  # a quarter of a second to read and keep; as many as one registration may have
    topics_total_max: int = 500_000  # a topic on two brokers counts twice: 25,000 topics on 20 brokers. Some 250 MB


def check_names(names: Iterable[str], *, what: str) -> None:
    """Refuse names longer than NAME_CHARACTERS_MAX."""
    longest = max(map(len, names), default=0)
    if longest > NAME_CHARACTERS_MAX:
        raise NoPermission(f"a {what} of {longest} characters, limit {NAME_CHARACTERS_MAX}")


def check_filter_servers(addresses: list[str]) -> None:
    """Refuse too many filter servers: they are repeated in every route of their broker."""
    if len(addresses) > FILTER_SERVERS_MAX:
        raise NoPermission(f"{len(addresses)} filter servers, limit {FILTER_SERVERS_MAX}")
    check_names(addresses, what="filter server")
