"""Tests of what a reader does with the garbage collector of the process that it runs in."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from hanabi.spark.shared import worker_gc
from hanabi.spark.shared.worker_gc import leave_modules_alone


@pytest.fixture
def a_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Act as if this process were a worker in the middle of its first task."""
    monkeypatch.setattr(worker_gc, "_frozen", False)
    TaskContext._getOrCreate()
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)
        gc.unfreeze()


def test_a_program_that_is_no_worker_keeps_its_collector_as_it_is() -> None:
    before = gc.get_freeze_count()
    leave_modules_alone()
    assert gc.get_freeze_count() == before


@pytest.mark.usefixtures("a_task")
def test_in_a_worker_what_was_there_first_is_passed_over_and_what_comes_later_is_not() -> None:
    leave_modules_alone()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000  # every module of this process

    class Node:
        def __init__(self) -> None:
            self.itself = self

    node = weakref.ref(Node())
    leave_modules_alone()  # the next task: there is nothing to be done
    assert gc.get_freeze_count() <= frozen
    gc.collect()
    assert node() is None
