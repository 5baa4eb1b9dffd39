"""Server processes for tests and benchmarks: started, awaited by a real sign of life, always ended."""

import random
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

POLL_INTERVAL_S = 0.01
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 120
_PORTS = range(12_000, 31_000)  # below what the kernel gives to outgoing connections, so that none takes ours


class ServerProcess:
    """One process that we started. Its output goes to a file, so that a full pipe never stops it."""

    def __init__(self, name: str, command: list[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def output(self) -> str:
        """Everything it printed so far."""
        return self.log.read_text(errors="replace")

    def wait_for_line(self, start: str) -> str:
        """Return the first whole line of its output that begins with *start*."""
        self.wait_until(lambda: f"\n{start}" in f"\n{self.output().rpartition(chr(10))[0]}", f"print {start!r}")
        return next(line for line in self.output().splitlines() if line.startswith(start))

    def wait_until(self, sign: Callable[[], bool], what: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Look for *sign* until it is there; fail with the process's own words when it ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not sign():
            if (code := self._process.poll()) is not None:
                raise AssertionError(f"{self.name} ended with {code} before it could {what}:\n{self.output()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} did not {what} in {timeout_s} s:\n{self.output()}")
            time.sleep(POLL_INTERVAL_S)

    def send_signal(self, number: int) -> None:
        """Stop it for a while, or let it go on."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Ask it to stop, as an operator would, and do not wait until it has."""
        self._process.terminate()

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.terminate()
        self._process.wait(timeout=STOP_TIMEOUT_S)

    def wait_ended(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        return self._process.wait(timeout=START_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once; one that has ended already stays as it is."""
        self._process.kill()
        self._process.wait(timeout=90)


def free_port(*, beside: tuple[int, ...] = ()) -> int:
    """Return a port that nobody listens on, nor on those at the distances *beside*: a broker takes three around its
    own."""
    for _ in range(1000):
        port = random.choice(_PORTS)
        if all(_is_free(port + distance) for distance in (0, *beside)):
            return port
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
