"""Scan of the commit log record by record, without the consume queues: also finds messages that these have lost.

Tasks are still cut at queue entries, because these hold the starts of records; without entries, tasks are cut at file
starts. After damage the scan searches for the next record's magic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pyspark.sql.datasource import InputPartition

from hanabi.spark.decode.layout import lay_out
from hanabi.spark.decode.walk import walk
from hanabi.spark.shared.selection import Selection
from hanabi.spark.store.chunks import CHUNK_BYTES_MAX, Chunk
from hanabi.spark.store.log import LogReader
from hanabi.spark.store.options import StoreOptions
from hanabi.spark.store.plan import SAMPLES, take_sample, wanted_queues
from hanabi.store.inspection.home import DataFile, FileReader
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.log_scan import Broken, LogScan, Whole, read_record
from hanabi.wire.message.record import RecordState, check_record


@dataclass(frozen=True)
class LogTask(InputPartition):
    """Log offsets [start, end). At each of the two a record begins or the log ends."""

    start: int
    end: int


def plan_log_tasks(options: StoreOptions) -> list[LogTask]:
    """Return the tasks for the whole log, in its order."""
    files = options.home.log_files()
    with FileReader() as reader:
        queues = wanted_queues(options.home, Selection(), reader)
        known = set(take_sample(queues, reader, SAMPLES).log_offsets.tolist())
        log = LogLookup(options.home, reader)
        end = _end_of_log(
            files, reader, next((at for at in sorted(known, reverse=True) if _begins_record(log, at)), None)
        )
        start = files[0].base
        count = max(options.partitions_min, -(-(end - start) // options.partition_bytes))
        places = np.array(sorted({*known, *(file.base for file in files)}), np.int64)
        wished = start + (end - start) * np.arange(1, count) // count
        near = np.unique(places[np.minimum(np.searchsorted(places, wished), len(places) - 1)]).tolist()
        cuts = [at for at in near if start < at < end and _begins_record(log, at)]
    borders = [start, *cuts, end]
    return [LogTask(low, high) for low, high in pairwise(borders) if low < high]


def _end_of_log(files: list[DataFile], reader: FileReader, known: int | None) -> int:
    """Return the log offset after the last record and any torn bytes. Later writes of a running broker are ignored.

    *known* is the start of one of the last records; without it, the files are read to their end.
    """
    if known is None:
        return files[-1].end
    scan = LogScan(files, reader, start=known)
    torn_until = 0
    for piece in scan:
        if isinstance(piece, Broken) and piece.is_torn:
            torn_until = max(torn_until, piece.until)
    return max(scan.end_offset, torn_until)


def _begins_record(log: LogLookup, log_offset: int) -> bool:
    """Return whether a record with this log offset begins there. An entry may have a flipped bit."""
    data = log.read(log_offset) or b""
    is_whole = check_record(data, check_crc=False).state is RecordState.WHOLE
    return is_whole and int.from_bytes(data[28:36], "big") == log_offset


def log_chunks(task: LogTask, log: LogReader, rows_max: int, bytes_max: int = CHUNK_BYTES_MAX) -> Iterator[Chunk]:
    """Yield the records of *task*; for damaged bytes, a chunk with one damaged record."""
    position, wanted = task.start, bytes_max
    with FileReader() as reader:
        while position < task.end:
            number = int(log.numbers_of(np.array([position]))[0])
            if number < 0:  # deleted, or never existed
                position = int(min(log.bases[log.bases > position], default=task.end))
                continue
            file = log.files[number]
            size = min(wanted, file.end - position, task.end - position)
            chunk, walked = _whole_records(log, number, position, size, rows_max)
            if walked:
                yield chunk
                position, wanted = position + walked, bytes_max
                continue
            data = read_record(reader, file, position - file.base)
            checked = check_record(data, check_crc=False)
            if checked.state is RecordState.BLANK:
                position = file.end
            elif checked.state is RecordState.WHOLE and size < checked.size <= task.end - position:
                wanted = checked.size
            else:
                behind = _next_record(log.files, reader, position + 1, task.end)
                if checked.state is RecordState.INVALID or behind < task.end:
                    yield _damage(log, number, position, min(behind, file.end) - position)
                position = behind


def _whole_records(log: LogReader, number: int, position: int, size: int, rows_max: int) -> tuple[Chunk, int]:
    """Return the contiguous records from *position* on, and their size in bytes."""
    buffer = log.read([(number, position, size)])
    starts, sizes, stopped_at = walk(buffer)
    count = min(len(starts), rows_max)
    _, torn = lay_out(buffer, starts[:count], sizes[:count])
    if len(torn):  # its size may be wrong, and so the start of the next record
        count = int(torn[0])
    walked = stopped_at if count == len(starts) else int(starts[count])
    return Chunk(buffer, starts[:count], sizes[:count], position + starts[:count]), walked


def _damage(log: LogReader, number: int, position: int, size: int) -> Chunk:
    size = min(size, 4_096)  # enough to report the damage
    places = np.zeros(1, np.int64), np.array([size]), np.array([position])
    return Chunk(log.read([(number, position, size)]), *places)


def _next_record(files: list[DataFile], reader: FileReader, start: int, end: int) -> int:
    """Return the start of the next record, *end* if there is none before it."""
    for piece in LogScan(files, reader, start=start):
        if isinstance(piece, Whole):
            return min(piece.dispatch.log_offset, end)
        if piece.log_offset >= end:
            break
    return end
