"""The servers under test: `hanabi serve namesrv` and `hanabi serve broker`, on fixed ports, so that they come back
where they were. Each start has a log file of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from chaos.traffic import DELAY_LEVELS

POLL_S: Final = 0.01
START_S: Final = 120.0

BROKER_SETTINGS: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 1 << 24,
    "mappedFileSizeConsumeQueue": 60_000,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "messageDelayLevel": DELAY_LEVELS,
    "transactionTimeOut": 3_000,
    "transactionCheckInterval": 1_000,
    "transactionCheckMax": 1_000_000,  # whoever was killed is not given up
    "cleanFileForciblyEnable": "false",  # a full disk is to be refused, not cleared of messages
    "autoCreateTopicEnable": "false",
}

# What a server must never say, whatever is done to it.
_COMPLAINTS: Final = re.compile(r"^Traceback|was never retrieved|never awaited|MemoryError", re.MULTILINE)


class Died(Exception):
    """A server ended by itself."""


class Server:
    """One server, which may be running or not."""

    def __init__(
        self, name: str, command: list[str], home: Path, *, ready: str, env: Mapping[str, str] | None = None
    ) -> None:
        """*ready*: how the line begins with which it says that it is."""
        self.name, self.home, self._ready = name, home, f"\n{ready}"
        self._command, self._env = command, {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.ready_s: list[float] = []  # from each start to its ready line
        self.kills: list[float] = []  # when; of the monotonic clock

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}-{self.starts}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def begin(self) -> None:
        """Start it, and do not wait."""
        self.starts += 1
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self._env
            )

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        began = time.monotonic()
        self.begin()
        while self._ready not in f"\n{self._said()}":
            self.check_running()
            if time.monotonic() - began > START_S:
                raise Died(f"{self.name} was not ready after {START_S:.0f} s:\n{self._said()[-4000:]}")
            time.sleep(POLL_S)
        self.ready_s.append(time.monotonic() - began)

    def _said(self) -> str:
        return self.log.read_text(errors="replace")

    def check_running(self) -> None:
        """Raise `Died` if it ended, though nobody asked it to."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise Died(f"{self.name} ended by itself with {code}:\n{self._said()[-4000:]}")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self.kills.append(time.monotonic())
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def wait_ended(self, seconds: float) -> None:
        """Wait until it has ended by itself, or for so long."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=seconds)

    def was_killed(self) -> bool:
        """Say whether the kernel has killed it (out of memory), and count that."""
        if self._process is None or self._process.poll() != -signal.SIGKILL:
            return False
        self.kills.append(time.monotonic())
        self._process = None
        return True

    def stop(self) -> None:
        """SIGTERM, as an operator would; and wait."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def complaints(self) -> list[str]:
        """Lines of its logs that say that our code, and not the world around it, is wrong."""
        found: list[str] = []
        for number in range(1, self.starts + 1):
            log = self.home / f"{self.name}-{number}.log"
            text = log.read_text(errors="replace") if log.exists() else ""
            found += [
                f"{log.name}: {line.strip()[:300]}" for line in text.splitlines() if _COMPLAINTS.search(line.strip())
            ]
        return found


def namesrv_server(home: Path, port: int) -> Server:
    command = [
        sys.executable,
        "-m",
        "hanabi",
        "serve",
        "namesrv",
        "--home",
        str(home / "namesrv"),
        "--host",
        "127.0.0.1",
    ]
    return Server("namesrv", [*command, "--port", str(port)], home, ready="ready namesrv ")


def broker_server(
    name: str,
    home: Path,
    store: Path,
    ports: tuple[int, int],
    namesrv: str,
    settings: Mapping[str, object],
    env: Mapping[str, str],
    launcher: Sequence[str] = (),
) -> Server:
    """*ports*: where it listens, and where clients are told to find it (a proxy's). *launcher* starts its command."""
    file = home / f"{name}.conf"
    chosen = {"brokerName": name, **BROKER_SETTINGS, **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
    command = [sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(file), "--home", str(store)]
    where = ["--host", "127.0.0.1", "--port", str(ports[0]), "--advertise", f"127.0.0.1:{ports[1]}", "-n", namesrv]
    return Server(name, [*launcher, *command, *where], home, ready=f"ready broker {name} ", env=env)
