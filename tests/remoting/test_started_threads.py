"""All threads of a pool are there from the start, or it says so at once and leaves none behind."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hanabi.remoting.started_threads import in_own_thread, started_threads
from tests.faults.shim import Faults, ShimUnavailable, compile_shim

AT_THE_LIMIT = """
import threading
from hanabi.remoting.started_threads import started_threads
try:
    started_threads(4, "pool")
except RuntimeError as error:
    print(error)
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(60)
print(threading.active_count())
"""


def test_all_threads_run_before_there_is_work() -> None:
    before = threading.active_count()
    pool = started_threads(5, "pool")
    assert threading.active_count() == before + 5
    assert pool.submit(lambda: threading.current_thread().name).result().startswith("pool_")
    pool.shutdown()
    assert threading.active_count() == before


async def test_work_in_its_own_thread_leaves_the_loops_pool_alone_and_no_thread_behind() -> None:
    def fail() -> None:
        raise ValueError("as planned")

    before = set(threading.enumerate())
    thread = await in_own_thread(threading.current_thread)
    assert thread not in before
    with pytest.raises(ValueError, match="as planned"):
        await in_own_thread(fail)
    thread.join(60)
    assert not any(thread.name.startswith("asyncio") for thread in threading.enumerate())


def test_a_pool_that_cannot_start_its_threads_leaves_none_behind(tmp_path: Path) -> None:
    try:
        faults = Faults(compile_shim(tmp_path), tmp_path / "control")
    except ShimUnavailable as unavailable:
        pytest.skip(str(unavailable))
    with faults.rule("pthread_create", errno.EAGAIN, after=2):
        command = [sys.executable, "-c", AT_THE_LIMIT]
        env = {**os.environ, **faults.environment}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["can't start new thread", "1"]
