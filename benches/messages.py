"""Brokers side by side: sends and pulls a second, latencies, many topics, a backlog, and how long a recovery takes.

Ours, Apache's 4.9 and 5.x, and the floor (a C server that only copies bytes into a mapped file) with equal settings,
the same load from the same generator, in turn. See `rounds` for how.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from benches.broker_servers import (
    APACHE_5,
    APACHE_JVM,
    FLOOR,
    READABLE,
    RunningBroker,
    broker,
    brokers_here,
    store_of,
)
from benches.charts import bars
from benches.report import keep_figures, publish, table
from benches.rounds import HEAD, Load, Measured, Results, alone, alternate, run_load
from benches.servers import APACHE, OURS
from benches.used_memory import LEFT_AS_IT_WAS, use_free_memory
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigTable
from hanabi.wire.fastjson import encode_body

PACE = 5_000
DISK_BYTES_WANTED = 60e9  # five servers write some 40 GB, and at 85 per cent of a disk they delete what is oldest
SHARES = (25, 50, 75)  # per cent of what the slower one can do


@dataclass(frozen=True)
class Effort:
    """Length of a measurement. Only the long one is for quoting."""

    rounds: int
    seconds: float
    warm_up_seconds: float
    topics: tuple[int, ...]
    backlog: int
    first_seconds: float  # of warming up at the very beginning

    def alternate(self, load: Load, servers: list[RunningBroker]) -> Results:
        return alternate(load, servers, rounds=self.rounds, seconds=self.seconds, warm_up_seconds=self.warm_up_seconds)


QUICK = Effort(1, 1.0, 0.5, (1_000,), 50_000, 2.0)
LONG = Effort(3, 2.5, 2.0, (1_000, 10_000), 1_000_000, 20.0)

SENDS = (
    Load("send 1 KiB, 16 x 8 in flight", "send", topic="Send"),
    Load("send 1 KiB, 16 x 1 in flight", "send", topic="Sixteen", window=1),
    Load("send 1 KiB, one at a time", "send", topic="Single", connections=1, window=1),
    Load("send 128 B, 16 x 8 in flight", "send", topic="Small", body=128),
    Load("send 128 B, 16 x 1 in flight", "send", topic="SmallSixteen", body=128, window=1),
    Load("send 128 B, one at a time", "send", topic="SmallSingle", body=128, connections=1, window=1),
    Load(f"send 1 KiB at {PACE:,} a second", "send", topic="Paced", rate=PACE),
)
# Once more, to see whether it matters what was measured before: see `used_memory`.
AGAIN = Load(f"{SENDS[0].title}, again at the end", "send", **SENDS[0].options)
READABLE_SENDS = SENDS[0], SENDS[3], SENDS[6]  # for a look at what the compiled functions bring
# The floor knows no other requests.
BROKER_SENDS = (
    Load("send 1 KiB, 16 x 8, binary headers", "send", topic="Binary", form="binary"),
    Load("send batches of 32 x 1 KiB, 16 x 1", "send", topic="Batch", batch=32, window=1),
    *(
        Load(f"{load.title}, binary headers", "send", **load.options | {"form": "binary"})
        for load in SENDS[1:6]  # those of the first are above
    ),
)


def main(*, quick: bool = False) -> None:
    names, missing = brokers_here(newest=not quick)
    effort = QUICK if quick else LONG
    print(f"messages: {', '.join(names)}", flush=True)
    if not quick and shutil.disk_usage(tempfile.gettempdir()).free < DISK_BYTES_WANTED:
        print("  less than 60 GB are free: brokers may delete their oldest files meanwhile", flush=True)
    results: list[Results] = []
    more: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        memory = LEFT_AS_IT_WAS if quick else use_free_memory(Path(folder))
        every = [stack.enter_context(broker(name, Path(folder, str(at)))) for at, name in enumerate(names)]
        brokers = [server for server in every if server.name not in (FLOOR, READABLE)]
        for server in every:  # a JVM compiles for longer than one load lasts
            with alone(server, every):
                run_load(server, SENDS[0].lasting(effort.first_seconds))
        for load in READABLE_SENDS if quick else SENDS:
            servers = every if load in READABLE_SENDS else [each for each in every if each.name != READABLE]
            results.append(effort.alternate(load, servers))
        results += pulls([server for server in every if server.name != FLOOR], effort)
        results += [effort.alternate(load, brokers) for load in (BROKER_SENDS[:2] if quick else BROKER_SENDS)]
        results += relays(brokers, results[0], effort)
        if not quick:
            results.append(effort.alternate(AGAIN, every))
        more += [["resident after all of it, MB", server.name, f"{_megabytes(server):,.0f}"] for server in brokers]
    names = [name for name in names if name not in (FLOOR, READABLE, APACHE_5)]
    results.append(flushed(names, effort))
    results += [with_topics(names, effort, count) for count in effort.topics]
    for name in names:
        more += after_a_kill(name, effort)
    setting = (
        f"ASYNC_FLUSH unless said, full-size files, Apache's JVM {' '.join(APACHE_JVM)}; JSON headers unless said; "
        f"medians of {effort.rounds} alternating rounds of {effort.seconds:g} s after a warm-up; spread is (largest - "
        "smallest) / median. CPU us a message is CPU seconds a million. While one is measured the others are stopped; "
        f"{memory}."
    )
    rows = [row for result in results for row in result.rows()]
    others = table(("what", "server", "figure"), more)
    publish("messages", "Brokers side by side", setting, table(HEAD, rows), others, missing, quick=quick)
    keep_figures("messages", {result.title: result.figures() for result in results} | {"more": more})
    if APACHE in names:
        chart(results)


def relays(brokers: list[RunningBroker], at_most: Results, effort: Effort) -> list[Results]:
    """Measure from send to arrival at a consumer that waits, at parts of what the slowest broker can take."""
    slowest = min(at_most.median(server.name) for server in brokers)
    found: list[Results] = []
    for share in SHARES:
        rate = int(slowest * share / 100)
        title = f"send to arrival at {rate:,} a second ({share} % of the slowest)"
        found.append(effort.alternate(Load(title, "relay", topic="Send", rate=rate), brokers))
    return found


def pulls(brokers: list[RunningBroker], effort: Effort) -> list[Results]:
    """Return all of a backlog; then the same while others send."""
    for server in brokers:
        fill(server, "Backlog", effort.backlog)
    pull = Load(f"pull of 32, {effort.backlog:,} messages in 4 queues", "pull", topic="Backlog", seconds=120)
    found = [effort.alternate(pull, brokers)]
    sending = Load("", "send", topic="Backlog", rate=PACE, seconds=120)
    both: dict[str, list[Measured]] = {server.name: [] for server in brokers}
    for _ in range(effort.rounds):
        for server in brokers:
            with (
                alone(server, brokers),
                subprocess.Popen(sending.command(server), stdout=subprocess.DEVNULL) as sender,
            ):
                both[server.name].append(run_load(server, pull))
                sender.kill()
    found.append(Results(f"the same while {PACE:,} a second are sent to it", both))
    return found


def flushed(names: list[str], effort: Effort) -> Results:
    """Return each message on the disk before it is acknowledged."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        settings = {"flushDiskType": "SYNC_FLUSH"}
        servers = [stack.enter_context(broker(name, Path(folder, str(at)), settings)) for at, name in enumerate(names)]
        return effort.alternate(Load("send 1 KiB, 16 x 8, SYNC_FLUSH", "send", topic="Flushed"), servers)


def with_topics(names: list[str], effort: Effort, count: int) -> Results:
    """Return the same sends spread over many topics, which are there from the start."""
    topics = {f"Many-{number}": TopicConfig(topic_name=f"Many-{number}") for number in range(count)}
    text = encode_body(TopicConfigTable(topic_config_table=topics))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers: list[RunningBroker] = []
        for at, name in enumerate(names):
            home = Path(folder, str(at))
            config = store_of(name, home) / "config"
            config.mkdir(parents=True)
            (config / "topics.json").write_bytes(text)
            servers.append(stack.enter_context(broker(name, home)))
        return effort.alternate(
            Load(f"send 1 KiB, 16 x 8, {count:,} topics", "send", topic="Many", topics=count), servers
        )


def after_a_kill(name: str, effort: Effort) -> list[list[str]]:
    """Return how long until a broker that was killed serves again."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        with broker(name, home) as server:
            fill(server, "Backlog", effort.backlog)
        began = time.monotonic()
        with broker(name, home) as server:
            seconds = time.monotonic() - began
            pulled = run_load(server, Load("pull", "pull", topic="Backlog", seconds=120))
        assert pulled.per_second > 0
        return [[f"ready again after kill -9 with {effort.backlog:,} x 1 KiB, s", name, f"{seconds:.2f}"]]


def fill(server: RunningBroker, topic: str, count: int) -> None:
    """Send *count* messages to *topic*, in batches."""
    left = count
    while left > 0:
        load = Load("filling", "send", topic=topic, batch=32, window=1, seconds=max(left / 100_000, 0.2))
        command = load.command(server)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
        left -= int(done.stdout.partition('"messages": ')[2].partition(",")[0])


def _megabytes(server: RunningBroker) -> float:
    return float(psutil.Process(server.pid).memory_info().rss) / 1e6


def chart(results: list[Results]) -> None:
    """Draw the comparison with Apache, a bar a load."""
    ratios = [(result.title, result.ratio(OURS, APACHE) or 0.0) for result in results if APACHE in result.rounds]
    rates = [(title, ratio) for title, ratio in ratios if "a second" not in title or "the same" in title]
    bars("messages_ratio", f"Messages a second, {OURS} to {APACHE} (1 is equal)", rates, line=1.0)
    paced = [result for result in results if result.title.startswith("send to arrival")]
    waits = [
        (f"{name}, {result.title.partition('(')[2].rstrip(')')}", _p99_ms(result, name))
        for result in paced
        for name in (OURS, APACHE)
        if name in result.rounds
    ]
    bars("messages_latency", "From send to arrival, p99 in milliseconds (less is better)", waits)


def _p99_ms(result: Results, name: str) -> float:
    ordered = sorted(round_.p99_us for round_ in result.rounds[name])
    return ordered[len(ordered) // 2] / 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.messages", description="Brokers side by side.")
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    main(quick=parser.parse_args().quick)
