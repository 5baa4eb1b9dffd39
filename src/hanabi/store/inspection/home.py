"""The files of a store, and reads that leave them untouched.

Everything under `inspection` may look into the directory of a running broker, a copy or a read-only mount, ours or
Apache's: it opens files for reading only, takes no lock and makes no file. Files are read with pread in pieces and not
mapped: a broker may cut or delete a file meanwhile, and a map would then end this process with SIGBUS.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from hanabi.errors import StoreError
from hanabi.store.files.segment import segment_name
from hanabi.store.queues.queue_files import list_bases


class DataFile(NamedTuple):
    """A file that is part of a sequence and named by the position of its first byte in it."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size


class StoreHome(msgspec.Struct, frozen=True):
    """The directories of one store."""

    root: Path
    commit_log: Path

    @classmethod
    def open(cls, root: Path, commit_log: Path | None = None) -> "StoreHome":
        """Return the store in *root*, its log perhaps elsewhere. Raises StoreError with the reason if there is none."""
        home = cls(root, commit_log or root / "commitlog")
        for directory in dict.fromkeys((root, home.commit_log)):
            try:
                os.listdir(directory)  # noqa: PTH208 (the question is whether we may)
            except FileNotFoundError:
                if directory == root:
                    raise StoreError(f"{root} does not exist") from None
                raise StoreError(f"{root} is not a store: there is no {home.commit_log}") from None
            except OSError as error:
                raise cannot_read(directory, error) from error
        return home

    @property
    def queues(self) -> Path:
        return self.root / "consumequeue"

    @property
    def queue_extensions(self) -> Path:
        return self.root / "consumequeue_ext"

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def log_files(self) -> list[DataFile]:
        return list_files(self.commit_log)

    def relative(self, path: str) -> str:
        """Return *path* relative to the root, if it lies below it."""
        try:
            return str(Path(path).relative_to(self.root))
        except ValueError:
            return path


def cannot_read(path: str | Path, error: OSError) -> StoreError:
    """Return the error to raise when the system refuses a read."""
    return StoreError(f"{path} cannot be read: {error.strerror or error}")


def list_files(directory: Path | str) -> list[DataFile]:
    """Return the files in *directory* that are named by their position, oldest first; none if there is no such
    directory."""
    files: list[DataFile] = []
    try:
        bases = list_bases(str(directory))
    except OSError as error:
        raise cannot_read(directory, error) from error
    for base in bases:
        path = f"{directory}/{segment_name(base)}"
        try:
            files.append(DataFile(path, base, os.stat(path).st_size))  # noqa: PTH116 (there may be 100,000)
        except FileNotFoundError:
            continue  # a broker deleted it just now
        except OSError as error:
            raise cannot_read(path, error) from error
    return files


def file_bytes(files: list[DataFile]) -> int:
    """Return the expected length of each of *files*: that of the longest, as a truncated file is shorter."""
    return max((file.size for file in files), default=0)


def sequence_problems(files: list[DataFile]) -> Iterator[tuple[DataFile, int, str]]:
    """Yield files that are missing or differ in size from the rest: file, position in it, reason."""
    size = file_bytes(files)
    for index, file in enumerate(files):
        following = files[index + 1] if index + 1 < len(files) else None
        if file.size != size and (file.size or following):  # the last one may have been made just now
            yield file, file.size, f"the file has {file.size} bytes, the rest have {size}"
        if following is not None and following.base != file.base + size:
            missing = f"{Path(file.path).parent}/{segment_name(file.base + size)}"
            reason = f"the file is missing: {segment_name(file.base)} is followed by {segment_name(following.base)}"
            yield DataFile(missing, file.base + size, size), 0, reason


class FileReader:
    """Reads pieces of files, and keeps the last file open. Use as a context manager."""

    def __init__(self) -> None:
        self._path = ""
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._path, self._fd = "", -1

    def read(self, path: str, position: int, size: int) -> bytes:
        """Return the bytes from *position*: fewer where the file ends, none if it is gone."""
        try:
            if path != self._path:
                self._open(path)
            return os.pread(self._fd, size, position)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise cannot_read(path, error) from error

    def is_there(self, path: str) -> bool:
        """Return whether the file still has its name."""
        return os.path.exists(path)  # noqa: PTH110

    def next_data(self, path: str, position: int) -> int | None:
        """Return the first place from *position* on where something may be written; None if only a hole follows.

        Preallocated files are mostly holes: without this, a check of 40,000 queues would read 240 GB of zeros.
        """
        if not hasattr(os, "SEEK_DATA"):
            return position
        try:
            if path != self._path:
                self._open(path)
            return os.lseek(self._fd, position, os.SEEK_DATA)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno == errno.EINVAL:  # a file system without SEEK_HOLE
                return position
            raise cannot_read(path, error) from error

    def _open(self, path: str) -> None:
        self.close()
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._path = path
