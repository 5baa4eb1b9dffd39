"""A kill while a queue file is made or cut leaves none that is too short: Apache would not start on it."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hanabi.store.queues.queue_files import clear_from
from tests.store.stores import QUEUE_FILE_BYTES, message, open_store


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_child(work: Callable[[], None]) -> int:
    """Return how a forked process ended that did *work*."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("moment", ["ftruncate", "link"])
def test_a_kill_while_a_queue_file_is_made_leaves_no_short_file_and_nothing_lasting(
    moment: str, tmp_path: Path
) -> None:
    def work() -> None:
        store = open_store(tmp_path)
        store.put(message(b"stored"))
        store.flush(log_only=True)
        setattr(os, moment, die)
        store.flush()

    assert os.WTERMSIG(in_a_child(work)) == signal.SIGKILL
    assert not [path for path in (tmp_path / "consumequeue").rglob("*") if path.is_file()]
    assert list(tmp_path.glob("consumequeue.*.new"))
    store = open_store(tmp_path)
    assert not list(tmp_path.glob("consumequeue.*.new"))
    store.flush()
    (path,) = (path for path in (tmp_path / "consumequeue").rglob("*") if path.is_file())
    assert path.stat().st_size == QUEUE_FILE_BYTES
    assert store.get("T", 0, 0, 32).count == 1
    store.close()


def test_a_cut_file_is_zero_from_there_on_and_has_its_full_size_at_every_moment(tmp_path: Path) -> None:
    size, hole_at, data_at = 1 << 20, 300_000, 700_000
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x" * hole_at)
        file.seek(data_at)
        file.write(b"y" * 200_000)
        file.truncate(size)
    blocks = path.stat().st_blocks

    def killed_at(write: int) -> None:
        pwrite, writes = os.pwrite, iter(range(write))

        def counted(fd: int, data: bytes, at: int) -> int:
            if next(writes, None) is None:
                die()
            return pwrite(fd, data, at)

        setattr(os, "pwrite", counted)  # noqa: B010 - in a child that ends at once
        with path.open("r+b") as file:
            clear_from(file.fileno(), 100_000, size)

    kills = 0
    while in_a_child(partial(killed_at, kills)):
        kills += 1
        assert path.stat().st_size == size
        content = path.read_bytes()
        first_zero = content.find(b"\0", data_at)
        assert first_zero < 0 or not content[first_zero:].strip(b"\0"), "old entries remain behind a gap"
    assert kills > 2
    assert path.read_bytes() == b"x" * 100_000 + bytes(size - 100_000)
    assert path.stat().st_blocks <= blocks


def test_a_file_that_is_too_short_gets_its_full_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 50)
    with path.open("r+b") as file:
        clear_from(file.fileno(), 40, 200)
    assert path.read_bytes() == b"x" * 40 + bytes(160)
