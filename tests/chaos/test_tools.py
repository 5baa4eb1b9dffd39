"""A clock that can be set for one process, a disk that can be filled, and memory that can be taken away."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.clock import ClockUnavailable, ShiftedClock, compile_library
from chaos.disk import DiskUnavailable, SmallDisk
from chaos.memory import MemoryUnavailable, broker_memory


def test_a_clock_jumps_while_the_process_runs_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    try:
        clock = ShiftedClock(compile_library(tmp_path), tmp_path / "clock")
    except ClockUnavailable as error:
        pytest.skip(str(error))
    program = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program], env=clock.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for shift_s in (0.0, 3_600.0, -3_600.0, 0.0):
            clock.shift(shift_s)
            process.stdin.write("\n")
            process.stdin.flush()
            said, monotonic = map(float, process.stdout.readline().split())
            assert abs(said - time.time() - shift_s) < 60
            assert abs(monotonic - time.monotonic()) < 60
        process.stdin.close()


def test_a_disk_is_full_and_empty_again(tmp_path: Path) -> None:
    try:
        disk = SmallDisk(tmp_path / "disk", 1)
    except DiskUnavailable as error:
        pytest.skip(str(error))
    try:
        disk.fill()
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            (disk.path / "more").write_bytes(bytes(4_096))
        disk.free()
        (disk.path / "more").write_bytes(bytes(4_096))
    finally:
        disk.unmount()


def test_a_process_that_needs_more_than_it_is_left_is_killed_and_the_next_one_has_enough() -> None:
    program = "import sys\nsys.stdin.readline()\nheld = bytearray(b'x') * (64 << 20)\nprint(len(held))"
    try:
        with broker_memory("test") as memory:
            for is_squeezed in (True, False):
                with subprocess.Popen(
                    [*memory.launcher, sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                ) as process:
                    if is_squeezed:
                        memory.squeeze(8 << 20)
                    said, _ = process.communicate("\n", timeout=60)
                memory.release()
                assert (process.returncode, said) == ((-signal.SIGKILL, "") if is_squeezed else (0, f"{64 << 20}\n"))
    except MemoryUnavailable as error:
        pytest.skip(str(error))
