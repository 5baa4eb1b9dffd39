"""The file system of a directory, brought to the disk as a whole.

`os.sync` reports no errors. `syncfs` does since Linux 5.8: each failed write since its descriptor was opened, once. So
the descriptor is opened before anything is written, and stays open.
"""

import ctypes
import os
import sys
import weakref
from pathlib import Path


class FileSystem:
    """The file system that holds *directory*, or will when that is made."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(_nearest(directory), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.close = weakref.finalize(self, os.close, self._descriptor)

    def sync(self) -> None:
        """Block until everything written before the call is on the disk; OSError if a write failed.

        Other threads run meanwhile.
        """
        if sys.platform != "linux":
            os.sync()
        elif ctypes.CDLL(None, use_errno=True).syncfs(self._descriptor):
            failed = ctypes.get_errno()
            raise OSError(failed, os.strerror(failed))


def _nearest(directory: Path) -> Path:
    """Return the directory, or that of its parents that exists."""
    return next(path for path in (directory, *directory.absolute().parents) if path.is_dir())
