"""Runs `hanabi` as its users do: a process, its output, its exit code."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HANABI = [sys.executable, "-m", "hanabi"]
DEADLINE_SECONDS = 90.0


@contextmanager
def log_as_before() -> Iterator[None]:
    """Run a command in this process within this: it sets the process's log, which later tests look at."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would lead the command to another cluster."""
    strange = ("NAMESRV_ADDR", "HANABI_ACCESS_KEY", "HANABI_SECRET_KEY", "HANABI_CREDENTIALS", "HANABI_PROFILE")
    return {**{name: value for name, value in os.environ.items() if name not in strange}, **more}


def hanabi(*arguments: str, typed: bytes = b"", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        [*HANABI, *arguments],
        input=typed,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        env=environment(**variables),
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def refused(result: subprocess.CompletedProcess[str], code: int) -> str:
    """Return the one sentence of a command that could not do what was asked."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("tailing ")]
    assert line.startswith("hanabi: ")
    return line.removeprefix("hanabi: ")
