"""A bounded number of open files, shared by tens of thousands of queues.

40,000 queues cannot each keep a file open: the usual limit of a process is 1,024 descriptors, and sockets need them
too. The files used last stay open; the others are opened again when they are needed.

A descriptor is closed when nobody holds it any more, not when it leaves this cache. A thread that is just reading
therefore never finds its number closed, or worse, given to another file.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

DESCRIPTORS_MAX = 512


class Descriptor:
    """An open file. Closed with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Descriptors:
    """The files that were used last, by any key. Invariant: at most `limit` of them are kept open."""

    def __init__(self, limit: int = DESCRIPTORS_MAX) -> None:
        if limit < 1:
            raise ValueError(f"a cache of {limit} descriptors")
        self.limit = limit
        self._kept: OrderedDict[Hashable, Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Descriptor | None:
        """The open file of *key*, if it is kept. Hold the result for as long as its number is in use."""
        descriptor = self._kept.get(key)
        if descriptor is not None:
            try:  # noqa: SIM105 - `suppress` takes longer than all the rest, and this is on the way of every read
                self._kept.move_to_end(key)
            except KeyError:
                pass  # another thread let it go just now; ours stays open while we hold it
        return descriptor

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
