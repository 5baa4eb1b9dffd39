"""The programs that send and consume in the comparison of clients: started, asked, ended. See `peers/commands.py`."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

import psutil

from benches.client_peers import command, python_path
from benches.client_servers import ClientSite

ANSWER_TIMEOUT_S: Final = 45  # a client that hangs ends its own row, not the run


@dataclass(frozen=True)
class Round:
    """One answer."""

    messages: int
    seconds: float
    cpu_us: float  # of the program, a message

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


class Failed(Exception):
    """A program could not do what it was told."""


class Program:
    """A process that does what it is told, line by line. `can` are the words that it knows."""

    _process: subprocess.Popen[str]
    can: list[str]

    def __init__(self, name: str, site: ClientSite, home: Path) -> None:
        self.name = name
        self._site, self._home, self._errors = site, home, home / "errors"
        home.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start from the beginning, also when it runs already."""
        environment = os.environ | {"HOME": str(self._home), "PYTHONPATH": python_path(self.name)}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command(self.name, self._site, self._home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=self._home,  # some write their logs where they stand
                text=True,
            )
        try:
            self.can = self._answer("can")
        except Failed:
            self.end()
            raise

    def ask(self, *words: object) -> Round:
        assert self._process.stdin is not None
        try:
            process = psutil.Process(self._process.pid)
            before = sum(process.cpu_times()[:2])
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, psutil.NoSuchProcess):
            raise self._ended() from None
        messages, seconds = self._answer("done")
        cpu = sum(process.cpu_times()[:2]) - before
        return Round(int(messages), float(seconds), cpu * 1e6 / max(int(messages), 1))

    def _answer(self, kind: str) -> list[str]:
        assert self._process.stdout is not None
        hanging = Timer(ANSWER_TIMEOUT_S, self._process.kill)
        hanging.start()
        try:
            for line in self._process.stdout:  # a library may print what it likes in between
                word, *rest = line.split() or [""]
                if word == kind:
                    return rest
                if word == "failed":
                    raise Failed(" ".join(rest))
        finally:
            hanging.cancel()
        raise self._ended()

    def _ended(self) -> Failed:
        last = self._errors.read_text(errors="replace").strip().splitlines()[-1:]
        return Failed(f"the process ended with {self._process.wait()} {' '.join(last)[:200]}".strip())

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def program(name: str, site: ClientSite, home: Path) -> Iterator[Program]:
    """Yield the program of this name, until the end of the block."""
    running = Program(name, site, home)
    try:
        yield running
    finally:
        running.end()
