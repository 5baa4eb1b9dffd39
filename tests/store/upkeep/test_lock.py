"""Tests of the lock of a store's directory, and of detecting a crash."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi.errors import StoreLocked, StoreUnwritable
from hanabi.store.upkeep.lock import StoreLock, has_crashed, has_crashed_as_ours, mark_running, mark_stopped
from tests.store.open_files import open_files

HOLD = """
import sys
from pathlib import Path
from hanabi.store.upkeep.lock import StoreLock
StoreLock(Path(sys.argv[1])).acquire()
print("locked", flush=True)
sys.stdin.read()
"""

# What Java's FileChannel.tryLock(0, 1, false) does.
JAVAS_LOCK = """
import fcntl, sys
file = open(sys.argv[1] + "/lock", "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    print("granted")
except OSError:
    print("refused")
"""


def test_the_lock_file_is_apaches(tmp_path: Path) -> None:
    with StoreLock(tmp_path / "store"):
        assert (tmp_path / "store" / "lock").is_file()


def test_a_second_one_in_this_process_is_refused(tmp_path: Path) -> None:
    with StoreLock(tmp_path):
        same_place = tmp_path / ".." / tmp_path.name
        with pytest.raises(StoreLocked, match="already open as a store in this process"):
            StoreLock(same_place).acquire()
        assert javas_answer(tmp_path) == "refused"  # and the refusal did not give up the first one's
    StoreLock(tmp_path).acquire()


@contextlib.contextmanager
def held_by_another(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that has the lock, until it is killed or the block ends."""
    command = [sys.executable, "-c", HOLD, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield holder


def test_another_process_is_refused_though_the_file_was_removed(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as holder:
        (tmp_path / "lock").unlink()
        for _ in range(2):  # the second one finds the file that the first one made
            with pytest.raises(StoreLocked, match=f"{tmp_path} is in use by another process, though its file lock"):
                StoreLock(tmp_path).acquire()
        assert not open_files(tmp_path)
        holder.kill()
        holder.wait()
        StoreLock(tmp_path).acquire()


def test_a_second_one_in_this_process_is_refused_though_the_file_was_removed(tmp_path: Path) -> None:
    with StoreLock(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(StoreLocked):
            StoreLock(tmp_path).acquire()


def test_another_process_that_has_it_is_named(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as holder:
        lock = StoreLock(tmp_path)
        with pytest.raises(StoreLocked, match=f"{tmp_path} is in use by process {holder.pid}"):
            lock.acquire()
        holder.kill()
        holder.wait()
        lock.acquire()  # a lock dies with its process
        lock.release()


def test_apache_is_kept_out_while_we_have_it_and_let_in_after(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.acquire()
    assert javas_answer(tmp_path) == "refused"
    lock.release()
    lock.release()
    assert javas_answer(tmp_path) == "granted"
    assert (tmp_path / "lock").exists()


def javas_answer(root: Path) -> str:
    answer = subprocess.run([sys.executable, "-c", JAVAS_LOCK, str(root)], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def test_a_refused_lock_leaves_no_descriptor_open(tmp_path: Path) -> None:
    with StoreLock(tmp_path):
        held = open_files(tmp_path)
        with pytest.raises(StoreLocked):
            StoreLock(tmp_path).acquire()
        assert open_files(tmp_path) == held


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable, match=r"opening .*/lock"):
        StoreLock(tmp_path / "file" / "store").acquire()


def test_the_mark_of_a_crash_is_there_while_running_and_gone_after_a_clean_stop(tmp_path: Path) -> None:
    assert not has_crashed(tmp_path)
    mark_running(tmp_path)
    assert has_crashed_as_ours(tmp_path)
    assert has_crashed(tmp_path)
    mark_stopped(tmp_path)
    mark_stopped(tmp_path)
    assert not has_crashed(tmp_path)
