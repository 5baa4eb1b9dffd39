"""Time until servers accept connections, and the memory that they hold before the first client."""

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

import psutil

from benches.broker_servers import APACHE_JVM as BROKER_JVM
from benches.broker_servers import RunningBroker, broker
from benches.report import publish, table
from benches.servers import APACHE_JVM, RunningServer, name_server, servers_here

Serve = Callable[[str, Path], AbstractContextManager[RunningServer | RunningBroker]]
HEAD = ("what", "server", "ready after, s", "idle memory (RSS), MB")


def main(*, quick: bool = False) -> None:
    names, missing = servers_here()
    starts = 2 if quick else 7
    rows = [["name server", *measure(name, name_server, starts)] for name in names]
    rows += [["name server and broker", *measure(name, broker, starts)] for name in names]
    setting = (
        f"Medians of {starts}. Apache's JVM: {' '.join(APACHE_JVM)}, the broker's: {' '.join(BROKER_JVM)}; its own "
        "scripts ask for heaps of 4 and 8 GB."
    )
    publish("start_and_memory", "Start and idle memory", setting, table(HEAD, rows), missing, quick=quick)


def measure(name: str, serve: Serve, starts: int) -> list[str]:
    """Return one row. Apache's name server and broker are two processes, started one after the other; the memory is the
    broker's alone."""
    seconds: list[float] = []
    megabytes: list[float] = []
    for _ in range(starts):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            with serve(name, Path(folder, "server", "home")) as server:
                seconds.append(time.perf_counter() - began)
                megabytes.append(psutil.Process(server.pid).memory_info().rss / 1e6)
    return [name, f"{median(seconds):.2f}", f"{median(megabytes):.0f}"]


if __name__ == "__main__":
    main()
