"""A log file that is rotated by size, with a limit of old files kept: bytes in, nothing else known.

    broker.log     is written
    broker.log.1   the one before it ... broker.log.9   the oldest; it goes when there is a new one

Blocks, so a thread of its own calls it (`log_queue.py`). What fails raises OSError, and can be tried again: a line that
was half written then is ended first. If the file was moved or deleted, a new one is begun.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 20 << 20
FILES_MAX: Final = 10


class LogFile:
    """Appends to *path*. Invariant: `_size` is the size of the open file, which no other process writes."""

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX) -> None:
        self.path = path
        self._bytes_max, self._files_max = bytes_max, files_max
        self._descriptor = -1
        self._size = 0
        self._is_in_line = False  # the last write ended in the middle of a line

    def open(self) -> None:
        """Make the folder and the file if they are not there. OSError says why they cannot be."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, lines: bytes) -> None:
        """Append whole *lines*."""
        self._follow()
        if self._size and self._size + len(lines) > self._bytes_max:
            self._begin_anew()
        if self._is_in_line:
            self._append(b"\n")
            self._is_in_line = False
        self._append(lines)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _follow(self) -> None:
        """Write to the file that has the name, whatever happened to the one we had."""
        if self._descriptor >= 0:
            try:
                named, ours = self.path.stat(), os.fstat(self._descriptor)
                if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
                    self._size = ours.st_size
                    return
            except FileNotFoundError:
                pass
            self.close()
        self.open()

    def _begin_anew(self) -> None:
        self.close()
        for number in range(self._files_max - 1, 0, -1):
            older = self._old(number)
            with suppress(FileNotFoundError):
                (self._old(number - 1) if number > 1 else self.path).replace(older)
        if self._files_max == 1:
            self.path.unlink(missing_ok=True)
        self._is_in_line = False
        self.open()

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _append(self, data: bytes) -> None:
        while data:
            written = os.write(self._descriptor, data)
            self._size += written
            self._is_in_line = not data[:written].endswith(b"\n")
            data = data[written:]
