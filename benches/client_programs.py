"""The programs that send and consume in the comparison of clients: started, asked, ended. See `peers/commands.py`."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benches.c_programs import OUT
from tests.interop.jars import ADMIN_4, JavaUnavailable, classpath, versions

OURS, NATIVE = "Hanabi", "rocketmq 0.4.4 (Apache's C++ client)"
JAVA = f"Apache's Java client {versions(ADMIN_4)}"
NATIVE_PACKAGE = "rocketmq==0.4.4"
ROOT = Path(__file__).parent.parent


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

    def __init__(self, name: str, command: list[str], home: Path) -> None:
        self.name = name
        home.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"HOME": str(home), "PYTHONPATH": str(ROOT)}
        with (home / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
            )
        self.can = self._answer("can")

    def ask(self, *words: object) -> Round:
        assert self._process.stdin is not None
        process = psutil.Process(self._process.pid)
        before = sum(process.cpu_times()[:2])
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        messages, seconds = self._answer("done")
        cpu = sum(process.cpu_times()[:2]) - before
        return Round(int(messages), float(seconds), cpu * 1e6 / max(int(messages), 1))

    def _answer(self, kind: str) -> list[str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # a library may print what it likes in between
            word, *rest = line.split() or [""]
            if word == kind:
                return rest
            if word == "failed":
                raise Failed(" ".join(rest))
        raise Failed(f"{self.name} ended with {self._process.wait()}")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def program(name: str, namesrv: str, home: Path) -> Iterator[Program]:
    """The program of this name, until the end of the block."""
    running = Program(name, _command(name, namesrv, home), home)
    try:
        yield running
    finally:
        running.end()


def _command(name: str, namesrv: str, home: Path) -> list[str]:
    if name == JAVA:
        java = ["java", f"-Duser.home={home}", "-cp", f"{OUT / 'java'}:{classpath(ADMIN_4)}"]
        return [*java, "SyncSender", namesrv]
    python, module = {OURS: (sys.executable, "hanabi_client"), NATIVE: (str(_native_python()), "native_client")}[name]
    return [python, "-m", f"benches.peers.{module}", namesrv]


def _native_python() -> Path:
    """The interpreter of an environment with the C++ client's package, made when it is first needed."""
    folder = OUT / "native"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", NATIVE_PACKAGE], check=True)
        check = "import rocketmq.client"
        subprocess.run([folder / "bin" / "python", "-c", check], check=True)
        (folder / "ready").touch()
    return folder / "bin" / "python"


def programs_here() -> tuple[list[str], str]:
    """The names of the programs that can be measured here, and a sentence about those that cannot."""
    names, missing = (
        [OURS],
        [
            "Not measured: rocketmq-client-python 2.0.0 (its wheel has no librocketmq, the one above has), "
            "rocketmq-python-client (gRPC: needs a 5.x proxy), pyrocketmq (tt67wq: not on PyPI)."
        ],
    )
    try:
        _native_python()
        names.append(NATIVE)
    except (OSError, subprocess.CalledProcessError) as error:
        missing.append(f"{NATIVE} was not measured: {error}.")
    try:
        source = Path(__file__).parent / "java" / "SyncSender.java"
        (OUT / "java").mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-cp", classpath(ADMIN_4), "-d", OUT / "java", source], check=True)
        names.append(JAVA)
    except (OSError, JavaUnavailable, subprocess.CalledProcessError) as error:
        missing.append(f"{JAVA} was not measured: {error}.")
    return names, " ".join(missing)
