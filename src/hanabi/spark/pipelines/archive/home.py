"""The directory of an archive. Only whoever holds it may change it; reading needs nothing but what lies there.

    topic=Orders/hour=2026-11-15T14/part-...zstd.parquet     messages: all files here are archived, and each only once
    _archive/state/000000000012.json                         how far it is (the last few steps)
    _archive/staging/<run>/...                               what is being written
    _archive/lock                                            whoever writes has it (local directories)

A step writes its files to staging, then the state, then moves the files into place. Killed before the state is there,
it never was; killed after, whoever opens the archive next finishes it. So nobody finds a message twice at any time.
Where nothing can be locked, the state tells two runs apart: only one of them can make the file of the next version.
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
STAGING_DEPTH: Final = 4  # names down to the directory of one step: _archive/staging/<run>/<version>
STATES_KEPT: Final = 5
_LEFT_OVER_MS: Final = 24 * 3_600_000  # where nobody can say that a run is over, it is after a day

logger = logging.getLogger(__name__)


class ArchiveHome:
    """One archive, with all that its last step had to do done."""

    def __init__(self, files: FileSystem, clock_ms: Callable[[], int] = wall_ms) -> None:
        self.files, self._clock_ms = files, clock_ms
        self._run = uuid.uuid4().hex
        self.state = self._load()
        self._settle()

    @property
    def is_new(self) -> bool:
        return self.state.version == 0

    def staging(self) -> str:
        """Return a place for the files of one step; nobody else uses it."""
        return f"{STAGING}/{self._run}/{self.state.version + 1}"

    def commit(self, state: ArchiveState) -> None:
        """Make *state* the next step, and do what it says. Raises MQError if somebody else was first."""
        assert state.version == self.state.version + 1  # noqa: S101 - steps follow each other
        self.files.sync(source for source, _ in state.moves)
        name = _state_name(state.version)
        with uninterrupted():
            is_first = self.files.create(f"{STATES}/{name}", encode(state))
            if is_first and self._state_names()[-1] != name:  # made and forgotten, by a run that is many steps ahead
                self.files.delete(f"{STATES}/{name}")
                is_first = False
            if not is_first:
                raise MQError(f"another run is archiving into {self.files.url}: this one ends, nothing is lost")
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
        """First delete, then move: in between a message may be missing for others who look, but never twice there.

        The staging directory of the step goes last: where it is gone, all is done.
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
        """Remove what this run has begun to write and not committed."""
        self.files.delete(f"{STAGING}/{self._run}")

    def clear_leftovers(self, *, is_alone: bool) -> None:
        """Remove what runs that were killed had begun to write."""
        for name, changed_ms in self.files.names(STAGING):
            folder = f"{STAGING}/{name}"
            if name != self._run and (is_alone or self._is_left_over(folder, changed_ms)):
                self.files.delete(folder)

    def _is_left_over(self, folder: str, changed_ms: int) -> bool:
        """By its files: the folder of a run is not changed by all that is written below it, and one of an object store
        was always changed just now."""
        latest_ms = max((file.modified_ms for file in self.files.files(folder)), default=changed_ms)
        return self._clock_ms() - latest_ms > _LEFT_OVER_MS


def _state_name(version: int) -> str:
    return f"{version:012}.json"


def open_archive(spark: SparkSession, url: str) -> ArchiveHome:
    """For reading. Raises ConfigError if there is no archive."""
    home = ArchiveHome(FileSystem(spark, url))
    if home.is_new:
        raise ConfigError(f"{url} is not an archive: `hanabi pipeline run archive --to {url}` makes one")
    return home


@contextmanager
def writing_archive(files: FileSystem) -> Iterator[ArchiveHome]:
    """For writing, by one run at a time."""
    with _locked(files) as is_alone:
        home = ArchiveHome(files)
        if home.is_new and (strange := [name for name, _ in files.names("") if name != OWN]):
            raise ConfigError(f"{files.url} is not an archive, but there is something in it: {strange[0]}")
        home.clear_leftovers(is_alone=is_alone)
        yield home
        home.clear_own()  # not after an error: what is committed and not moved yet lies there, too


@contextmanager
def _locked(files: FileSystem) -> Iterator[bool]:
    """A local directory can be locked; elsewhere steps tell who was first. The kernel unlocks for who is killed."""
    if files.local_path is None:
        if not files.knows_who_was_first:
            logger.warning("nothing here keeps two runs apart: only one at a time may archive into %s", files.url)
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
