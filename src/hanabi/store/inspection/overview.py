"""An overview of a store from file names, headers and the two ends of each sequence of files.

Only the last log file is walked from record to record, to find the end of the log.
"""

import msgspec

from hanabi.store.inspection.config_files import ConfigFile, read_config_files
from hanabi.store.inspection.home import DataFile, FileReader, StoreHome
from hanabi.store.inspection.index_files import find_index_files
from hanabi.store.inspection.log_scan import Broken, LogScan, read_record
from hanabi.store.inspection.queues import find_queues
from hanabi.store.inspection.state_files import read_checkpoint
from hanabi.store.upkeep.lock import has_crashed
from hanabi.wire.message.record import RecordState, check_record, decode_dispatch


class LogFileInfo(msgspec.Struct, rename="camel"):
    """One file of the commit log. `first_stored_ms` is None where no record begins the file."""

    name: str
    bytes: int
    min_offset: int
    max_offset: int
    first_stored_ms: int | None


class LogInfo(msgspec.Struct, rename="camel"):
    """The commit log. It ends at the first record that is not valid; `ends_with` says why, if not in zeros."""

    min_offset: int
    max_offset: int
    earliest_stored_ms: int | None
    latest_stored_ms: int | None
    ends_with: str | None
    bytes: int
    files: list[LogFileInfo]


class QueueInfo(msgspec.Struct, rename="camel"):
    """One consume queue: messages [min_offset, max_offset)."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    count: int
    files: int
    bytes: int


class IndexFileInfo(msgspec.Struct, rename="camel"):
    """One file of the key index."""

    name: str
    bytes: int
    entries: int
    min_log_offset: int
    max_log_offset: int
    begin_ms: int
    end_ms: int


class CheckpointInfo(msgspec.Struct, rename="camel"):
    """Store times up to which everything was on the disk."""

    log_ms: int
    queues_ms: int
    index_ms: int
    problem: str | None


class Overview(msgspec.Struct, rename="camel"):
    """The content of `hanabi store info`."""

    home: str
    abort: bool
    lock: bool
    log: LogInfo
    topics: int
    queues: list[QueueInfo]
    index: list[IndexFileInfo]
    checkpoint: CheckpointInfo | None
    config: list[ConfigFile]


def survey(home: StoreHome) -> Overview:
    """Return the overview of the store in *home*."""
    with FileReader() as reader:
        log = _survey_log(home.log_files(), reader)
        queues = _survey_queues(home, log.min_offset, reader)
        index = [
            IndexFileInfo(
                file.path.rpartition("/")[2],
                file.size,
                file.count,
                file.begin_log_offset,
                file.end_log_offset,
                file.begin_ms,
                file.end_ms,
            )
            for file in find_index_files(home.index, reader)
        ]
    times = read_checkpoint(home)
    stamps = times.checkpoint.log_ms, times.checkpoint.queues_ms, times.checkpoint.index_ms
    return Overview(
        home=str(home.root),
        abort=has_crashed(home.root),
        lock=(home.root / "lock").exists(),
        log=log,
        topics=len({queue.topic for queue in queues}),
        queues=queues,
        index=index,
        checkpoint=CheckpointInfo(*stamps, times.problem) if times.is_there else None,
        config=read_config_files(home),
    )


def _survey_log(files: list[DataFile], reader: FileReader) -> LogInfo:
    first_times = [_first_stored_ms(file, reader) for file in files]
    last = max((index for index, stored_ms in enumerate(first_times) if stored_ms is not None), default=0)
    min_offset = files[0].base if files else 0
    max_offset, latest_ms, ends_with = min_offset, None, None
    scan = LogScan(files[last : last + 2], reader)  # a filler, and the end is where the next file begins
    for piece in scan:
        if isinstance(piece, Broken):
            max_offset, ends_with = piece.log_offset, piece.reason
            break
        latest_ms = piece.dispatch.store_timestamp_ms
        max_offset = piece.dispatch.log_offset + piece.dispatch.size
    else:
        max_offset = max(scan.end_offset, min_offset)
    return LogInfo(
        min_offset=min_offset,
        max_offset=max_offset,
        earliest_stored_ms=first_times[0] if files else None,
        latest_stored_ms=latest_ms,
        ends_with=ends_with,
        bytes=sum(file.size for file in files),
        files=[
            LogFileInfo(
                file.path.rpartition("/")[2],
                file.size,
                file.base,
                max(min(file.end, max_offset), file.base),
                stored_ms,
            )
            for file, stored_ms in zip(files, first_times, strict=True)
        ],
    )


def _first_stored_ms(file: DataFile, reader: FileReader) -> int | None:
    data = read_record(reader, file, 0)
    if check_record(data).state is not RecordState.WHOLE:
        return None
    return decode_dispatch(data).store_timestamp_ms


def _survey_queues(home: StoreHome, log_offset_min: int, reader: FileReader) -> list[QueueInfo]:
    queues: list[QueueInfo] = []
    for queue in find_queues(home.queues):
        end = queue.end_offset(reader)
        first = queue.min_offset(reader, end, log_offset_min)
        size = sum(file.size for file in queue.files)
        queues.append(QueueInfo(queue.topic, queue.queue_id, first, end, end - first, len(queue.files), size))
    return queues
