"""The brokers that are measured, with equal settings: ours, Apache's, and the floor, which only ever copies bytes."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.c_programs import compiled
from benches.servers import APACHE, OURS
from tests.interop.apache import ApacheBroker, ApacheNameServer, properties
from tests.interop.jars import ALL_5, SERVERS_4, JavaUnavailable, classpath, versions
from tests.interop.processes import ServerProcess, free_port

FLOOR = "floor"
CHECKOUT = "checkout:"  # before the folder of another version of ours
READABLE = f"{OURS}, pure Python"  # without the compiled functions
APACHE_5 = f"Apache {versions(ALL_5)}"
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
    "timerWheelEnable": "true",
}


@dataclass(frozen=True)
class RunningBroker:
    """A broker that accepts connections. The floor has no name server."""

    name: str
    host: str
    port: int
    pid: int
    namesrv: str = ""
    access: str = ""  # KEY:SECRET, with which requests are signed


@contextmanager
def broker(name: str, home: Path, settings: Mapping[str, object] | None = None) -> Iterator[RunningBroker]:
    """Run the broker of this name in a process of its own until the end of the block, which is a kill -9. A second
    one on the same *home* goes on with its store. *settings* are added to its broker.conf. A *name* that starts with
    `checkout:` is a folder with another version of our sources, built in place."""
    home.mkdir(parents=True, exist_ok=True)
    start = _ours if is_ours(name) else {FLOOR: _floor}.get(name, _apache)
    with start(name, home, FULL_SIZE | dict(settings or {})) as (address, pid, namesrv):
        host, _, port = address.rpartition(":")
        yield RunningBroker(name, host, int(port), pid, namesrv)


def is_ours(name: str) -> bool:
    return name in (OURS, READABLE) or name.startswith(CHECKOUT)


def store_of(name: str, home: Path) -> Path:
    """Return the folder where the broker of this name keeps its store."""
    return home / "data" if is_ours(name) else home / "broker" / "store"


@contextmanager
def _ours(name: str, home: Path, settings: Mapping[str, object]) -> Iterator[tuple[str, int, str]]:
    config = properties(home / "broker.conf", settings)
    command = [sys.executable, "-m", "hanabi", "serve", "--home", str(store_of(name, home)), "-c", str(config)]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    environment = {**os.environ, "HANABI_PURE_PYTHON": "1" if name == READABLE else ""}
    if name.startswith(CHECKOUT):
        environment["PYTHONPATH"] = str(Path(name.removeprefix(CHECKOUT), "src"))
    with _ended(ServerProcess("our broker", [*command, *ports], home / "log", environment)) as process:
        namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        yield process.wait_for_line("ready broker ").split()[-1], process.pid, namesrv


@contextmanager
def _apache(name: str, home: Path, settings: Mapping[str, object]) -> Iterator[tuple[str, int, str]]:
    name_server = ApacheNameServer(home / "namesrv")
    with _ended(name_server.process):
        name_server.wait_ready()
        server = ApacheBroker(
            home / "broker",
            ALL_5 if name == APACHE_5 else SERVERS_4,
            name="broker-a",
            cluster="bench",
            namesrv=name_server.address,
            jvm=APACHE_JVM,
            settings=settings,
        )
        with _ended(server.process):
            server.wait_ready()
            yield server.address, server.process.pid, name_server.address


@contextmanager
def _floor(name: str, home: Path, settings: Mapping[str, object]) -> Iterator[tuple[str, int, str]]:
    port = free_port()
    with _ended(ServerProcess(name, [str(compiled("floor")), str(port), str(home / "log")], home / "out")) as process:
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


def brokers_here(*, newest: bool = False) -> tuple[list[str], str]:
    """Return the names of the brokers that can be measured here, and a sentence when Apache's is not among them."""
    try:
        classpath(SERVERS_4)
        if newest:
            classpath(ALL_5)
    except JavaUnavailable as error:
        return [FLOOR, OURS, READABLE], f"Apache's broker was not measured: {error}."
    return [FLOOR, OURS, READABLE, APACHE, *([APACHE_5] if newest else [])], ""
