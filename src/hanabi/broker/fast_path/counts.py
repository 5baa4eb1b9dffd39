"""Counts of the fast path: frames taken, frames declined and why, frames that the handlers served."""

import enum
from collections.abc import Iterator, Mapping
from typing import Protocol


class Declined(enum.IntEnum):
    """Reason why the fast path declined a frame. `_sends.pyx` has the same numbers."""

    HEADER = 1  # written in another way than most clients do, or a field that needs the handler
    CLOSED = 2  # the broker takes no message now; or its address, region or a client's address is unusual
    TOPIC = 3  # the topic or queue is new, ordered, for retries, or must be looked up again
    PROPERTIES = 4  # a delay, a transaction, a sender that does not wait for the disk
    STORE = 5  # a file is full, or must be made, or a record is not where it usually is
    ACCESS = 6  # the client may not do this, or its signature is wrong; or the consumer reads through a filter
    NOTHING = 7  # no message is there: the pull is held, or its offset corrected


class Handled(Protocol):
    """A handler that counts the requests it gets."""

    @property
    def handled(self) -> int: ...


class Counted(Protocol):
    """A part of the fast path, which counts its frames."""

    @property
    def taken(self) -> int: ...

    @property
    def declined(self) -> Mapping[int, int]:
        """Frames at which it stopped, by `Declined`."""


class Counts:
    """Frames of one kind, `send` or `pull`."""

    def __init__(self, kind: str, handler: Handled, path: Counted) -> None:
        self.kind, self._handler, self._path = kind, handler, path

    @property
    def handled(self) -> int:
        """Frames that the handler served: those that were declined, and those behind them in the same read."""
        return self._handler.handled

    @property
    def taken(self) -> int:
        """Frames that the fast path served."""
        return self._path.taken

    @property
    def declined(self) -> Mapping[int, int]:
        """Frames at which the fast path stopped, by `Declined`."""
        return self._path.declined

    def reasons(self) -> Iterator[tuple[str, int]]:
        """Return each reason to decline, and how often it was one."""
        return ((reason.name.lower(), self.declined[reason]) for reason in Declined if reason in self.declined)
