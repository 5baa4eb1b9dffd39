"""State of an archive: the archived offsets of each queue, and the pending work of its last step. Pure values.

A step of the archive is one such value, written as one file. It has the new offsets together with the files to move
into place and those to delete; the next process that opens the archive completes that work. So offsets and messages
change together, whenever the process ends.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from hanabi.errors import StoreDamaged
from hanabi.message import MessageQueue
from hanabi.spark.shared.queue_marks import Mark, Positions

LAYOUT: Final = 1  # version of the directory's layout; a later one is refused


class ArchivedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue whose messages [first, end) are in the archive."""

    topic: str
    broker: str  # empty if read from a broker's files without --broker-name
    queue_id: int
    first: int
    end: int
    log_offset: int = -1  # of the last message, in its broker's commit log
    stored_ms: int = 0  # store time of the last message
    last: int = -1  # queue offset of the last message; states of earlier versions lack it: it is `end` - 1

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker, self.queue_id)


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the archive after step *version*."""

    layout: int = LAYOUT
    id: str = ""  # of the archive, for Delta's transactions
    version: int = 0
    format: str = "parquet"
    messages: int = 0
    lost: int = 0  # messages deleted before they could be archived
    queues: list[ArchivedQueue] = []
    planned: list[ArchivedQueue] = []  # Delta: exactly the messages that the next step must write
    moves: list[tuple[str, str]] = []  # from, to
    deletes: list[str] = []
    loose: list[str] = []  # directories with files that may be worth joining

    def by_queue(self) -> dict[MessageQueue, ArchivedQueue]:
        return {each.queue: each for each in self.queues}

    def positions(self) -> Positions:
        """Return the last archived message of each queue, which identifies re-created queues."""
        known = [each for each in self.queues if each.log_offset >= 0]
        return Positions(
            {each.queue: (each.last if each.last >= 0 else each.end - 1) + 1 for each in known},
            {each.queue: Mark(each.log_offset, each.stored_ms) for each in known},
        )

    def ends(self) -> dict[MessageQueue, int]:
        return {each.queue: each.end for each in self.queues}


def with_queues(state: ArchiveState, changed: Iterable[ArchivedQueue]) -> list[ArchivedQueue]:
    """Return the queues of *state* with *changed* ones merged in."""
    merged = state.by_queue()
    for each in changed:
        before = merged.get(each.queue)
        merged[each.queue] = each if before is None else _continued(before, each)
    return [merged[queue] for queue in sorted(merged)]


def _continued(before: ArchivedQueue, more: ArchivedQueue) -> ArchivedQueue:
    if more.log_offset < 0:  # there was no message to archive
        return msgspec.structs.replace(before, end=more.end)
    return msgspec.structs.replace(more, first=before.first)


def encode(state: ArchiveState) -> bytes:
    return msgspec.json.format(msgspec.json.encode(state), indent=1)


def decode(data: bytes, where: str) -> ArchiveState:
    """Decode a state. Raises StoreDamaged if *data* is not a state, or one of a later layout."""
    try:
        state = msgspec.json.decode(data, type=ArchiveState)
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"{where} is not the state of an archive: {error}") from error
    if state.layout > LAYOUT:
        raise StoreDamaged(f"{where} has layout {state.layout}, this program knows {LAYOUT}: use a newer one")
    return state
