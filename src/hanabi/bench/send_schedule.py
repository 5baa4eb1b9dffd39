"""The schedule of sends: when the next message is due, and which is the last. Pure: the caller brings the time."""

from typing import Final, NamedTuple

import msgspec

from hanabi.bench.results import Ended
from hanabi.errors import ConfigError

# What a message takes on a disk beside its body, about: the rest of its record, its queue entry, its index entries.
BESIDE_BODY_BYTES: Final = 200


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run: duration, messages, bytes on disk (about), rate (messages a second). None is unlimited."""

    seconds: float | None = None
    count: int | None = None
    bytes_max: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be more than 0, not {value}")


class Turn(NamedTuple):
    """So many messages are to be sent, at this moment."""

    due: float
    messages: int


class SendSchedule:
    """Turns for senders. With a rate, turns are due at equal distances from the beginning on, however late
    the ones before were: so a cluster that stalls is not asked less, and what had to wait for it shows in the times."""

    def __init__(self, limits: Limits, began: float, *, size: int, per_turn: int = 1) -> None:
        self._limits, self._began, self._per_turn = limits, began, per_turn
        self._ends = None if limits.seconds is None else began + limits.seconds
        self._left, self._ended_by = limits.count, Ended.COUNT
        if limits.bytes_max is not None:
            allowed = max(limits.bytes_max // (size + BESIDE_BODY_BYTES), 1)
            if self._left is None or allowed < self._left:
                self._left, self._ended_by = allowed, Ended.LIMIT
        self._taken = 0
        self.ended: Ended | None = None

    def take(self, now: float) -> Turn | None:
        """Return the next turn; None when it is over, and `ended` says why."""
        rate = self._limits.rate
        due = now if rate is None else self._began + self._taken / rate
        if self._left is not None and self._left <= 0:
            self.ended = self._ended_by
        elif self._ends is not None and max(now, due) >= self._ends:
            self.ended = Ended.TIME
        if self.ended is not None:
            return None
        messages = self._per_turn if self._left is None else min(self._per_turn, self._left)
        self._taken += messages
        if self._left is not None:
            self._left -= messages
        return Turn(due, messages)
