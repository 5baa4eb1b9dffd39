"""Limits around a process hold, and a broker lives with reasonable ones."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.broker_process import broker_process
from tests.faults.limits import LimitUnavailable, limits


@contextmanager
def limits_or_skip(memory_bytes: int | None = None, processes: int | None = None) -> Iterator[list[str]]:
    try:
        with limits(memory_bytes=memory_bytes, processes=processes) as launcher:
            yield launcher
    except LimitUnavailable as unavailable:
        pytest.skip(str(unavailable))


def run(launcher: list[str], program: str) -> "subprocess.CompletedProcess[str]":
    command = [*launcher, sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_process_that_takes_more_memory_than_its_cgroup_has_is_killed() -> None:
    with limits_or_skip(memory_bytes=40 << 20) as launcher:
        assert run(launcher, "bytearray(8 << 20)").returncode == 0
        assert run(launcher, "bytearray(200 << 20)").returncode == -9


def test_threads_beyond_the_limit_cannot_be_started() -> None:
    program = """
import threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(0.5,)).start()
"""
    with limits_or_skip(processes=10) as launcher:
        assert "can't start new thread" in run(launcher, program).stderr


def test_descriptors_beyond_the_limit_cannot_be_opened() -> None:
    with limits(descriptors=32) as launcher:
        assert "Too many open files" in run(launcher, "files = [open('/dev/null') for _ in range(40)]").stderr


def test_address_space_beyond_the_limit_is_a_memory_error() -> None:
    with limits(address_space_bytes=300 << 20) as launcher:
        assert "MemoryError" in run(launcher, "bytearray(400 << 20)").stderr


def test_a_broker_starts_in_a_small_container(tmp_path: Path) -> None:
    with (
        limits_or_skip(memory_bytes=150 << 20, processes=64) as launcher,
        broker_process(tmp_path / "store", around=launcher) as broker,
    ):
        broker.wait_ready().process.stop()
