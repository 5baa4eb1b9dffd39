"""The ownership of a store's directory: the file `lock`, held by the owner, and `abort`, which a crash leaves behind.

The lock is the one Java takes (a POSIX record lock on the first byte, DefaultMessageStore.start), so an Apache broker
on the same directory is kept out, and keeps us out. A second lock, on the directory itself, keeps other Hanabi brokers
out even when the file was removed meanwhile: the next broker would lock a new file.
"""

import contextlib
import logging
import os
import re
import secrets
import struct
import sys
import threading
from pathlib import Path

from hanabi.durable_table import sync_directory
from hanabi.errors import StoreError, StoreLocked

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

# Apache writes "lock" here at its start. Ours is another for each store, and as long as it stands here only we have had
# the store: our records of its files are still true.
_OWNER = re.compile(rb"Hanabi [0-9a-f]{16}")
_OURS = b"hanabi\n"

# A record lock belongs to the process: a second one from the same process would be granted, and closing any descriptor
# of the file gives all of them up. So this process keeps a table of its locks, by device and inode.
_held: set[tuple[int, int]] = set()
_held_lock = threading.Lock()


class StoreLock:
    """The exclusive right to one store directory. Use as a context manager, or `acquire` and `release`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.owner = ""  # the file's content while we hold it
        self._descriptor: int | None = None
        self._directory: int | None = None
        self._identity = (0, 0)

    def acquire(self) -> None:
        """Take the lock, or raise StoreLocked at once."""
        path = self.root / "lock"
        with _held_lock:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                if path.exists():
                    state = path.stat()
                    if (state.st_dev, state.st_ino) in _held:
                        raise StoreLocked(f"{self.root} is already open as a store in this process")
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            except OSError as error:
                raise StoreError.from_os_error(error, f"opening {path}") from error
            with contextlib.ExitStack() as undo:
                undo.callback(os.close, descriptor)
                try:
                    _lock_first_byte(descriptor, self.root)
                    directory = _lock_directory(self.root)
                    if directory is not None:
                        undo.callback(os.close, directory)
                    self.owner = _owner(descriptor)
                except OSError as error:
                    raise StoreError.from_os_error(error, f"writing {path}") from error
                undo.pop_all()
            state = os.fstat(descriptor)
            self._descriptor, self._directory = descriptor, directory
            self._identity = state.st_dev, state.st_ino
            _held.add(self._identity)

    def release(self) -> None:
        """Give the lock up. The file stays, as Apache's does."""
        with _held_lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                if self._directory is not None:
                    os.close(self._directory)
                self._descriptor = self._directory = None
                _held.discard(self._identity)

    def __enter__(self) -> "StoreLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _owner(descriptor: int) -> str:
    """Return the content of the lock file, after claiming it if it was another broker's."""
    content = os.pread(descriptor, 64, 0)
    if not _OWNER.fullmatch(content):
        content = b"Hanabi %s" % secrets.token_hex(8).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
        os.fsync(descriptor)
    return content.decode()


def mark_running(root: Path) -> None:
    """Leave the mark `abort` until `mark_stopped`. Finding it at the start means that there was a crash.

    Apache's file is empty and its content is never read; ours names its owner, if the disk has room for that.
    """
    path = root / "abort"
    try:
        path.touch()
        if path.read_bytes() != _OURS:
            with contextlib.suppress(OSError):
                path.write_bytes(_OURS)
        sync_directory(root)
    except OSError as error:
        raise StoreError.from_os_error(error, f"creating {root / 'abort'}") from error


def mark_stopped(root: Path) -> None:
    """Remove the mark `abort`, once everything is on the disk."""
    try:
        (root / "abort").unlink(missing_ok=True)
        sync_directory(root)
    except OSError as error:
        raise StoreError.from_os_error(error, f"removing {root / 'abort'}") from error


def has_crashed(root: Path) -> bool:
    """Return whether the last one that had this store open did not stop cleanly."""
    return (root / "abort").exists()


def has_crashed_as_ours(root: Path) -> bool:
    """Return whether it did not stop cleanly and was one of us, not an Apache broker."""
    try:
        return (root / "abort").read_bytes() == _OURS
    except OSError:
        return False


if sys.platform == "win32":

    def _lock_first_byte(descriptor: int, root: Path) -> None:
        raise StoreError(f"{root}: a store cannot be opened on Windows")

    def _lock_directory(root: Path) -> int | None:
        return None

else:

    def _lock_first_byte(descriptor: int, root: Path) -> None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except (BlockingIOError, PermissionError) as error:
            raise StoreLocked(f"{root} is in use by {_holder(descriptor)}: stop that one first") from error

    def _lock_directory(root: Path) -> int | None:
        """Return a descriptor of *root* that holds its lock; None on a file system that locks no directories."""
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise StoreLocked(
                    f"{root} is in use by another process, though its file lock was removed: stop that one first"
                ) from error
            logger.debug("%s itself cannot be locked, only the file in it: %s", root, error.strerror)
            return None
        return descriptor


def _holder(descriptor: int) -> str:
    """Return the holder of the lock, as far as the system reports it."""
    if sys.platform == "linux":
        flock = struct.Struct("hhqqi4x")  # type, whence, start, length, process id
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, flock.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        process_id = flock.unpack(answer)[4]
        if process_id > 0:
            return f"process {process_id}"
    return "another process"
