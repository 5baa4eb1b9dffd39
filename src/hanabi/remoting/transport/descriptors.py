"""The descriptors of this process: a share that is kept for files, and the rest, which the connections of all servers
in the process divide among them.

A connection that is refused comes again. A file that cannot be opened is a message that cannot be read or stored now,
so files go first.
"""

import logging
import sys
from collections.abc import Callable
from typing import Final

if sys.platform != "win32":
    import resource

logger = logging.getLogger(__name__)

DESCRIPTORS_FOR_FILES: Final = 64  # logs, tables, listeners, the loop's own: what is neither a store's nor a connection
_CONNECTIONS_SHARE_MIN: Final = 8  # this part of all is for connections, however many files there are


def raise_descriptor_limit() -> None:
    """Ask for as many as we may have: the usual soft limit of 1024 is for programs that use select()."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # macOS has a hard limit of "any" and refuses it
        logger.info("the limit of %d open files stays as it is: %s", soft, error)


def _limit() -> int | None:
    """Return how many descriptors the system lets this process have; None if it does not say."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class DescriptorBudget:
    """Return how many connections there may be, by what the system allows and what files need.

    Counts are asked for when they are needed: a store's files and a server's connections come and go.
    """

    def __init__(self) -> None:
        self._files: list[Callable[[], int]] = []
        self._connections: list[Callable[[], int]] = []

    def keep_for_files(self, count: Callable[[], int]) -> Callable[[], None]:
        """Keep as many descriptors as *count* says, until the returned function is called."""
        self._files.append(count)
        return lambda: self._files.remove(count)

    def count_connections(self, count: Callable[[], int]) -> Callable[[], None]:
        """Count a server's connections too, until the returned function is called."""
        self._connections.append(count)
        return lambda: self._connections.remove(count)

    def connections_within(self, connections_max: int) -> int:
        """*connections_max*, or as many connections as there are descriptors for."""
        limit = _limit()
        if limit is None:
            return connections_max
        left = limit - DESCRIPTORS_FOR_FILES - sum(count() for count in self._files)
        return min(connections_max, max(1, left, limit // _CONNECTIONS_SHARE_MIN))

    def has_room(self) -> bool:
        """Return whether one more connection leaves the files what they need."""
        connections = sum(count() for count in self._connections)
        return connections < self.connections_within(connections + 1)


PROCESS: Final = DescriptorBudget()  # the one exception to "nothing is global": the limit is the process's
