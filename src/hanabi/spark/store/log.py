"""Reads of the commit log into memory that Arrow can reference.

Files are read, not mapped: if a broker truncates a file, an access to the map would end the worker with SIGBUS.
"""

import os
from typing import Self

import numpy as np
import pyarrow as pa

from hanabi.spark.decode.fields import Positions
from hanabi.store.inspection.home import StoreHome, cannot_read


class LogReader:
    """Reader of the commit log's files as listed. Keeps the last file open; use as a context manager."""

    def __init__(self, home: StoreHome) -> None:
        self.files = home.log_files()
        self.bases: Positions = np.array([file.base for file in self.files], np.int64)
        self.ends: Positions = np.array([file.end for file in self.files], np.int64)
        self._number, self._fd = -1, -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._number, self._fd = -1, -1

    def numbers_of(self, log_offsets: Positions) -> Positions:
        """Return the file number of each log offset, -1 for none."""
        numbers = np.searchsorted(self.bases, log_offsets, "right") - 1
        if not len(self.files):
            return numbers
        return np.where(log_offsets < self.ends[numbers], numbers, -1)

    def read(self, pieces: list[tuple[int, int, int]]) -> pa.Buffer:
        """Return one buffer with all *pieces* concatenated: each a file's number, a log offset in it, and a size.

        Bytes that the file no longer has are zeros.
        """
        buffer = pa.allocate_buffer(sum(size for _, _, size in pieces))
        view = memoryview(buffer).cast("B")
        at = 0
        for number, log_offset, size in pieces:
            self._read_into(view[at : at + size], number, log_offset)
            at += size
        return buffer

    def _read_into(self, view: memoryview, number: int, log_offset: int) -> None:
        file = self.files[number]
        position, done = log_offset - file.base, 0
        try:
            if number != self._number:
                self.close()
                self._fd = os.open(file.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                self._number = number
            while done < len(view) and (got := os.preadv(self._fd, [view[done:]], position + done)):
                done += got
        except FileNotFoundError:
            pass  # deleted since it was listed
        except OSError as error:
            raise cannot_read(file.path, error) from error
        view[done:] = bytes(len(view) - done)
