"""The cache of open files: bounded, and never closed under somebody who reads."""

import os
import threading
from pathlib import Path

import pytest

from hanabi.store.files.descriptors import Descriptors


def open_file(tmp_path: Path, name: str) -> int:
    path = tmp_path / name
    path.write_text(name)
    return os.open(path, os.O_RDONLY)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_no_more_than_the_limit_stay_open_and_the_one_not_used_for_longest_goes(tmp_path: Path) -> None:
    descriptors = Descriptors(limit=2)
    fds = {name: descriptors.keep(name, open_file(tmp_path, name)).fd for name in "ab"}
    assert descriptors.get("a") is not None  # so b is the older one now
    fds["c"] = descriptors.keep("c", open_file(tmp_path, "c")).fd
    assert len(descriptors) == 2
    assert descriptors.get("b") is None
    assert [name for name, fd in fds.items() if is_open(fd)] == ["a", "c"]


def test_a_file_that_somebody_holds_stays_open_until_he_lets_it_go(tmp_path: Path) -> None:
    descriptors = Descriptors(limit=1)
    held = descriptors.keep("a", open_file(tmp_path, "a"))
    descriptors.keep("b", open_file(tmp_path, "b"))
    assert descriptors.get("a") is None
    assert os.pread(held.fd, 1, 0) == b"a"
    fd = held.fd
    del held
    assert not is_open(fd)


def test_dropping_and_closing_let_files_go(tmp_path: Path) -> None:
    descriptors = Descriptors()
    dropped, closed = (descriptors.keep(name, open_file(tmp_path, name)).fd for name in "ab")
    descriptors.drop("a")
    descriptors.drop("never kept")
    assert (is_open(dropped), is_open(closed)) == (False, True)
    descriptors.close()
    assert not is_open(closed)
    assert len(descriptors) == 0


def test_a_cache_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 descriptors"):
        Descriptors(limit=0)


def test_threads_that_push_each_others_files_out_never_read_from_a_wrong_one(tmp_path: Path) -> None:
    descriptors = Descriptors(limit=2)
    paths = [tmp_path / str(number) for number in range(6)]
    for path in paths:
        path.write_text(path.name)
    wrong: list[bytes] = []

    def read_all() -> None:
        for _ in range(300):
            for path in paths:
                descriptor = descriptors.get(path) or descriptors.keep(path, os.open(path, os.O_RDONLY))
                content = os.pread(descriptor.fd, 10, 0)
                if content != path.name.encode():
                    wrong.append(content)

    threads = [threading.Thread(target=read_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(descriptors) == 2
