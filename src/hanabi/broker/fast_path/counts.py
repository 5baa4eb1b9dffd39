"""Counts of the fast path: frames taken, frames declined and why, frames that the handlers served."""

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


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
    """A handler that counts the requests it gets: those that were declined, and those behind them in the same read."""

    @property
    def handled(self) -> int: ...


class Counted(Protocol):
    """A part of the fast path, which counts the frames that it served, and by `Declined` those at which it stopped."""

    @property
    def taken(self) -> int: ...

    @property
    def declined(self) -> Mapping[int, int]: ...


class Counts(NamedTuple):
    """Frames of one kind, `send` or `pull`."""

    kind: str
    handler: Handled
    path: Counted

    @property
    def handled(self) -> int:
        return self.handler.handled

    @property
    def taken(self) -> int:
        return self.path.taken

    @property
    def declined(self) -> Mapping[int, int]:
        return self.path.declined

    def reasons(self) -> Iterator[tuple[str, int]]:
        """Return each reason to decline, and how often it was one."""
        return ((reason.name.lower(), self.declined[reason]) for reason in Declined if reason in self.declined)
