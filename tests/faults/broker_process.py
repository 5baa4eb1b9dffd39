"""A real `hanabi serve broker` in a process of its own, started again and again on the same store, with faults."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.interop.processes import ServerProcess

SMALL_FILES: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 1 << 22,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}


class BrokerProcess:
    """One start of a broker. `port` is its own at 127.0.0.1."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process

    def wait_ready(self) -> "BrokerProcess":
        self.process.wait_for_line("ready broker ")
        return self

    @property
    def port(self) -> int:
        return int(self.process.wait_for_line("ready broker ").rpartition(":")[2])


@contextmanager
def broker_process(
    home: Path,
    settings: Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    around: list[str] | None = None,
) -> Iterator[BrokerProcess]:
    """Start a broker on the store *home* and kill it at the end, unless it has ended.

    *env*: more variables, such as those of `Faults` and `Recording`. *around*: a command to run it with (see `limits`).
    """
    beside = home.with_name(home.name + "-process")
    beside.mkdir(exist_ok=True)
    chosen = {"brokerName": "broker-a", **SMALL_FILES, **(settings or {})}
    (beside / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
    starts = len(list(beside.glob("console-*.log")))
    serve = [sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(beside / "broker.conf"), "--home", str(home)]
    command = [*(around or []), *serve, "--host", "127.0.0.1", "--port", "0"]
    log = beside / f"console-{starts + 1}.log"
    process = ServerProcess("hanabi serve broker", command, log, env={**os.environ, **(env or {})})
    try:
        yield BrokerProcess(process)
    finally:
        process.kill()
