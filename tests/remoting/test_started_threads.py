"""A pool that has all its threads from the beginning."""

import threading

import pytest

from hanabi.remoting.started_threads import started_threads


def test_all_threads_run_before_there_is_work() -> None:
    pool = started_threads(3, "test-pool")
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("test-pool")]
    assert len(names) == 3
    assert pool.submit(lambda: 7).result() == 7
    pool.shutdown()


def test_a_refused_thread_ends_those_that_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, 0

    def start_two(thread: threading.Thread) -> None:
        nonlocal started
        if started == 2:
            raise RuntimeError("can't start new thread")
        started += 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        started_threads(3, "few-pool")
    monkeypatch.undo()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("few-pool")]
