"""Files below one directory, on whatever Spark can write to: Hadoop's file systems, asked through the driver's JVM.

Names are relative to the directory, with slashes between them. A file appears whole under its name or not at all:
`create` writes it under another name first, and renaming one file is atomic on local disks and HDFS. Object stores
rename by a copy, which appears whole as well, but takes the place of what is there: so they are asked to create the
file if there is none, which S3A does in one request.
"""

import os
import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError, MQError

_IF_ABSENT: Final = "fs.option.create.conditional.overwrite"  # Hadoop 3.4.2's name for it; what has it says so
_RENAMES_ATOMICALLY: Final = ("file", "hdfs", "viewfs", "webhdfs", "swebhdfs")


class FoundFile(NamedTuple):
    name: str
    size: int
    modified_ms: int


class FileSystem:
    """One directory. Raises MQError, with the reason, when its file system refuses."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        path = self._jvm.org.apache.hadoop.fs.Path(url)
        try:
            self._system = path.getFileSystem(context._jsc.hadoopConfiguration())
            whole = path.makeQualified(self._system.getUri(), self._system.getWorkingDirectory())
            self._creates_if_absent = bool(self._system.hasPathCapability(whole, _IF_ABSENT))
        except Py4JJavaError as error:
            raise ConfigError(f"{url} cannot be used: {reason(error)}") from error
        self.url = str(whole.toString())
        self._below = f"{self.url.rstrip('/')}/"  # only the root of a file system ends with a slash already
        scheme = str(whole.toUri().getScheme())
        # As this machine knows it.
        self.local_path: str | None = str(whole.toUri().getPath()) if scheme == "file" else None
        # Whether of two who `create` one file at the same time only one is told that it did.
        self.knows_who_was_first = self._creates_if_absent or scheme in _RENAMES_ATOMICALLY

    def at(self, name: str) -> str:
        """Return the URL of *name*."""
        return f"{self._below}{name}" if name else self.url

    def exists(self, name: str) -> bool:
        return bool(self._ask(name, "looked for", lambda path: self._system.exists(path)))

    def make(self, name: str) -> None:
        """The directory *name*, and those above it; one that is there stays as it is."""
        self._ask(name, "made", lambda path: self._system.mkdirs(path))

    def read(self, name: str) -> bytes:
        def read(path: Any) -> bytes:
            stream = self._system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        return bytes(self._ask(name, "read", read))

    def create(self, name: str, data: bytes) -> bool:
        """Make the file *name*, whole. False if it is there already: then nothing is changed."""
        if self._creates_if_absent:
            return self._create_if_absent(name, data)
        folder, _, last = name.rpartition("/")
        part = f"{folder}/.{last}.{uuid.uuid4().hex}"

        def write(path: Any) -> None:
            stream = self._system.create(path, True)
            try:
                stream.write(data)
            finally:
                stream.close()

        self._ask(part, "written", write)
        self.sync([part])
        if self.exists(name) or not self._rename(part, name):
            self.delete(part)
            return False
        return True

    def _create_if_absent(self, name: str, data: bytes) -> bool:
        def write(path: Any) -> None:
            stream = self._system.createFile(path).overwrite(False).recursive().must(_IF_ABSENT, True).build()
            try:
                stream.write(data)
            except Py4JJavaError:
                stream.abort()  # to close it would send what there is
                raise
            stream.close()  # sends it all: the store decides now

        try:
            self._ask(name, "written", write)
        except MQError:
            if self.exists(name):
                return False
            raise
        return True

    def move(self, name: str, to: str) -> None:
        """Done already is done, too. Where a move is a copy, one that was cut off may have left its source."""
        if self.exists(to):
            return
        self.make(to.rpartition("/")[0])
        try:
            is_done, refusal = self._rename(name, to), None
        except MQError as error:
            is_done, refusal = False, error
        if is_done or self.exists(to):  # in the second case, somebody else was quicker
            return
        if not self.exists(name):
            raise MQError(f"{self.at(name)} is gone, and {self.at(to)} is not there: has somebody else deleted it?")
        raise refusal or MQError(
            f"{self.at(name)} cannot be moved to {self.at(to)}: the file system refuses without a reason"
        )

    def delete(self, name: str) -> None:
        self._ask(name, "deleted", lambda path: self._system.delete(path, True))

    def files(self, name: str) -> list[FoundFile]:
        """Return all files below *name*, whatever their depth."""

        def walk(path: Any) -> list[FoundFile]:
            if not self._system.exists(path):
                return []
            found, each = list[FoundFile](), self._system.listFiles(path, True)
            while each.hasNext():
                file = each.next()
                url = str(file.getPath().toString())
                found.append(FoundFile(url[len(self._below) :], int(file.getLen()), int(file.getModificationTime())))
            return found

        return sorted(self._ask(name, "listed", walk))

    def names(self, name: str) -> list[tuple[str, int]]:
        """What lies directly below *name*, and when each was changed, in milliseconds; nothing if it is not there."""

        def listed(path: Any) -> list[tuple[str, int]]:
            if not self._system.exists(path):
                return []
            return [
                (str(each.getPath().getName()), int(each.getModificationTime()))
                for each in self._system.listStatus(path)
            ]

        return sorted(self._ask(name, "listed", listed))

    def sync(self, names: Iterable[str]) -> None:
        """Wait until files and the directories that name them are on disk, where a local disk does not by itself."""
        root = self.local_path
        if root is None:
            return
        folders: set[str] = set()
        for name in names:
            path = os.path.join(root, name)  # noqa: PTH118
            _sync(path, os.O_RDONLY)
            folder = os.path.dirname(path)  # noqa: PTH120
            while len(folder) >= len(root) and folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120
        for folder in folders:
            _sync(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))

    def _rename(self, name: str, to: str) -> bool:
        target = self._jvm.org.apache.hadoop.fs.Path(self.at(to))
        return bool(self._ask(name, "renamed", lambda path: self._system.rename(path, target)))

    def _ask(self, name: str, verb: str, question: Any) -> Any:
        try:
            return question(self._jvm.org.apache.hadoop.fs.Path(self.at(name)))
        except Py4JJavaError as error:
            raise MQError(f"{self.at(name)} cannot be {verb}: {reason(error)}") from error


def reason(error: Py4JJavaError) -> str:
    """Return what the JVM says, in one line."""
    told = str(error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName())
    return told.strip().splitlines()[0]


def _sync(path: str, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
