"""Table that a server keeps as one small file: topics, groups, offsets, KV values... Each write replaces the whole file
atomically.

    topics.json          the newest
    topics.json.bak      the previous one, read when the newest is missing or unreadable
    topics.json.tmp      being written

Same file names as Java's ConfigManager and MixAll.string2File; independent of the table's content.
"""

import errno
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from hanabi.errors import MQError, StoreDamaged, StoreError, StoreFull, StoreUnwritable

logger = logging.getLogger(__name__)

# Errors of the process rather than of the file: an older table must not be read instead.
_SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

T = TypeVar("T")


def sync_directory(path: Path) -> None:
    """Make created, renamed and removed names in *path* survive a power cut."""
    if os.name == "nt":  # cannot open a directory, and need not
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DurableTable(Generic[T]):
    """One file and its backup. *decode* raises ValueError, msgspec's or our own errors for unreadable content.

    *mode* is the permission of both files, for a table with secrets; None: as the process creates files.
    """

    def __init__(
        self, path: Path, *, encode: Callable[[T], bytes], decode: Callable[[bytes], T], mode: int | None = None
    ) -> None:
        self.path, self._mode = path, mode
        self._backup = path.with_name(path.name + ".bak")
        self._encode, self._decode = encode, decode
        self._last_good: bytes | None = None  # becomes the backup: never unreadable bytes
        self._is_in_file = False  # the last good one, for certain
        self._saving = threading.Lock()
        self.was_empty = False  # at the load: a file without a byte, and no backup

    def load(self) -> T | None:
        """Return the table, from the backup if need be; None if there is neither. Raise StoreDamaged if nothing is
        readable.
        """
        reasons: list[str] = []
        empty: list[str] = []
        for path in (self.path, self._backup):
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
                if isinstance(error, OSError) and error.errno in _SHORT_OF:
                    raise StoreError.from_os_error(error, f"reading {path}") from error
                reasons.append(f"{path}: {error}")
                continue
            if not raw:  # left by a full disk or a power cut: treated as missing
                empty.append(str(path))
                continue
            try:
                table = self._decode(raw)
            except (ValueError, msgspec.MsgspecError, MQError) as error:
                reasons.append(f"{path}: {error}")
                continue
            self._last_good, self._is_in_file = raw, path == self.path
            if path != self.path:
                logger.warning("%s is missing or unreadable, read %s instead%s", self.path, path, _because(reasons))
            return table
        if reasons:
            raise StoreDamaged(f"neither the table nor its backup can be read: {'; '.join(reasons)}")
        if empty:
            self.was_empty = True
            logger.warning(
                "%s is empty and there is no other copy: its content is lost, as after a full disk or a power cut;"
                " to restore it, stop the server, put a copy in its place and start again",
                " and ".join(empty),
            )
        return None

    @property
    def is_newest(self) -> bool:
        """Return True if the file holds the table that was loaded or saved last: not a backup, and not none."""
        return self._is_in_file

    def check_writable(self) -> None:
        """Raise before the first `save` if it cannot work. A full disk does not count: it may get room."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = _temporary(self.path)
            temporary.open("ab").close()
            temporary.unlink()
        except OSError as error:
            reason = StoreError.from_os_error(error, f"writing {self.path}")
            if not isinstance(reason, StoreFull):
                raise reason from error
        except ValueError as error:
            raise StoreUnwritable(f"writing {self.path!r} failed: {error}") from error

    def save(self, table: T) -> None:
        """Write the table; a crash at any moment leaves the old or the new one. Does nothing if it is the same.

        Blocks for the disk. May be called by any thread.
        """
        with self._saving:
            raw = self._encode(table)
            if raw != self._last_good or not self._is_in_file or not self.path.exists():
                self._write(raw)

    def _write(self, raw: bytes) -> None:
        self._is_in_file = False  # until all is done: a failed write may have reached the rename
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._last_good is not None:
                replace_file(self._backup, self._last_good, self._mode)
            replace_file(self.path, raw, self._mode)
            sync_directory(self.path.parent)
        except OSError as error:
            self._put_back()
            raise StoreError.from_os_error(error, f"writing {self.path}") from error
        self._last_good, self._is_in_file = raw, True

    def _put_back(self) -> None:
        """Restore the old file after a write that failed behind its rename, as far as the disk allows."""
        with suppress(OSError):
            if self._last_good is None:
                self.path.unlink(missing_ok=True)
            elif self.path.read_bytes() != self._last_good:
                replace_file(self.path, self._last_good, self._mode)


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def replace_file(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write *content* to *path* at once: a crash leaves the old file or the new one. *mode* is its permission."""
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                temporary.chmod(mode)  # before there is anything to read
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # a partial file would only take up scarce space
            temporary.unlink()
        raise


def _because(reasons: list[str]) -> str:
    return f" ({'; '.join(reasons)})" if reasons else ""
