"""A bounded number of open files, shared by tens of thousands of queues.

40,000 queues cannot each keep a file open: the usual limit of a process is 1,024 descriptors, and sockets need them
too. The most recently used files stay open; all other files are reopened on use. When the process runs out of
descriptors, the least recently used files are closed.

A descriptor is closed with its last reference, not when it is evicted from this cache. So the descriptor of a thread
that is reading is never closed, or worse, reused for another file.
"""

import errno
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable

if sys.platform != "win32":
    import resource

DESCRIPTORS_MAX = 512
DESCRIPTORS_MIN = 8
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def limit_of_process() -> int:
    """Return the descriptor limit of this process."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class Descriptor:
    """An open file. Closed with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Descriptors:
    """The files that were used last, by any key. Invariant: at most `limit` of them are kept open."""

    def __init__(self, limit: int | None = None) -> None:
        """Keep at most *limit* files open; by default this cache's share of the process limit."""
        if limit is None:
            limit = self.share_of(limit_of_process())
        if limit < 1:
            raise ValueError(f"a cache of {limit} descriptors")
        self.limit = limit
        self._kept: OrderedDict[Hashable, Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def share_of(process_limit: int) -> int:
        """Return a cache's share of the *process_limit* descriptors: the rest is for connections and other files."""
        return min(DESCRIPTORS_MAX, max(DESCRIPTORS_MIN, process_limit // 4))

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Descriptor | None:
        """Return the open file of *key*, if it is kept. Hold the result for as long as its number is in use."""
        descriptor = self._kept.get(key)
        if descriptor is not None:
            try:  # noqa: SIM105 - `suppress` takes longer than all the rest, and this is on the way of every read
                self._kept.move_to_end(key)
            except KeyError:
                pass  # another thread let it go just now; ours stays open while we hold it
        return descriptor

    def open_file(self, path: str, flags: int) -> int:
        """Open *path*, after closing files of this cache that rest if the process has no free descriptor."""
        flags |= os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS or not self._kept:
                raise
        self._close_oldest(-(-len(self._kept) // 2))
        return os.open(path, flags, 0o644)

    def _close_oldest(self, count: int) -> None:
        with self._lock:
            for _ in range(min(count, len(self._kept))):
                self._kept.popitem(last=False)

    def keep(self, key: Hashable, fd: int) -> Descriptor:
        """Keep the open file *fd* under *key*; the one that was not used for longest goes if there are too many."""
        descriptor = Descriptor(fd)
        with self._lock:
            self._kept[key] = descriptor
            self._kept.move_to_end(key)
            while len(self._kept) > self.limit:
                self._kept.popitem(last=False)
        return descriptor

    def drop(self, key: Hashable) -> None:
        """Let the file of *key* go."""
        with self._lock:
            self._kept.pop(key, None)

    def close(self) -> None:
        """Let all files go. The cache can be used again."""
        with self._lock:
            self._kept.clear()
