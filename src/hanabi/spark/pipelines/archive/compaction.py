"""Compaction of small files. Pure functions choose the files; the rest reads them and writes fewer.

Only directories that got files since the last compaction are examined. The current hour waits until it has many files,
so that its messages are not rewritten with every run.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from hanabi.errors import MQError
from hanabi.spark.pipelines.archive.delta import optimize_delta
from hanabi.spark.pipelines.archive.home import ArchiveHome
from hanabi.spark.pipelines.archive.layout import HOUR, IN_FILES, PYTHON_HOUR
from hanabi.spark.pipelines.contract import Progress
from hanabi.spark.pipelines.support.file_system import FoundFile

MANY: Final = 16  # small files, in the current hour


def small_files(files: Iterable[FoundFile], target_bytes: int, *, is_over: bool) -> list[FoundFile]:
    """Return the files of one directory to join: those below half the target size, if there is more than one."""
    small = [file for file in files if file.size < target_bytes // 2]
    return small if len(small) >= (2 if is_over else MANY) else []


def joined_count(files: Iterable[FoundFile], target_bytes: int) -> int:
    """Return the number of files to write in place of *files*."""
    return max(1, round(sum(file.size for file in files) / target_bytes))


def is_over(folder: str, now: datetime) -> bool:
    """Return whether the hour of a directory is past, so that few messages may still arrive in it."""
    hour = folder.rpartition(f"{HOUR}=")[2]
    return hour < now.strftime(PYTHON_HOUR)


def join_small_files(
    spark: SparkSession,
    home: ArchiveHome,
    progress: Progress,
    target_bytes: int,
    compression: str,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Join small files directory by directory; each joined directory is a step of its own."""
    folders = home.state.loose
    if not folders:
        return
    progress.step("joining small files")
    if home.state.format == "delta":
        optimize_delta(spark, home.files.url)
        _commit(home, [], [], folders)
        return
    done: list[str] = []  # directories that need no further check
    for number, folder in enumerate(folders):
        progress.advance(number, len(folders))
        over = is_over(folder, now())
        files = [file for file in home.files.files(folder) if file.name.endswith(".parquet")]
        small = small_files(files, target_bytes, is_over=over)
        if over:
            done.append(folder)
        if small:
            moves = _join(spark, home, folder, small, joined_count(small, target_bytes), compression)
            _commit(home, moves, [file.name for file in small], done)
    if set(done) & set(home.state.loose):
        _commit(home, [], [], done)


def _join(
    spark: SparkSession, home: ArchiveHome, folder: str, small: list[FoundFile], count: int, compression: str
) -> list[tuple[str, str]]:
    """Write *small* files as *count* larger ones; return the path and the final path of each."""
    staging = home.staging()
    frame = spark.read.schema(IN_FILES).parquet(*(home.files.at(file.name) for file in small))
    frame.coalesce(count).write.option("compression", compression).parquet(home.files.at(staging), mode="overwrite")
    before, after = frame.count(), spark.read.schema(IN_FILES).parquet(home.files.at(staging)).count()
    if before != after:
        raise MQError(f"{home.files.at(folder)}: of {before} messages {after} would be left; nothing was changed")
    return [
        (found.name, f"{folder}/{found.name.rpartition('/')[2]}")
        for found in home.files.files(staging)
        if found.name.endswith(".parquet")
    ]


def _commit(home: ArchiveHome, moves: list[tuple[str, str]], deletes: list[str], done: list[str]) -> None:
    state = home.state
    loose = [folder for folder in state.loose if folder not in done]
    home.commit(msgspec.structs.replace(state, version=state.version + 1, moves=moves, deletes=deletes, loose=loose))
