"""One load on several brokers, in turn, round by round: the way all figures about brokers are taken.

The rounds alternate because a machine is not the same from one minute to the next; a ratio is taken in each round, and
what is told is the median of the ratios.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median

import psutil

from benches.broker_servers import FLOOR, READABLE, RunningBroker
from benches.c_programs import compiled
from benches.servers import APACHE, OURS

SETTLE_SECONDS = 0.2  # for who stood still to see that time has passed
HEAD = ("load", "server", "messages/s", "spread", "p50 us", "p99 us", "CPU us/message", "to Apache 4", "to the floor")


class Load:
    """Task of the load generator: see the head of loadgen/messages.c for the options."""

    def __init__(self, title: str, kind: str, **options: object) -> None:
        self.title, self.kind, self.options = title, kind, options

    def lasting(self, seconds: float) -> "Load":
        return Load(self.title, self.kind, **{"seconds": seconds} | self.options)

    def command(self, server: RunningBroker) -> list[str]:
        options = [f"{name}={value}" for name, value in self.options.items()]
        if server.access:
            options.append(f"access={server.access}")
        return [str(compiled("messages")), self.kind, server.host, str(server.port), *options]


@dataclass(frozen=True)
class Measured:
    """One round. `cpu_us` is the server's, a message."""

    per_second: float
    cpu_us: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0


def run_load(server: RunningBroker, load: Load) -> Measured:
    """Return one round of *load*."""
    process = psutil.Process(server.pid)
    before = sum(process.cpu_times()[:2])
    done = subprocess.run(load.command(server), capture_output=True, text=True, check=False)
    cpu_seconds = sum(process.cpu_times()[:2]) - before
    if done.returncode:
        raise AssertionError(f"{server.name}, {load.title}: {done.stdout}{done.stderr}")
    told = json.loads(done.stdout)
    if not told["messages"]:
        raise AssertionError(f"{server.name}, {load.title}: {done.stdout}{done.stderr}")
    if told.get("errors"):
        print(f"  {server.name}, {load.title}: {told['errors']} errors, the first: {done.stderr.strip()}", flush=True)
    percentiles = (told.get(name, 0.0) for name in ("p50_us", "p99_us", "p999_us"))
    return Measured(told["per_second"], cpu_seconds * 1e6 / max(told["messages"], 1), *percentiles)


class Results:
    """Measurements of one load, by server."""

    def __init__(self, title: str, rounds: dict[str, list[Measured]]) -> None:
        self.title, self.rounds = title, rounds

    def median(self, name: str) -> float:
        return median(round_.per_second for round_ in self.rounds[name])

    def median_cpu_us(self, name: str) -> float:
        return median(round_.cpu_us for round_ in self.rounds[name])

    def ratio(self, name: str, peer: str) -> float | None:
        """Return how much faster *name* was than *peer*, if both were measured."""
        if name == peer or name not in self.rounds or peer not in self.rounds:
            return None
        pairs = zip(self.rounds[name], self.rounds[peer], strict=True)
        return median(ours.per_second / max(theirs.per_second, 1e-9) for ours, theirs in pairs)

    def rows(self) -> list[list[str]]:
        """Return one row a server, under HEAD."""
        return [[self.title, name, *self._cells(name)] for name in self.rounds]

    def _cells(self, name: str) -> list[str]:
        mine = self.rounds[name]
        speeds = [round_.per_second for round_ in mine]
        is_ours = name in (OURS, READABLE)
        to_apache, to_floor = (self.ratio(name, peer) if is_ours else None for peer in (APACHE, FLOOR))
        return [
            f"{median(speeds):,.0f}",
            f"{(max(speeds) - min(speeds)) / max(median(speeds), 1e-9):.0%}",
            f"{median(round_.p50_us for round_ in mine):,.0f}",
            f"{median(round_.p99_us for round_ in mine):,.0f}",
            f"{self.median_cpu_us(name):.1f}",
            "" if to_apache is None else f"{to_apache:.2f}",
            "" if to_floor is None else f"{to_floor:.2f}",
        ]

    def figures(self) -> dict[str, object]:
        """Return every round, for programs."""
        return {name: [asdict(round_) for round_ in mine] for name, mine in self.rounds.items()}


@contextmanager
def alone(server: RunningBroker, servers: Sequence[RunningBroker]) -> Iterator[None]:
    """Stop all of *servers* but *server* for the block: one that is idle may take a quarter of a core."""
    others = [psutil.Process(other.pid) for other in servers if other is not server]
    for other in others:
        other.suspend()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for other in others:
            other.resume()


def alternate(
    load: Load, servers: Sequence[RunningBroker], *, rounds: int, seconds: float, warm_up_seconds: float
) -> Results:
    """Warm each of *servers* up with *load*, then measure them in turn."""
    print(f"  {load.title} ...", flush=True)
    began = time.monotonic()
    for server in servers:
        with alone(server, servers):
            run_load(server, load.lasting(warm_up_seconds))
    measured: dict[str, list[Measured]] = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            with alone(server, servers):
                measured[server.name].append(run_load(server, load.lasting(seconds)))
    results = Results(load.title, measured)
    ours = OURS if OURS in measured else servers[0].name
    ratio = results.ratio(ours, APACHE)
    told = f", {ratio:.2f} of Apache" if ratio is not None else ""
    print(f"  {load.title}: {results.median(ours):,.0f}/s{told}, {time.monotonic() - began:.0f} s", flush=True)
    return results
