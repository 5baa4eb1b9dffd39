"""How long until a name server accepts connections, and how much memory it holds before anybody came."""

import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from benches.report import publish, table
from benches.servers import APACHE_JVM, name_server, servers_here

HEAD = ("server", "ready after, s", "idle memory (RSS), MB")


def main(*, quick: bool = False) -> None:
    names, missing = servers_here()
    rows = [measure(name, starts=2 if quick else 7) for name in names]
    setting = f"Medians. Apache's JVM: {' '.join(APACHE_JVM)}; its own script asks for a heap of 4 GB."
    publish("start_and_memory", "Start and idle memory", setting, table(HEAD, rows), missing, quick=quick)


def measure(name: str, *, starts: int) -> list[str]:
    """One row."""
    seconds: list[float] = []
    megabytes: list[float] = []
    for _ in range(starts):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            with name_server(name, Path(folder, "server", "home")) as server:
                seconds.append(time.perf_counter() - began)
                megabytes.append(psutil.Process(server.pid).memory_info().rss / 1e6)
    return [name, f"{median(seconds):.2f}", f"{median(megabytes):.0f}"]


if __name__ == "__main__":
    main()
