"""Route queries a second: the same load on our name server and on Apache's, in turn, round by round.

The rounds alternate because a machine is not the same from one minute to the next; the ratio is taken in each pair.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from benches.brokers import TOPIC_PREFIX, placed, registered, route_bytes
from benches.load import Load, Measured, run_load
from benches.report import publish, table
from benches.servers import APACHE, OURS, name_server, servers_here

BROKERS = 20
TOPICS = 1000
CONNECTIONS = 16
IN_FLIGHT = (1, 8)
BROKERS_PER_TOPIC = (2, BROKERS)
RATIO_WANTED = 0.7
WARM_UP_ROUNDS_MAX = 15
HEAD = ("brokers of a topic", "in flight", "server", "queries/s", "p50 us", "p99 us", "server CPU us/query", "ratio")


def main(*, quick: bool = False) -> None:
    names, missing = servers_here()
    rows: list[list[str]] = []
    ratios: list[float] = []
    for per_topic in BROKERS_PER_TOPIC:
        for in_flight, rounds in measure(names, per_topic, quick=quick).items():
            ratio = None
            if APACHE in rounds:
                pairs = zip(rounds[OURS], rounds[APACHE], strict=True)
                ratio = median(ours.queries_per_second / apache.queries_per_second for ours, apache in pairs)
                ratios.append(ratio)
            for name, results in rounds.items():
                shown = f"{ratio:.2f}" if ratio is not None and name == OURS else ""
                rows.append([str(per_topic), f"{CONNECTIONS} x {in_flight}", name, *_medians(results), shown])
    verdict = ""
    if ratios:
        verdict = f"Ours against Apache's, the lowest ratio of the table: {min(ratios):.2f} (wanted: {RATIO_WANTED})."
    setting = f"{TOPICS} topics on {BROKERS} brokers, {CONNECTIONS} connections; medians of alternating rounds."
    publish("route_queries", "Route queries a second", setting, table(HEAD, rows), verdict, missing, quick=quick)


def measure(names: list[str], per_topic: int, *, quick: bool) -> dict[int, dict[str, list[Measured]]]:
    """Return the rounds of every server by the number of queries in flight; all servers run at once, one has work."""
    rounds, seconds = (2, 1.0) if quick else (7, 3.0)
    placement = placed(TOPICS, BROKERS, per_topic)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = [stack.enter_context(name_server(name, Path(folder, name, "home"))) for name in names]
        brokers = [stack.enter_context(registered(server.address, placement)) for server in servers]
        sizes = [route_bytes(server.address, TOPICS // 2, per_topic) for server in servers]

        def run(number: int, in_flight: int, run_seconds: float) -> Measured:
            for broker in brokers[number]:
                broker.register()  # a broker that is silent for two minutes would be forgotten
            server = servers[number]
            load = Load(CONNECTIONS, in_flight, run_seconds, TOPIC_PREFIX, TOPICS, sizes[number] * 9 // 10)
            return run_load(server.address, server.pid, load)

        results: dict[int, dict[str, list[Measured]]] = {}
        for in_flight in IN_FLIGHT:
            for number in range(len(servers)):
                warm_up(partial(run, number, in_flight, seconds), quick=quick)
            results[in_flight] = {name: [] for name in names}
            for _ in range(rounds):
                for number, name in enumerate(names):
                    results[in_flight][name].append(run(number, in_flight, seconds))
        return results


def warm_up(run: Callable[[], Measured], *, quick: bool) -> None:
    """Rounds that do not count, until they bring nothing more: Java's JIT takes its time. Ours gets the same."""
    best = 0.0
    for _ in range(2 if quick else WARM_UP_ROUNDS_MAX):
        speed = run().queries_per_second
        if best and speed < best * 1.03:
            return
        best = max(best, speed)


def _medians(results: list[Measured]) -> list[str]:
    return [
        f"{median(result.queries_per_second for result in results):,.0f}",
        f"{median(result.p50_us for result in results):,.0f}",
        f"{median(result.p99_us for result in results):,.0f}",
        f"{median(result.server_cpu_us_per_query for result in results):,.1f}",
    ]


if __name__ == "__main__":
    main()
