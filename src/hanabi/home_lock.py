"""One server a folder: a lock that the operating system drops by itself when its holder dies.

The lock is on the file, not on its name. If an operator deletes the folder under a running server, that server goes on
with what it has in memory, its next change creates the folder and the files again, and nothing stops a second server
there: stop the server first.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import IO

from hanabi.errors import ConfigError

LOCK_NAME = "lock"


class HomeLock:
    """Holds *folder*/lock from creation to `release`."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / LOCK_NAME).open("a+b")
        except OSError as error:
            raise ConfigError(f"home {folder} cannot be written: {error.strerror or error}") from error
        try:
            _lock(self._file)
        except OSError as error:
            holder = _holder(self._file)
            self._file.close()
            raise ConfigError(f"home {folder} is in use by another server{holder}") from error
        self._sign()

    def _sign(self) -> None:
        """Write our process number into the file, for the error of a second server. It is not the lock."""
        with contextlib.suppress(OSError):
            self._file.truncate(0)
            self._file.write(str(os.getpid()).encode())
            self._file.flush()

    def release(self) -> None:
        """Let the next server in. The file stays: to remove it would let two servers lock two files of one name."""
        self._file.close()


def _holder(file: IO[bytes]) -> str:
    """Return the holder of the lock for a log line; empty if it cannot be read."""
    try:
        file.seek(0)
        pid = file.read(20).decode("ascii", "replace").strip()
    except OSError:  # Windows locks the bytes against readers too
        return ""
    return f" (process {pid})" if pid else ""


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
