"""Location of a broadcasting consumer's offset file, stable across restarts.

The folder is named as Apache's clients name theirs: after the client id with the instance's plain name, which does not
change from one process to the next. Several consumers of a group on one machine would share it, so each claims the
first free folder: ID, ID#2, ID#3. A claim is a lock on our file `offsets.lock`, next to `offsets.json`; it ends with
the process at the latest.
"""

import contextlib
import os
import threading
from itertools import count
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows: consumers of several processes may share a folder
    fcntl = None  # type: ignore[assignment]

LOCK_NAME: Final = "offsets.lock"

_claimed: dict[Path, int] = {}  # folder -> the process that claimed it: file locks do not separate threads
_changing = threading.Lock()


class Claim:
    """Exclusive use of one *folder*, until `release`."""

    def __init__(self, folder: Path, descriptor: int | None) -> None:
        self.folder, self._descriptor = folder, descriptor

    def release(self) -> None:
        """Release the folder for the next consumer. Calling it again does nothing."""
        with _changing:
            if _claimed.get(self.folder) == os.getpid():
                del _claimed[self.folder]
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def claim(root: Path, client_id: str, group: str) -> Claim:
    """Claim the first folder of *client_id* and *group* under *root* that no other consumer has."""
    with _changing:
        for number in count(1):
            name = client_id if number == 1 else f"{client_id}#{number}"
            folder = root / name / group
            if _claimed.get(folder) != os.getpid():
                with contextlib.suppress(BlockingIOError):  # another process has it
                    descriptor = _lock(folder)
                    _claimed[folder] = os.getpid()
                    return Claim(folder, descriptor)
    raise AssertionError("unreachable: the count is infinite")


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock; None without lock support, or if no file can be created: saving reports
    that.
    """
    if fcntl is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise BlockingIOError(f"{folder} is in use") from error
    return descriptor
