"""The name servers that are measured: ours, and Apache's where Java and Maven Central are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hanabi
from tests.interop.apache import ApacheNameServer
from tests.interop.jars import SERVERS_4, JavaUnavailable, classpath, versions
from tests.interop.ours import OurNameServer

# A heap that is large for this load, the collector that Apache's own script chooses, and the whole JIT.
APACHE_JVM = ("-server", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC")

OURS = f"Hanabi {hanabi.__version__}"
APACHE = f"Apache {versions(SERVERS_4)}"


@dataclass(frozen=True)
class RunningServer:
    """A name server that is ready."""

    name: str
    address: str
    pid: int


@contextmanager
def name_server(name: str, home: Path) -> Iterator[RunningServer]:
    """Yield the server of this name, in a process of its own until the end of the block."""
    server: ApacheNameServer | OurNameServer
    server = OurNameServer(home) if name == OURS else ApacheNameServer(home, jvm=APACHE_JVM)
    try:
        server.wait_ready()
        yield RunningServer(name, server.address, server.process.pid)
    finally:
        server.process.kill()


def servers_here() -> tuple[list[str], str]:
    """Return the names of the servers that can be measured here, and a sentence when Apache's is not among them."""
    try:
        classpath(SERVERS_4)
    except JavaUnavailable as error:
        return [OURS], f"Apache's name server was not measured: {error}."
    return [OURS, APACHE], ""
