"""Pairs of brokers side by side: ours and Apache's 4.9, each a master and a slave that share this machine.

Throughput and CPU of both halves with ASYNC_MASTER and SYNC_MASTER, latency at a steady rate, and how fast a slave
catches up. The pairs take the same load in turn; see `rounds` for why.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil

from benches.broker_servers import APACHE_JVM, broker, brokers_here, is_ours, store_of
from benches.messages import PACE, fill
from benches.pair_servers import RunningPair, await_copy, log_end, master_settings, pair, slave_of
from benches.plain_copy import bytes_per_second
from benches.report import keep_figures, publish, table
from benches.rounds import SETTLE_SECONDS, Load
from benches.servers import APACHE, OURS
from benches.used_memory import LEFT_AS_IT_WAS, use_free_memory

ROLES = ("ASYNC_MASTER", "SYNC_MASTER")
SEND = Load("send 1 KiB, 16 x 8 in flight", "send", topic="Send")
PACED = Load(f"send 1 KiB at {PACE:,} a second", "send", topic="Paced", rate=PACE)
HEAD = ("role", "load", "servers", "messages/s", "p50 us", "p99 us", "master CPU us", "slave CPU us", "to Apache")
COPIES = 3  # of which the fastest counts
OUR_FIRST_SECONDS = 5.0  # of warming up: there is nothing to compile
NEWS_SECONDS = 0.3  # for the last bytes to be dispatched


@dataclass(frozen=True)
class Effort:
    """How long it is measured. Only the long one is for quoting."""

    rounds: int
    seconds: float
    first_seconds: float  # of warming up
    behind: int  # messages that a slave lacks


QUICK = Effort(1, 1.0, 2.0, 50_000)
LONG = Effort(5, 3.0, 20.0, 600_000)


@dataclass(frozen=True)
class PairRound:
    """One round. CPU is a message's."""

    per_second: float
    master_us: float
    slave_us: float
    p50_us: float
    p99_us: float


Rounds = dict[str, list[PairRound]]  # by the pair's name


def main(*, quick: bool = False) -> None:
    names, missing = [name for name in brokers_here()[0] if name in (OURS, APACHE)], brokers_here()[1]
    effort = QUICK if quick else LONG
    print(f"pairs: {', '.join(names)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        memory = LEFT_AS_IT_WAS if quick else use_free_memory(Path(folder))
        measured = {role: _with_role(names, role, effort) for role in ROLES}
        caught_up = [_catch_up(name, effort) for name in names]
    rows = [
        row for role, loads in measured.items() for title, rounds in loads.items() for row in _rows(role, title, rounds)
    ]
    setting = (
        f"ASYNC_FLUSH, full-size files, Apache's JVM {' '.join(APACHE_JVM)}; medians of {effort.rounds} alternating "
        f"rounds of {effort.seconds:g} s after a warm-up. CPU us is that of the process, a message, until the slave "
        f"has all. While one pair is measured the others are stopped; {memory}."
    )
    demands = table(("demand", "measured"), [*_demands(measured, caught_up)])
    publish("pair", "Pairs of brokers side by side", setting, table(HEAD, rows), demands, missing, quick=quick)
    kept = {
        role: {
            title: {name: [asdict(each) for each in found] for name, found in rounds.items()}
            for title, rounds in loads.items()
        }
        for role, loads in measured.items()
    }
    keep_figures("pair", kept | {"catch up": caught_up})


def _with_role(names: Sequence[str], role: str, effort: Effort) -> dict[str, Rounds]:
    """Measure all pairs with one role of the master; ours also without a slave."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        homes = iter(Path(folder, str(number)) for number in range(10))
        alone = stack.enter_context(pair(OURS, next(homes), "ASYNC_MASTER", with_slave=False))
        pairs = [alone, *(stack.enter_context(pair(name, next(homes), role)) for name in names)]
        for each in pairs:  # a JVM compiles for longer than one load lasts
            with _others_stopped(each, pairs):
                _warm_up(each, effort.first_seconds)
        loads = (SEND, PACED) if role == "SYNC_MASTER" else (SEND,)
        return {load.title: _alternate(load, pairs, role, effort) for load in loads}


def _alternate(load: Load, pairs: Sequence[RunningPair], role: str, effort: Effort) -> Rounds:
    rounds: Rounds = {each.name: [] for each in pairs}
    for _ in range(effort.rounds):
        for each in pairs:
            with _others_stopped(each, pairs):
                rounds[each.name].append(_run(each, load.lasting(effort.seconds)))
    for name in rounds:
        found = _median(rounds[name])
        print(f"  {role}, {load.title}, {name}: {found}", flush=True)
    return rounds


@contextmanager
def _others_stopped(mine: RunningPair, pairs: Sequence[RunningPair]) -> Iterator[None]:
    others = [psutil.Process(server.pid) for each in pairs if each is not mine for server in each.brokers]
    for process in others:
        process.suspend()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for process in others:
            process.resume()


def _warm_up(mine: RunningPair, seconds: float) -> None:
    """Send for *seconds*, ours for a few. What comes of it does not count."""
    limit = OUR_FIRST_SECONDS if is_ours(mine.master.name) else seconds
    subprocess.run(SEND.lasting(min(seconds, limit)).command(mine.master), capture_output=True, check=False)
    if mine.slave is not None:
        await_copy(mine.slave, log_end(mine.master))


def _run(mine: RunningPair, load: Load) -> PairRound:
    """Return one round of *load*; it is over when the slave has everything."""
    processes = [psutil.Process(server.pid) for server in mine.brokers]
    before = [_cpu_seconds(process) for process in processes]
    done = subprocess.run(load.command(mine.master), capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{mine.name}, {load.title}: {done.stdout}{done.stderr}")
    if mine.slave is not None:
        await_copy(mine.slave, log_end(mine.master))
        time.sleep(NEWS_SECONDS)
    spent = [_cpu_seconds(process) - was for process, was in zip(processes, before, strict=True)]
    told = json.loads(done.stdout)
    if not told["messages"]:
        raise AssertionError(f"{mine.name}, {load.title}: no message was answered in time: {done.stdout}{done.stderr}")
    if told.get("errors"):
        print(f"  {mine.name}, {load.title}: {told['errors']} errors, the first: {done.stderr.strip()}", flush=True)
    master_us, slave_us = (seconds * 1e6 / max(told["messages"], 1) for seconds in (*spent, 0.0)[:2])
    return PairRound(told["per_second"], master_us, slave_us, told["p50_us"], told["p99_us"])


def _cpu_seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _catch_up(name: str, effort: Effort) -> tuple[str, float, float]:
    """Return how many bytes a second a slave copies that is behind, and how many a plain copy of the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with broker(name, home / "master", master_settings("ASYNC_MASTER")) as master:
            fill(master, "Behind", 1_000)
            with slave_of(master, home / "slave") as slave:
                await_copy(slave, log_end(master))
                start = log_end(slave)
            fill(master, "Behind", effort.behind)
            end = log_end(master)
            with slave_of(master, home / "slave") as slave:
                await_copy(slave, start + 1)
                began, at = time.monotonic(), log_end(slave)
                await_copy(slave, end)
                speed = (end - at) / (time.monotonic() - began)
        files = sorted((store_of(name, home / "master") / "commitlog").iterdir())
        plain = max(bytes_per_second(files, end, home / "copy") for _ in range(COPIES))
    print(f"  {name} catches up with {speed / 1e6:,.0f} MB/s, a plain copy makes {plain / 1e6:,.0f} MB/s", flush=True)
    return name, speed, plain


def _median(rounds: Sequence[PairRound]) -> PairRound:
    return PairRound(*(median(values) for values in zip(*(asdict(each).values() for each in rounds), strict=True)))


def _ratio(rounds: Rounds) -> float | None:
    """Return how much faster our pair is than Apache's, if both were measured."""
    if APACHE not in rounds:
        return None
    return median(o.per_second / a.per_second for o, a in zip(rounds[OURS], rounds[APACHE], strict=True))


def _rows(role: str, title: str, rounds: Rounds) -> Iterator[list[str]]:
    ratio = _ratio(rounds)
    for name, found in rounds.items():
        it = _median(found)
        speeds = [f"{it.per_second:,.0f}", f"{it.p50_us:,.0f}", f"{it.p99_us:,.0f}"]
        cpu = [f"{it.master_us:.1f}", f"{it.slave_us:.1f}" if it.slave_us else ""]
        yield [role, title, name, *speeds, *cpu, f"{ratio:.2f}" if ratio is not None and name == OURS else ""]


def _demands(measured: dict[str, dict[str, Rounds]], caught_up: list[tuple[str, float, float]]) -> Iterator[list[str]]:
    """The demands of the issue on a pair, and what was measured."""
    for role, more in zip(ROLES, (15, 30), strict=True):
        rounds = measured[role][SEND.title]
        alone, ours = rounds[f"{OURS}, alone"], rounds[OURS]
        ratio = _ratio(rounds)
        if ratio is not None:
            yield [f"{role}: throughput at least 2.0 of Apache's pair", f"{ratio:.2f}"]
        extra = median(o.master_us / a.master_us for o, a in zip(ours, alone, strict=True)) - 1
        yield [f"{role}: master at most {more} % more CPU than alone", f"{extra:+.0%}"]
        yield [
            f"{role}: slave at most 0.5 of its master's CPU",
            f"{median(o.slave_us / o.master_us for o in ours):.2f}",
        ]
    paced = {name: _median(found).p99_us for name, found in measured["SYNC_MASTER"][PACED.title].items()}
    if APACHE in paced:
        yield [
            f"SYNC_MASTER at {PACE:,} a second: p99 no worse than Apache's",
            f"{paced[OURS]:,.0f} us, {paced[APACHE]:,.0f} us",
        ]
    for name, speed, plain in caught_up:
        wanted = "at least 0.5 of" if name == OURS else "to"
        yield [f"{name}: catch-up {wanted} a plain TCP copy", f"{speed / plain:.2f} ({speed / 1e6:,.0f} MB/s)"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benches.pair", description="Pairs of brokers side by side.")
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    main(quick=parser.parse_args().quick)
