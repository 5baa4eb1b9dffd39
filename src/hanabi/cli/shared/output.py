"""Writing to stdout, for people and for programs that read it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import typer

PIPE_CLOSED = 141  # what a shell reports for a program that SIGPIPE ended


def json_line(value: object) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def printable(text: str) -> str:
    """*text* without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def output() -> Iterator[Callable[[str | bytes], None]]:
    """Write to stdout. A reader that closes it early (`| head`) is no error."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        yield _write
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(PIPE_CLOSED) from None


def discard_output() -> None:
    """Let what is left for stdout go nowhere: Python flushes it at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(written: str | bytes) -> None:
    if isinstance(written, str):
        sys.stdout.write(written)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(written)
