"""The memory of one broker, in a cgroup of its own: as much as it likes, or for a while hardly more than it has.

The kernel then drops and writes back pages of mapped files. If that is not enough it kills the process (SIGKILL).
"""

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

from tests.faults.limits import Cgroup, LimitUnavailable, cgroup

PLENTY_BYTES: Final = 1 << 40
_STEP_BYTES: Final = 4 << 20
_TRIES: Final = 20


class MemoryUnavailable(Exception):
    """Memory cannot be limited here; the text says why."""


class BrokerMemory:
    """The limit of one broker's memory."""

    def __init__(self, group: Cgroup) -> None:
        self._group = group

    @property
    def launcher(self) -> list[str]:
        """What to put before the broker's command."""
        return self._group.launcher

    def squeeze(self, more_bytes: int) -> None:
        """Leave *more_bytes* beside what the process has of its own. Pages of files have to go."""
        for step in range(_TRIES):
            try:
                self._group.limit.write_text(str(self._group.own_memory + more_bytes + step * _STEP_BYTES))
            except OSError as error:
                if error.errno != errno.EBUSY:  # of version 1: the kernel cannot free as much
                    raise
            else:
                return
        raise MemoryUnavailable(f"the kernel cannot free as much as {self._group.directory} should have less")

    def release(self) -> None:
        """Let it have as much as it likes."""
        self._group.limit.write_text(str(PLENTY_BYTES))


@contextlib.contextmanager
def broker_memory(name: str) -> Iterator[BrokerMemory]:
    """Make the cgroup of the broker *name*; end the broker before the block ends."""
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(cgroup("memory", PLENTY_BYTES, f"-{name}"))
        except LimitUnavailable as error:
            raise MemoryUnavailable(str(error)) from error
        yield BrokerMemory(group)
