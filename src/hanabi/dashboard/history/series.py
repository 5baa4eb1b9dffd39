"""Names of series, and which topics and groups get one: those that people look at, then the largest. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from hanabi.wire.bodies.stats import ConsumeStatsList

TOPICS_MAX: Final = 200
GROUPS_MAX: Final = 250
BROKERS_MAX: Final = 50
CLUSTER_IN: Final = "cluster/in"
CLUSTER_OUT: Final = "cluster/out"
CLUSTER_LAG: Final = "cluster/lag"


class GroupLag(msgspec.Struct, kw_only=True):
    """Lag of a group over all brokers: messages, and the store time of the oldest last consumed message."""

    messages: int = 0
    oldest_ms: int | None = None

    def behind_s(self, now_ms: int) -> float | None:
        """Return how many seconds the group is behind; None if no broker knows."""
        if self.messages <= 0:
            return 0.0
        return None if self.oldest_ms is None else max(now_ms - self.oldest_ms, 0) / 1000


def broker_series(address: str, figure: str) -> str:
    return f"broker/{address}/{figure}"


def topic_series(topic: str) -> str:
    return f"topic/{topic}/in"


def group_series(group: str, figure: str) -> str:
    return f"group/{group}/{figure}"


def group_lags(answers: Iterable[ConsumeStatsList]) -> tuple[dict[str, GroupLag], dict[str, int]]:
    """Return the lag of each group, and the end offsets of each topic that a group consumes, added up."""
    lags: dict[str, GroupLag] = {}
    ends: dict[tuple[str, str, int], int] = {}
    for answer in answers:
        for entry in answer.consume_stats_list:
            for group, tables in entry.items():
                lag = lags.setdefault(group, GroupLag())
                for table in tables:
                    for queue, offset in table.offset_table.items():
                        ends[(queue.topic, queue.broker_name, queue.queue_id)] = offset.broker_offset
                        behind = offset.broker_offset - offset.consumer_offset
                        lag.messages += max(behind, 0)
                        if behind > 0 and offset.last_timestamp > 0:
                            lag.oldest_ms = min(lag.oldest_ms or offset.last_timestamp, offset.last_timestamp)
    topics: dict[str, int] = {}
    for (topic, _, _), end in ends.items():
        topics[topic] = topics.get(topic, 0) + end
    return lags, topics


def chosen(watched: Collection[str], sizes: Mapping[str, float], most: int) -> list[str]:
    """Return the names that get a series: the watched ones first, then those with the largest values."""
    names = list(dict.fromkeys(watched))[:most]
    taken = set(names)
    largest = sorted((name for name in sizes if name not in taken), key=lambda name: (-sizes[name], name))
    return names + largest[: most - len(names)]


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """Return by how much the end of each topic moved, for the choice of the busiest."""
    return {name: float(end - before.get(name, end)) for name, end in after.items()}
