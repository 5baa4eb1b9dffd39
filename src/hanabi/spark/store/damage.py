"""Damaged records: they never become rows of messages, but they are counted and can be listed.

The option onDamage chooses the handling. Every task logs the number of records that it left out, and `rows=damage`
returns them as rows.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from hanabi.errors import MQError, StoreDamaged
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message

logger = logging.getLogger(__name__)


class Damaged(NamedTuple):
    """A damaged message. Topic, queue and offset are None if only its log position is known."""

    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    log_offset: int
    reason: str

    def __str__(self) -> str:
        if self.topic is None:
            return f"log offset {self.log_offset}: {self.reason}"
        message = f"message {self.queue_offset} of {self.topic}/{self.queue_id}"
        return f"{message} at log offset {self.log_offset}: {self.reason}"


def reason_of(raw: bytes) -> str:
    """Return the reason why *raw* is not the expected message."""
    if not raw.strip(b"\0"):
        return "nothing is written there"
    try:
        to_message(decode_record(raw))
    except MQError as error:  # also raised for a missing package
        return str(error).removeprefix("record at 0: ")
    return "another message lies there"


def refuse(root: str, damaged: Sequence[Damaged]) -> StoreDamaged:
    """Return the error for the first damaged record."""
    return StoreDamaged(
        f'{root} is damaged: {damaged[0]} (option onDamage: "skip" leaves such records out, "end" ends there)'
    )


class LeftOut:
    """Count of the records that a task left out, logged once at its end."""

    def __init__(self, root: str) -> None:
        self._root, self._count = root, 0
        self._first: Damaged | None = None

    def add(self, damaged: Sequence[Damaged]) -> None:
        self._count += len(damaged)
        if damaged and self._first is None:
            self._first = damaged[0]

    def report(self) -> None:
        if self._first is not None:
            logger.warning("%s: %d damaged records left out; the first: %s", self._root, self._count, self._first)
