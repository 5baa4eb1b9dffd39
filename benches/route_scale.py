"""Does the cost of a topic stay the same when there are many? Registering and route queries at 100, 1,000 and 10,000.

Every topic is on every broker: the hardest case, and the largest routes.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benches.brokers import TOPIC_PREFIX, placed, registered, route_bytes
from benches.load import Load, run_load
from benches.report import publish, table
from benches.servers import name_server, servers_here

BROKERS = 20
TOPICS = (100, 1_000, 10_000)
HEAD = (
    "server",
    "topics",
    "register, new: us/topic",
    "register, changed: us/topic",
    "register, unchanged: us/topic",
    "first query of a route: us",
    "later ones: us",
)


def main(*, quick: bool = False) -> None:
    names, missing = servers_here()
    costs = [measure(name, topics, quick=quick) for name in names for topics in TOPICS]
    rows = [cost.cells() for cost in costs]
    many, fewer = (next(cost for cost in costs if cost.topics == topics) for topics in (TOPICS[-1], TOPICS[-2]))
    verdict = (
        f"{many.server}, {many.topics:,} topics against {fewer.topics:,}: registering changed topics costs"
        f" {many.changed_us / fewer.changed_us:.2f} times as much a topic, a route query"
        f" {many.query_us / fewer.query_us:.2f} times as much."
    )
    setting = (
        f"Every topic on each of {BROKERS} brokers. Registering: median of the brokers, from the first byte sent to the"
        " answer, by the topics in the request. Route queries: time a query, 1 connection, 8 in flight."
    )
    publish("route_scale", "Cost of a topic", setting, table(HEAD, rows), verdict, missing, quick=quick)


@dataclass(frozen=True)
class Cost:
    """One row of the table; registering is by topic."""

    server: str
    topics: int
    new_us: float
    changed_us: float
    unchanged_us: float
    first_query_us: float
    query_us: float

    def cells(self) -> list[str]:
        registering = (f"{cost:.2f}" for cost in (self.new_us, self.changed_us, self.unchanged_us))
        queries = (f"{self.first_query_us:.1f}", f"{self.query_us:.1f}")
        return [self.server, f"{self.topics:,}", *registering, *queries]


def measure(name: str, topics: int, *, quick: bool) -> Cost:
    """Return a new server with so many topics."""
    repeats, seconds = (2, 0.5) if quick else (10, 3.0)
    placement = placed(topics, BROKERS, BROKERS)
    with tempfile.TemporaryDirectory() as folder, name_server(name, Path(folder, "server", "home")) as server:
        with registered(server.address, placement) as warm_up:
            # Java's JIT must have seen this work; ours gets the same.
            for _ in range(repeats * max(1, TOPICS[-1] // topics // 10)):
                for broker in warm_up:
                    broker.change()
                    broker.register()
        with registered(server.address, placement) as brokers:
            new = median(broker.first_register_s for broker in brokers)
            changed, unchanged = [], []
            for _ in range(repeats):
                for broker in brokers:
                    broker.change()
                    changed.append(broker.register())
                    unchanged.append(broker.register())
            size = route_bytes(server.address, topics - 1, BROKERS)
            once = Load(1, 8, 60, TOPIC_PREFIX, topics, size * 9 // 10, queries_max=topics)
            first = run_load(server.address, server.pid, once)
            later = run_load(server.address, server.pid, replace(once, seconds=seconds, queries_max=0))
    new_us, changed_us, unchanged_us = (took * 1e6 / topics for took in (new, median(changed), median(unchanged)))
    first_us, later_us = (1e6 / queries.queries_per_second for queries in (first, later))
    return Cost(name, topics, new_us, changed_us, unchanged_us, first_us, later_us)


if __name__ == "__main__":
    main()
