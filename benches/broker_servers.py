"""The brokers that are measured, with equal settings: ours, Apache's, and the floor, which only ever copies bytes."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.c_programs import compiled
from benches.servers import APACHE, OURS
from tests.interop.apache import ApacheBroker, ApacheNameServer
from tests.interop.jars import SERVERS_4, JavaUnavailable, classpath
from tests.interop.processes import ServerProcess, free_port

FLOOR = "floor"
APACHE_JVM = ("-server", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC")

# Apache's own defaults, which the tests' small brokers change.
FULL_SIZE: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 300_000 * 20,
    "maxIndexNum": 20_000_000,
    "maxHashSlotNum": 5_000_000,
    "flushDiskType": "ASYNC_FLUSH",
    "diskMaxUsedSpaceRatio": 95,
    # A machine that is busy with the load must not be told to send less.
    "waitTimeMillsInSendQueue": 5_000,
    "defaultTopicQueueNums": 16,
}


@dataclass(frozen=True)
class RunningBroker:
    """A broker that accepts connections. The floor has no name server."""

    name: str
    host: str
    port: int
    pid: int
    namesrv: str = ""


@contextmanager
def broker(name: str, home: Path) -> Iterator[RunningBroker]:
    """The broker of this name, in a process of its own until the end of the block."""
    start = {FLOOR: _floor, OURS: _ours}.get(name, _apache)
    with start(home) as (address, pid, namesrv):
        host, _, port = address.rpartition(":")
        yield RunningBroker(name, host, int(port), pid, namesrv)


@contextmanager
def _ours(home: Path) -> Iterator[tuple[str, int, str]]:
    home.mkdir(parents=True)
    config = home / "broker.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in FULL_SIZE.items()))
    command = [sys.executable, "-m", "hanabi", "serve", "--home", str(home / "data"), "-c", str(config)]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    with _ended(ServerProcess("our broker", [*command, *ports], home / "log")) as process:
        namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        yield process.wait_for_line("ready broker ").split()[-1], process.pid, namesrv


@contextmanager
def _apache(home: Path) -> Iterator[tuple[str, int, str]]:
    name_server = ApacheNameServer(home / "namesrv")
    with _ended(name_server.process):
        name_server.wait_ready()
        server = ApacheBroker(
            home / "broker",
            SERVERS_4,
            name="broker-a",
            cluster="bench",
            namesrv=name_server.address,
            jvm=APACHE_JVM,
            settings=FULL_SIZE,
        )
        with _ended(server.process):
            server.wait_ready()
            yield server.address, server.process.pid, name_server.address


@contextmanager
def _floor(home: Path) -> Iterator[tuple[str, int, str]]:
    home.mkdir(parents=True)
    port = free_port()
    with _ended(
        ServerProcess("floor", [str(compiled("floor")), str(port), str(home / "log")], home / "out")
    ) as process:
        process.wait_until(_listens(port), "listen")
        yield f"127.0.0.1:{port}", process.pid, ""


@contextmanager
def _ended(process: ServerProcess) -> Iterator[ServerProcess]:
    try:
        yield process
    finally:
        process.kill()


def _listens(port: int) -> Callable[[], bool]:
    wanted = f":{port:04X} 00000000:0000 0A"
    return lambda: any(wanted in line for line in Path("/proc/net/tcp").read_text().splitlines())


def brokers_here() -> tuple[list[str], str]:
    """The names of the brokers that can be measured here, and a sentence when Apache's is not among them."""
    try:
        classpath(SERVERS_4)
    except JavaUnavailable as error:
        return [FLOOR, OURS], f"Apache's broker was not measured: {error}."
    return [FLOOR, OURS, APACHE], ""


def pure_python() -> bool:
    """Whether the compiled functions are left out."""
    return bool(os.environ.get("HANABI_PURE_PYTHON"))
