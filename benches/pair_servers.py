"""Pairs of brokers that are measured: a master and its slave, ours or Apache's, with equal settings."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.broker_servers import APACHE_JVM, FULL_SIZE, RunningBroker, broker, is_ours
from benches.rounds import Load
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.interop.apache import ApacheBroker, properties
from tests.interop.jars import SERVERS_4
from tests.interop.probe import ask
from tests.interop.processes import ServerProcess, free_port

CAUGHT_UP_SECONDS = 120
# While one pair is measured the others stand still, for longer than a connection may be silent.
PATIENT: dict[str, object] = {"brokerName": "broker-a", "brokerClusterName": "bench", "haHousekeepingInterval": 600_000}


@dataclass(frozen=True)
class RunningPair:
    """A master, and its slave if it has one."""

    name: str
    master: RunningBroker
    slave: RunningBroker | None = None

    @property
    def brokers(self) -> list[RunningBroker]:
        return [self.master] if self.slave is None else [self.master, self.slave]


@contextmanager
def pair(name: str, home: Path, role: str, *, with_slave: bool = True) -> Iterator[RunningPair]:
    """Run the pair of this name; the master has *role*. The end of the block is a kill -9."""
    with broker(name, home / "master", master_settings(role)) as master:
        if not with_slave:
            yield RunningPair(f"{name}, alone", master)
            return
        with slave_of(master, home / "slave") as slave:
            await_follower(master, slave)
            yield RunningPair(name, master, slave)


def master_settings(role: str) -> dict[str, object]:
    return PATIENT | {"brokerRole": role, "haListenPort": free_port()}


@contextmanager
def slave_of(master: RunningBroker, home: Path) -> Iterator[RunningBroker]:
    """Run a slave of *master*, of the same kind. A second one on the same *home* goes on with its store."""
    home.mkdir(parents=True, exist_ok=True)
    settings = FULL_SIZE | PATIENT | {"brokerRole": "SLAVE", "brokerId": 1, "haListenPort": free_port()}
    process, address = (_our_slave if is_ours(master.name) else _apache_slave)(master, home, settings)
    try:
        host, _, port = address.rpartition(":")
        yield RunningBroker(master.name, host, int(port), process.pid, master.namesrv)
    finally:
        process.kill()


def _our_slave(master: RunningBroker, home: Path, settings: Mapping[str, object]) -> tuple[ServerProcess, str]:
    config = properties(home / "broker.conf", settings)
    where = ["--home", str(home / "data"), "-c", str(config), "--host", "127.0.0.1", "--port", "0"]
    command = [sys.executable, "-m", "hanabi", "serve", "broker", *where, "-n", master.namesrv]
    process = ServerProcess("our slave", command, home / "log")
    return process, process.wait_for_line("ready broker ").split()[-1]


def _apache_slave(master: RunningBroker, home: Path, settings: Mapping[str, object]) -> tuple[ServerProcess, str]:
    server = ApacheBroker(
        home,
        SERVERS_4,
        name="broker-a",
        cluster="bench",
        namesrv=master.namesrv,
        jvm=APACHE_JVM,
        settings=settings,
    )
    server.wait_ready()
    return server.process, server.address


def log_end(server: RunningBroker) -> int:
    """Return the offset at which the log of *server* ends."""
    address = f"{server.host}:{server.port}"
    while (answer := ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).code != ResponseCode.SUCCESS:
        time.sleep(0.1)  # Apache's fails in its first second
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"])


def await_follower(master: RunningBroker, slave: RunningBroker) -> None:
    """Wait until *slave* follows *master*, with some messages that it must acknowledge if the master wants that."""
    few = Load("", "send", topic="First", connections=1, window=1, seconds=0.1).command(master)
    while subprocess.run(few, capture_output=True, check=False).returncode:
        time.sleep(0.5)  # Apache's slave is silent for five seconds
    await_copy(slave, log_end(master))


def await_copy(slave: RunningBroker, end: int, pause_seconds: float = 0.02) -> None:
    """Wait until *slave* holds the log up to *end*."""
    deadline = time.monotonic() + CAUGHT_UP_SECONDS
    while log_end(slave) < end:
        if time.monotonic() > deadline:
            raise AssertionError(f"the slave of {slave.name} is at {log_end(slave)}, its master at {end}")
        time.sleep(pause_seconds)
