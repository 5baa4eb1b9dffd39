"""Files below one directory, on any file system that Spark can write to: Hadoop's, through the driver's JVM.

Names are relative to the directory, with slashes between them. A file appears whole under its name or not at all:
`create` writes it under a temporary name first, and renaming one file is atomic on local disks and HDFS. Object stores
rename by a copy, which is atomic as well but overwrites an existing file: so they are asked to create the file only if
it does not exist, which S3A does in one request.
"""

import os
import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError, MQError

_IF_ABSENT: Final = (
    "fs.option.create.conditional.overwrite"  # Hadoop 3.4.2's option; file systems declare whether they have it
)
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
        self._below = f"{self.url.rstrip('/')}/"  # only the root of a file system already ends with a slash
        scheme = str(whole.toUri().getScheme())
        # The path on this machine.
        self.local_path: str | None = str(whole.toUri().getPath()) if scheme == "file" else None
        # Whether of two concurrent calls of `create` for one file only one returns True.
        self.knows_who_was_first = self._creates_if_absent or scheme in _RENAMES_ATOMICALLY

    def at(self, name: str) -> str:
        """Return the URL of *name*."""
        return f"{self._below}{name}" if name else self.url

    def exists(self, name: str) -> bool:
        return bool(self._ask(name, "looked for", lambda path: self._system.exists(path)))

    def make(self, name: str) -> None:
        """Create the directory *name* and its parents; an existing one stays unchanged."""
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
        """Create the file *name* atomically. Return False and change nothing if it exists."""
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
                stream.abort()  # close() would upload the partial file
                raise
            stream.close()  # uploads the file: the store accepts or refuses it now

        try:
            self._ask(name, "written", write)
        except MQError:
            if self.exists(name):
                return False
            raise
        return True

    def move(self, name: str, to: str) -> None:
        """Move a file. Does nothing if *to* exists: an interrupted move by copy may have left its source."""
        if self.exists(to):
            return
        self.make(to.rpartition("/")[0])
        try:
            is_done, refusal = self._rename(name, to), None
        except MQError as error:
            is_done, refusal = False, error
        if is_done or self.exists(to):  # in the second case, another process moved it first
            return
        if not self.exists(name):
            raise MQError(
                f"{self.at(name)} is gone, and {self.at(to)} does not exist: was it deleted by another program?"
            )
        raise refusal or MQError(
            f"{self.at(name)} cannot be moved to {self.at(to)}: the file system refused and gave no reason"
        )

    def delete(self, name: str) -> None:
        self._ask(name, "deleted", lambda path: self._system.delete(path, True))

    def files(self, name: str) -> list[FoundFile]:
        """Return all files below *name*, at any depth."""

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
        """Return the names directly below *name* and their modification times in ms; empty if it is missing."""

        def listed(path: Any) -> list[tuple[str, int]]:
            if not self._system.exists(path):
                return []
            return [
                (str(each.getPath().getName()), int(each.getModificationTime()))
                for each in self._system.listStatus(path)
            ]

        return sorted(self._ask(name, "listed", listed))

    def sync(self, names: Iterable[str]) -> None:
        """Flush files and their directories to disk. Only local disks need it."""
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
    """Return the JVM's message, in one line."""
    told = str(error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName())
    return told.strip().splitlines()[0]


def _sync(path: str, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
