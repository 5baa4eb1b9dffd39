"""The kinds of traffic, and what every message says of itself. Pure: no socket, no clock, no file.

A message carries its label (kind, producer, number) and the check sum of its padding, so that whoever gets it knows
which one it is, whether it is whole, and what was to become of it: how long it waits, how its transaction ends, how
often its listener fails. That follows from the number alone, so any process can tell, also one that is started later.
"""

import random
import zlib
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """One kind of traffic; each has a topic and a group of consumers of its own."""

    PLAIN = "plain"  # concurrent listeners, sends that fail over
    ORDERLY = "orderly"  # an ordered listener, sends to a queue that was chosen
    DELAYED = "delayed"  # by level, and to a moment
    TRANSACTION = "transaction"  # committed, rolled back, and left for the broker to ask about
    RETRY = "retry"  # the listener fails on some, once or more


class Outcome(StrEnum):
    """How the transaction of a message ends, and who says so."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    CHECKED_COMMIT = "checked commit"  # unknown at first; the broker asks
    CHECKED_ROLLBACK = "checked rollback"


class Label(NamedTuple):
    """Which message it is. *producer* is one process, so numbers of a restarted one do not meet those of the first."""

    kind: Kind
    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.producer}/{self.number}"


DELAY_LEVELS: Final = "1s 2s 3s 4s 5s 5s 5s 5s 5s 5s 5s 5s 5s 5s 5s 5s 5s 5s"
ROUTES_S: Final = 5.0  # how often clients ask for routes
_BODY_BYTES: Final = (64, 300, 1_000, 6_000, 40_000)  # the last two are compressed, or would be if they could be
_BODY_WEIGHTS: Final = (40, 40, 15, 4, 1)


def topic_of(kind: Kind) -> str:
    return f"Chaos_{kind}"


def group_of(kind: Kind) -> str:
    """Return the consumers'."""
    return f"chaos_{kind}"


def body_of(label: Label) -> bytes:
    """Return the whole body, padding included: the same label has the same body."""
    dice = random.Random(str(label))
    size = dice.choices(_BODY_BYTES, _BODY_WEIGHTS)[0]
    padding = dice.randbytes(size // 2) + b"." * (size // 2)
    return f"{label.kind} {label.producer} {label.number} {zlib.crc32(padding)}\n".encode() + padding


def label_of(body: bytes) -> Label | None:
    """Return whose body this is; None if it is not as it was sent."""
    head, _, padding = body.partition(b"\n")
    try:
        kind, producer, number, checksum = head.decode("ascii").split(" ")
        label = Label(Kind(kind), producer, int(number))
    except ValueError:
        return None
    return label if zlib.crc32(padding) == int(checksum) else None


def delay_level_of(number: int) -> int:
    """Levels one to four; 0 for those that are sent to a moment instead."""
    return number % 5


def delay_s_of(number: int) -> float:
    """Return how long a message of the delayed traffic is to wait, whichever way it was asked for."""
    return float(delay_level_of(number) or 2)


def outcome_of(number: int) -> Outcome:
    return (Outcome.COMMIT, Outcome.ROLLBACK, Outcome.COMMIT, Outcome.CHECKED_COMMIT, Outcome.CHECKED_ROLLBACK)[
        number % 5
    ]


def is_committed(number: int) -> bool:
    """Return whether consumers are to see this message of the transactional traffic."""
    return outcome_of(number) in (Outcome.COMMIT, Outcome.CHECKED_COMMIT)


def failures_of(number: int) -> int:
    """Return how often the listener of the retry traffic fails on this message before it takes it."""
    return (0, 1, 0, 2)[number % 4]
