"""Runs the load generator (`loadgen/route.c`, compiled when it is first needed) against a name server."""

import subprocess
from dataclasses import dataclass

import psutil

from benches.c_programs import compiled


@dataclass(frozen=True)
class Load:
    """Request to a server, and for how long it is repeated."""

    connections: int
    in_flight: int  # on each connection
    seconds: float
    topic_prefix: str
    topics: int
    body_bytes_min: int  # a shorter answer is an error
    queries_max: int = 0  # ends the round early; 0 does not


@dataclass(frozen=True)
class Measured:
    """One round. A round with a wrong answer in it does not become a result."""

    queries_per_second: float
    p50_us: float
    p99_us: float
    server_cpu_us_per_query: float


def run_load(address: str, server_pid: int, load: Load) -> Measured:
    """Return one round of *load* on the server at *address*; the process's CPU time is taken before and after."""
    host, _, port = address.rpartition(":")
    work = (load.connections, load.in_flight, load.seconds, load.topic_prefix, load.topics)
    words = (host, port, *work, load.body_bytes_min, load.queries_max)
    server = psutil.Process(server_pid)
    cpu_before = _cpu_seconds(server)
    done = subprocess.run([str(compiled("route")), *map(str, words)], capture_output=True, text=True, check=False)
    cpu_after = _cpu_seconds(server)
    if done.returncode:
        raise AssertionError(f"{address} answered wrongly: {done.stdout}{done.stderr}")
    answers, _, seconds, p50, p99 = map(float, done.stdout.split())
    return Measured(answers / seconds, p50, p99, (cpu_after - cpu_before) * 1e6 / answers)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
