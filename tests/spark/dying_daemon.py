"""Spark's daemon for Python workers, which die at the first attempt of a task after part of its rows.

`spark.python.daemon.module` names it. A worker kills itself, as the kernel does when memory runs out: nothing is
closed, and Spark tries the task again in another worker. Each death leaves a file in the directory that DEATHS names.
"""

import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext, daemon

from hanabi.spark.broker.batch_reader import BrokerReader
from hanabi.spark.pipelines.audit.source import AuditReader
from hanabi.spark.sink.send import RowSender
from hanabi.spark.sink.writer import BrokerStreamWriter
from hanabi.spark.store.reader import StoreReader
from hanabi.spark.stream.broker_stream import BrokerStreamReader

DEATHS: Final = "HANABI_TESTS_DEATHS"
T = TypeVar("T")


def die_at_first_attempt() -> None:
    task = TaskContext.get()
    if task is not None and task.attemptNumber() == 0:
        (Path(os.environ[DEATHS]) / uuid.uuid4().hex).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def dying_read(read: Callable[..., Iterator[T]]) -> Callable[..., Iterator[T]]:
    @wraps(read)
    def some(*given: Any) -> Iterator[T]:
        for batch in read(*given):
            yield batch
            die_at_first_attempt()

    return some


def dying_send(send: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @wraps(send)
    async def some(*given: Any) -> None:
        await send(*given)
        die_at_first_attempt()

    return some


def turned_round(write: Callable[..., T]) -> Callable[..., T]:
    """Return a stream cannot be sorted: of its second attempts, the last rows come first."""

    @wraps(write)
    def some(self: BrokerStreamWriter, batches: Iterator[pa.RecordBatch]) -> T:
        task = TaskContext.get()
        is_first = task is None or task.attemptNumber() == 0
        return write(self, batches if is_first else reversed([_reversed(batch) for batch in batches]))

    return some


def _reversed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))


def main() -> None:
    for kind in (BrokerReader, BrokerStreamReader, StoreReader, AuditReader):
        setattr(kind, "read", dying_read(kind.read))  # noqa: B010 - classes of several types
    setattr(RowSender, "send", dying_send(RowSender.send))  # noqa: B010
    setattr(BrokerStreamWriter, "write", turned_round(BrokerStreamWriter.write))  # noqa: B010
    daemon.manager()


if __name__ == "__main__":
    main()
