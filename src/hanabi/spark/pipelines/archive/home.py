"""Directory of an archive. Only the process that holds the lock may change it; readers need no lock.

    topic=Orders/hour=2026-11-15T14/part-...zstd.parquet     messages: all files here are archived, and each only once
    _archive/state/000000000012.json                         archived offsets (the last few steps)
    _archive/staging/<run>/...                               files being written
    _archive/lock                                            held by the writer (local directories)

A step writes its files to staging, then the state, then moves the files into place. If the process is killed before the
state is written, the step never happened; if it is killed after, the next process that opens the archive finishes the
step. So a reader never finds a message twice. Where locking is impossible, the state detects concurrent runs: only one
of them can create the file of the next version.
"""

import fcntl
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from hanabi.clock import wall_ms
from hanabi.errors import ConfigError, MQError
from hanabi.spark.pipelines.archive.state import ArchiveState, decode, encode
from hanabi.spark.pipelines.support.file_system import FileSystem
from hanabi.spark.pipelines.support.interrupts import uninterrupted

OWN: Final = "_archive"
STATES: Final = f"{OWN}/state"
STAGING: Final = f"{OWN}/staging"
STAGING_DEPTH: Final = 4  # path components of a step's directory: _archive/staging/<run>/<version>
STATES_KEPT: Final = 5
_LEFT_OVER_MS: Final = 24 * 3_600_000  # without a lock, a run is considered dead after a day

logger = logging.getLogger(__name__)


class ArchiveHome:
    """One archive, with its last step completed."""

    def __init__(self, files: FileSystem, clock_ms: Callable[[], int] = wall_ms) -> None:
        self.files, self._clock_ms = files, clock_ms
        self._run = uuid.uuid4().hex
        self.state = self._load()
        self._settle()

    @property
    def is_new(self) -> bool:
        return self.state.version == 0

    def staging(self) -> str:
        """Return the staging directory of the next step, which is unique to this run."""
        return f"{STAGING}/{self._run}/{self.state.version + 1}"

    def commit(self, state: ArchiveState) -> None:
        """Commit *state* as the next step, and carry out its moves and deletes.

        Raises MQError if another run was first.
        """
        assert state.version == self.state.version + 1  # noqa: S101 - steps follow each other
        self.files.sync(source for source, _ in state.moves)
        name = _state_name(state.version)
        with uninterrupted():
            is_first = self.files.create(f"{STATES}/{name}", encode(state))
            if is_first and self._state_names()[-1] != name:  # already deleted by a run many steps ahead
                self.files.delete(f"{STATES}/{name}")
                is_first = False
            if not is_first:
                raise MQError(f"another run is archiving into {self.files.url}: this run ends, no message is lost")
            self.state = state
            self._settle()
        for old in self._state_names()[:-STATES_KEPT]:
            self.files.delete(f"{STATES}/{old}")

    def _load(self) -> ArchiveState:
        names = self._state_names()
        if not names:
            return ArchiveState()
        name = f"{STATES}/{names[-1]}"
        return decode(self.files.read(name), self.files.at(name))

    def _state_names(self) -> list[str]:
        return [name for name, _ in self.files.names(STATES) if not name.startswith(".")]

    def _settle(self) -> None:
        """Delete the step's old files, then move its new ones into place.

        In between, a concurrent reader may miss a message but never sees one twice. The staging directory of the step
        is deleted last: if it is gone, the step is complete.
        """
        staging = {"/".join(source.split("/")[:STAGING_DEPTH]) for source, _ in self.state.moves}
        if not any(self.files.exists(folder) for folder in staging):
            return
        for name in self.state.deletes:
            self.files.delete(name)
        for source, target in self.state.moves:
            self.files.move(source, target)
        self.files.sync(target for _, target in self.state.moves)
        for folder in staging:
            self.files.delete(folder)

    def clear_own(self) -> None:
        """Remove the uncommitted files of this run."""
        self.files.delete(f"{STAGING}/{self._run}")

    def clear_leftovers(self, *, is_alone: bool) -> None:
        """Remove the uncommitted files of runs that were killed."""
        for name, changed_ms in self.files.names(STAGING):
            folder = f"{STAGING}/{name}"
            if name != self._run and (is_alone or self._is_left_over(folder, changed_ms)):
                self.files.delete(folder)

    def _is_left_over(self, folder: str, changed_ms: int) -> bool:
        """Return whether a run's staging directory is abandoned, by the times of its files.

        Writes deep inside a directory do not change its own time, and directories of an object store always have the
        current time.
        """
        latest_ms = max((file.modified_ms for file in self.files.files(folder)), default=changed_ms)
        return self._clock_ms() - latest_ms > _LEFT_OVER_MS


def _state_name(version: int) -> str:
    return f"{version:012}.json"


def open_archive(spark: SparkSession, url: str) -> ArchiveHome:
    """Open an archive for reading. Raises ConfigError if there is none."""
    home = ArchiveHome(FileSystem(spark, url))
    if home.is_new:
        raise ConfigError(f"{url} is not an archive: `hanabi pipeline run archive --to {url}` makes one")
    return home


@contextmanager
def writing_archive(files: FileSystem) -> Iterator[ArchiveHome]:
    """Open an archive for writing, by one run at a time."""
    with _locked(files) as is_alone:
        home = ArchiveHome(files)
        if home.is_new and (strange := [name for name, _ in files.names("") if name != OWN]):
            raise ConfigError(f"{files.url} is not an archive, but there is something in it: {strange[0]}")
        home.clear_leftovers(is_alone=is_alone)
        yield home
        home.clear_own()  # not after an error: staging may hold committed files that are not moved yet


@contextmanager
def _locked(files: FileSystem) -> Iterator[bool]:
    """Lock a local directory; yield whether it is locked. The kernel releases the lock of a killed process.

    Other file systems have no lock: there the state files detect a concurrent run.
    """
    if files.local_path is None:
        if not files.knows_who_was_first:
            logger.warning(
                "concurrent runs cannot be detected here: run only one at a time that archives into %s", files.url
            )
        yield False
        return
    folder = os.path.join(files.local_path, OWN)  # noqa: PTH118 - a text that Hadoop made
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)  # noqa: PTH118
    except OSError as error:
        raise ConfigError(f"{files.url} cannot be written: {error.strerror or error}") from error
    try:
        _lock(lock, files.url)
        yield True
    finally:
        os.close(lock)


def _lock(file: int, url: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"another run is archiving into {url}: wait for its end") from error
