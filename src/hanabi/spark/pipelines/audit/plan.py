"""Plan of an audit's tasks. Lists files, and reads little more than the headers of index files."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from hanabi.spark.pipelines.audit.index import KnownIndex, audit_chains, audit_entries, find_index
from hanabi.spark.pipelines.audit.log import audit_log
from hanabi.spark.pipelines.audit.queues import QueueFile, audit_queues
from hanabi.spark.pipelines.audit.rows import found, wrong
from hanabi.spark.store.log_scan import LogTask, plan_log_tasks
from hanabi.spark.store.options import StoreOptions
from hanabi.store.inspection.config_files import read_config_files
from hanabi.store.inspection.home import DataFile, FileReader, StoreHome, sequence_problems
from hanabi.store.inspection.queues import QueueOnDisk, find_queues
from hanabi.store.inspection.state_files import read_checkpoint
from hanabi.store.queues.consume_queue import ENTRY_BYTES, is_blank

_QUEUE_BYTES: Final = 64 << 20  # per task: about three million entries
_INDEX_ENTRIES: Final = 5_000_000


@dataclass(frozen=True)
class KnownPart(InputPartition):
    """Rows that the driver has found already."""

    rows: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True)
class LogPart(InputPartition):
    task: LogTask
    is_last: bool


@dataclass(frozen=True)
class QueuesPart(InputPartition):
    files: tuple[QueueFile, ...]
    log_end: int


@dataclass(frozen=True)
class IndexPart(InputPartition):
    index: KnownIndex
    first: int
    end: int
    log_end: int


@dataclass(frozen=True)
class ChainsPart(InputPartition):
    index: KnownIndex


def rows_of(part: InputPartition, home: StoreHome, delays_ms: tuple[int, ...] | None) -> Iterator[pa.RecordBatch]:
    """Return the rows of *part*. Runs on a worker."""
    match part:
        case KnownPart(rows):
            return iter(rows)
        case LogPart(task, is_last):
            return audit_log(home, task, delays_ms, is_last=is_last)
        case QueuesPart(files, log_end):
            return audit_queues(home, files, log_end, delays_ms)
        case IndexPart(index, first, end, log_end):
            return audit_entries(home, index, first, end, log_end)
        case ChainsPart(index):
            return audit_chains(home, index)
        case _:
            raise TypeError(f"an audit has no part such as {part!r}")


def plan_audit(options: StoreOptions) -> list[InputPartition]:
    """Return the tasks of an audit.

    Index and queues are listed before the end of the log is determined: a running broker writes the log first.
    """
    home = options.home
    indexes, problems = find_index(home)
    queues = list(find_queues(home.queues))
    log_files = home.log_files()
    tasks = plan_log_tasks(options)
    log_end = tasks[-1].end if tasks else 0
    known = [
        found("log", 1, log_offset=log_end, number=len(log_files)),
        *_queue_rows(queues),
        *(_index_row(home, index) for index in indexes),
        *problems,
        *_file_problems(home, log_files, queues),
        *_other_problems(home),
    ]
    parts: list[InputPartition] = [KnownPart(tuple(known))]
    parts += [LogPart(task, task is tasks[-1]) for task in tasks]
    parts += _queue_parts(queues, log_end)
    for index in indexes:
        borders = [*range(1, index.file.count + 1, _INDEX_ENTRIES), index.file.count + 1]
        parts += [IndexPart(index, first, end, log_end) for first, end in pairwise(borders)]
        parts.append(ChainsPart(index))
    return parts


def _index_row(home: StoreHome, index: KnownIndex) -> pa.RecordBatch:
    file = index.file
    return found("index", 1, file=home.relative(file.path), log_offset=file.begin_log_offset, size=file.end_log_offset)


def _queue_rows(queues: list[QueueOnDisk]) -> Iterator[pa.RecordBatch]:
    with FileReader() as reader:
        for queue in queues:
            first = queue.entry(reader, 0) if queue.first_offset == 0 else None
            first_at = None if first is None or is_blank(first[0], first[1]) else first[0]
            yield found(
                "queue",
                1,
                topic=queue.topic,
                queue_id=queue.queue_id,
                log_offset=first_at,
                number=len(queue.files),
            )


def _queue_parts(queues: list[QueueOnDisk], log_end: int) -> Iterator[QueuesPart]:
    mine: list[QueueFile] = []
    size = 0
    for queue in queues:
        for file in queue.files:
            mine.append(QueueFile(queue.topic, queue.queue_id, file.base, file.size))
            size += file.size
            if size >= _QUEUE_BYTES:
                yield QueuesPart(tuple(mine), log_end)
                mine, size = [], 0
    if mine:
        yield QueuesPart(tuple(mine), log_end)


def _file_problems(home: StoreHome, log_files: list[DataFile], queues: list[QueueOnDisk]) -> Iterator[pa.RecordBatch]:
    for file, position, reason in sequence_problems(log_files):
        yield wrong("log-file", reason, file=home.relative(file.path), log_offset=file.base + position)
    for queue in queues:
        for file, position, reason in sequence_problems(queue.files):
            yield wrong(
                "queue-file",
                reason,
                file=home.relative(file.path),
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=(file.base + position) // ENTRY_BYTES,
            )


def _other_problems(home: StoreHome) -> Iterator[pa.RecordBatch]:
    checkpoint = read_checkpoint(home)
    if checkpoint.problem:
        yield wrong("checkpoint", checkpoint.problem, file=home.relative(str(home.checkpoint)))
    for table in read_config_files(home):
        if table.problem:
            yield wrong("config", table.problem, file=home.relative(str(home.config / table.name)))
