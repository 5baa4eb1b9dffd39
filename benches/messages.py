"""Sends and pulls a second, and latency: the same load on our broker, Apache's and the floor, in turn, round by round.

The rounds alternate because a machine is not the same from one minute to the next; the ratio is taken in each pair.
"""

import re
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benches.broker_servers import APACHE_JVM, FLOOR, RunningBroker, broker, brokers_here, pure_python
from benches.c_programs import compiled
from benches.report import publish, table
from benches.servers import APACHE, OURS

CONNECTIONS, IN_FLIGHT, BODY_BYTES = 16, 8, 1024
PULL_QUEUES, PULL_BATCH = 4, 32
PACE = 5_000
BACKLOG_TOPIC = "Backlog"


@dataclass(frozen=True)
class Measured:
    """One round."""

    per_second: float
    cpu_us: float  # of the server, a message
    p50_us: float = 0.0
    p99_us: float = 0.0


def run(server: RunningBroker, *words: object) -> Measured:
    """One round of the load generator: `send CONNECTIONS WINDOW SECONDS BODY TOPIC [RATE]`, or `pull ...`."""
    kind, *rest = words
    process = psutil.Process(server.pid)
    before = sum(process.cpu_times()[:2])
    command = [str(compiled("messages")), str(kind), server.host, str(server.port), *map(str, rest)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    cpu_seconds = sum(process.cpu_times()[:2]) - before
    if done.returncode:
        raise AssertionError(f"{server.name}: {done.stdout}{done.stderr}")
    found = re.search(r"(\d+) msg/s", done.stdout)
    assert found is not None, done.stdout
    per_second = float(found[1])
    percentiles = [float(number) for number in re.findall(r"p(?:50|99) (\d+)", done.stdout)] or [0.0, 0.0]
    return Measured(per_second, cpu_seconds * 1e6 / max(per_second * seconds, 1), *percentiles)


def main(*, quick: bool = False) -> None:
    names, missing = brokers_here()
    rounds, seconds = (2, 2) if quick else (5, 5)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = [stack.enter_context(broker(name, Path(folder, str(number)))) for number, name in enumerate(names)]
        send = ("send", CONNECTIONS, IN_FLIGHT, seconds, BODY_BYTES)
        one = ("send", 1, 1, seconds, BODY_BYTES)
        paced = ("send", CONNECTIONS, IN_FLIGHT, seconds, BODY_BYTES)
        loads: dict[str, tuple[tuple[object, ...], list[RunningBroker]]] = {
            f"send 1 KiB, {CONNECTIONS} x {IN_FLIGHT} in flight": ((*send, "Send"), servers),
            "send 1 KiB, one at a time": ((*one, "Single"), servers),
            f"send 1 KiB at {PACE:,} a second": ((*paced, "Paced", PACE), servers),
        }
        rows: list[list[str]] = []
        for title, (words, measured_servers) in loads.items():
            rows += measure(title, words, measured_servers, rounds, warm_up=1 if quick else 3)
        brokers = [server for server in servers if server.name != FLOOR]
        for server in brokers:
            run(server, "send", CONNECTIONS, IN_FLIGHT, 4 if quick else 10, BODY_BYTES, BACKLOG_TOPIC)
        pull = ("pull", PULL_QUEUES, 1, 60, PULL_BATCH, BACKLOG_TOPIC)
        rows += measure(f"pull of {PULL_BATCH}, {PULL_QUEUES} queues to their end", pull, brokers, rounds, warm_up=1)
    setting = (
        f"ASYNC_FLUSH, full-size files, Apache's JVM {' '.join(APACHE_JVM)}; JSON headers; medians of {rounds} "
        f"alternating rounds. Our compiled functions are {'off' if pure_python() else 'on'}."
    )
    head = ("load", "server", "messages/s", "p50 us", "p99 us", "server CPU us/message", "ratio to Apache", "to floor")
    publish("messages", "Messages a second", setting, table(head, rows), missing, quick=quick)


def measure(
    title: str, words: tuple[object, ...], servers: list[RunningBroker], rounds: int, *, warm_up: int
) -> list[list[str]]:
    """The rows of one load."""
    for server in servers:
        for _ in range(warm_up):
            run(server, *words)
    results: dict[str, list[Measured]] = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            results[server.name].append(run(server, *words))
    return [
        [
            title,
            name,
            f"{median(result.per_second for result in mine):,.0f}",
            f"{median(result.p50_us for result in mine):,.0f}",
            f"{median(result.p99_us for result in mine):,.0f}",
            f"{median(result.cpu_us for result in mine):.1f}",
            _ratio(results, name, APACHE),
            _ratio(results, name, FLOOR),
        ]
        for name, mine in results.items()
    ]


def _ratio(results: dict[str, list[Measured]], name: str, peer: str) -> str:
    if name != OURS or peer not in results:
        return ""
    pairs = zip(results[name], results[peer], strict=True)
    return f"{median(ours.per_second / theirs.per_second for ours, theirs in pairs):.2f}"


if __name__ == "__main__":
    main()
