"""Our name server and broker in one process, on fixed ports: they can be killed, and come back where they were."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.interop.processes import ServerProcess, free_port

SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 22,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
    "flushConsumerOffsetInterval": 500,
}


class OurServers:
    """`hanabi serve`. *settings* are more of the broker's file."""

    def __init__(self, home: Path, settings: Mapping[str, object] | None = None) -> None:
        self._home = home
        home.mkdir()
        chosen = {"brokerName": "broker-a", **SETTINGS, **(settings or {})}
        (home / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        self._ports = free_port(), free_port(beside=(-2, 1))
        self.namesrv = f"127.0.0.1:{self._ports[0]}"
        self._starts = 0
        self.process = self._start()

    def _start(self) -> ServerProcess:
        self._starts += 1
        serve = [sys.executable, "-m", "hanabi", "serve", "-c", str(self._home / "broker.conf")]
        where = ["--home", str(self._home / "data"), "--namesrv-port", str(self._ports[0])]
        command = [*serve, *where, "--broker-port", str(self._ports[1])]
        return ServerProcess("hanabi serve", command, self._home / f"console-{self._starts}.log")

    def wait_ready(self) -> None:
        self.process.wait_for_line("ready broker ")

    def start_again(self) -> None:
        """Start them again after they were killed or stopped."""
        self.process = self._start()
        self.wait_ready()
