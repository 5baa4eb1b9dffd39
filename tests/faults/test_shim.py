"""The shim: calls fail and wait as the rules say, in the processes and for the files that they name."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.broker_process import broker_process
from tests.faults.shim import Counts, Faults

# Runs each line of its input as Python and answers with what became of it: the number of the error, or 0.
CHILD = """
import ctypes, mmap, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def msync(memory):
    at = ctypes.c_char.from_buffer(memory)
    if libc.msync(ctypes.byref(at), ctypes.c_size_t(len(memory)), 4):
        raise OSError(ctypes.get_errno(), "msync")
def thread():
    try:
        threading.Thread(target=int).start()
    except RuntimeError as error:
        raise OSError(11, str(error))
for line in sys.stdin:
    try:
        exec(line)
        print(0, flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


class Child:
    """A small program with the shim."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def run(self, line: str) -> int:
        """Return the number of the error that *line* raised, or 0."""
        self.start(line)
        return self.answer()


@contextmanager
def child(faults: Faults) -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={**os.environ, **faults.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Child(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


CASES = [
    ("fsync", "os.fsync(fd)"),
    ("fdatasync", "os.fdatasync(fd)"),
    ("msync", "msync(memory)"),
    ("mmap", "mmap.mmap(fd, 4096)"),
    ("fallocate", "os.posix_fallocate(fd, 0, 4096)"),
    ("open", "os.close(os.open(path, os.O_RDONLY))"),
    ("pread", "os.pread(fd, 1, 0)"),
    ("write", "os.pwrite(fd, b'1', 0)"),
    ("write", "os.write(fd, b'1')"),
    ("ftruncate", "os.ftruncate(fd, 4096)"),
    ("rename", "os.rename(path, path)"),
    ("unlink", "os.unlink(path)"),
]


@pytest.mark.parametrize(("call", "line"), CASES)
def test_a_call_fails_for_the_files_of_its_rule_while_the_rule_is_there(
    faults: Faults, tmp_path: Path, call: str, line: str
) -> None:
    path = tmp_path / "commitlog" / "file"
    path.parent.mkdir()
    with child(faults) as process:
        prepare = f"path = {str(path)!r}; fd = os.open(path, os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096)"
        assert process.run(f"{prepare}; memory = mmap.mmap(fd, 4096)") == 0
        with faults.rule(call, errno.EIO, path="*/consumequeue/*") as other:
            assert call == "unlink" or process.run(line) == 0
            assert other.counts == Counts(0, 0)
        with faults.rule(call, errno.EIO, path="*/commitlog/*") as rule:
            assert process.run(line) == errno.EIO
            assert rule.counts == Counts(1, 1)
        assert process.run(line) == 0


def test_a_thread_cannot_be_started_while_a_rule_forbids_it(faults: Faults) -> None:
    with child(faults) as process:
        with faults.rule("pthread_create", errno.EAGAIN):
            assert process.run("thread()") == errno.EAGAIN
        assert process.run("thread()") == 0


def test_a_rule_lets_some_calls_pass_and_then_hits_so_many(faults: Faults, tmp_path: Path) -> None:
    with child(faults) as process:
        process.run(f"fd = os.open({str(tmp_path / 'file')!r}, os.O_RDWR | os.O_CREAT)")
        with faults.rule("fsync", errno.ENOSPC, after=2, times=1) as rule:
            assert [process.run("os.fsync(fd)") for _ in range(4)] == [0, 0, errno.ENOSPC, 0]
            assert rule.counts == Counts(4, 1)


def test_a_call_that_hangs_returns_when_its_rule_is_taken_away(faults: Faults, tmp_path: Path) -> None:
    with child(faults) as process:
        process.run(f"fd = os.open({str(tmp_path / 'file')!r}, os.O_RDWR | os.O_CREAT)")
        with faults.rule("fdatasync", delay_s=3600) as rule:
            process.start("os.fdatasync(fd)")
            rule.wait_hit()
        assert process.answer() == 0


def test_a_broker_starts_and_stops_with_the_shim_around_it(faults: Faults, tmp_path: Path) -> None:
    with (
        faults.rule("fsync", path="*/config/*") as rule,
        broker_process(tmp_path / "store", env=faults.environment) as broker,
    ):
        broker.wait_ready().process.stop()
    assert rule.counts.hit > 0
