"""The producers and consumers of a run: processes that are started, killed, stopped and told to leave. Who is chosen of
those that run is the plan's number modulo how many there are."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chaos.servers import Died
from chaos.traffic import Kind

LEAVE_S: Final = 30.0


class Client:
    """One process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self._process, self._log = name, process, log

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)

    def leave(self) -> None:
        """SIGTERM, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(timeout=LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Died(f"{self.name} had not left {LEAVE_S:.0f} s after SIGTERM; see {self._log.name}") from None

    def check_running(self) -> None:
        if (code := self._process.poll()) is not None:
            said = self._log.read_text(errors="replace")[-4000:]
            raise Died(f"{self.name} ended by itself with {code}:\n{said}")


class Clients:
    """All of one sort, "producing" or "consuming"."""

    def __init__(self, sort: str, namesrv: str, history: Path, logs: Path, kinds: Sequence[Kind]) -> None:
        self._sort, self._namesrv, self._history, self._logs = sort, namesrv, history, logs
        self._kinds = ",".join(kinds)
        self._started = 0
        self.running: list[Client] = []
        self.joins: list[float] = []

    def start(self) -> Client:
        self._started += 1
        name = f"{self._sort}-{self._started}"
        self.joins.append(time.monotonic())
        log = self._logs / f"{name}.log"
        command = [sys.executable, "-m", f"chaos.{self._sort}", self._namesrv]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(self._history / f"{name}.jsonl"), name, self._kinds],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        client = Client(name, process, log)
        self.running.append(client)
        return client

    def take(self, number: str) -> Client:
        """Return the chosen one, which counts as gone from now on."""
        return self.running.pop(int(number) % len(self.running))

    def choose(self, number: str) -> Client:
        return self.running[int(number) % len(self.running)]

    def check_running(self) -> None:
        for client in list(self.running):
            client.check_running()

    def stop_sending(self) -> None:
        for client in self.running:
            client.signal(signal.SIGTERM)

    def kill_all(self) -> None:
        while self.running:
            self.running.pop().kill()
