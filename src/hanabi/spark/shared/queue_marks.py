"""Marks: the message before an offset. They distinguish a queue that continued from one that was re-created.

An offset alone cannot: a topic that was deleted and created again counts from 0, and a broker that lost its last
messages reuses their offsets. So the position of the last message that was read is kept with the offset after it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets


class Mark(NamedTuple):
    """One message of a broker: its position in the commit log and its store time."""

    log_offset: int
    stored_ms: int


Marks: TypeAlias = dict[MessageQueue, Mark]


@dataclass(frozen=True)
class Positions:
    """Read position of each queue, with the mark before it for some queues."""

    offsets: Offsets = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)

    def only(self, queues: Iterable[MessageQueue]) -> "Positions":
        chosen = [queue for queue in queues if queue in self.offsets]
        marks = {queue: self.marks[queue] for queue in chosen if queue in self.marks}
        return Positions({queue: self.offsets[queue] for queue in chosen}, marks)

    def differs(self, other: "Positions", queue: MessageQueue) -> bool:
        mine, theirs = self.offsets.get(queue), other.offsets.get(queue)
        return mine != theirs or self.marks.get(queue) != other.marks.get(queue)


class Queues(Protocol):
    """Queries about queues, answered by a cluster or by the files of a broker."""

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the oldest retained offset of each queue."""

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset; queues without one are left out."""

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first offset of each queue stored at its time or later; the queue's end if there is none."""


def broken_off(done: Positions, ends: Mapping[MessageQueue, int], queues: Queues) -> Offsets:
    """Return the queues of *done* that do not continue at their read position, with the offset to resume at.

    Reading resumes at the first message stored at or after the time of the last message that was read: no message is
    skipped and few are read twice. A queue without a mark resumes at its first message.
    """
    there = {queue: offset for queue, offset in done.offsets.items() if queue in ends}
    broken = [queue for queue, offset in there.items() if offset > ends[queue]]
    broken += _replaced(Positions({queue: at for queue, at in there.items() if at <= ends[queue]}, done.marks), queues)
    if not broken:
        return {}
    first, end = queues.firsts(broken), {queue: ends[queue] for queue in broken}
    times = {queue: done.marks[queue].stored_ms for queue in broken if queue in done.marks}
    return first | queues.since(times, first, end)


def _replaced(done: Positions, queues: Queues) -> list[MessageQueue]:
    """Return the queues in which a different message precedes the offset.

    Where retention deleted the marked message, the message at the offset must lie behind it in the log.
    """
    asked = {queue: offset for queue, offset in done.offsets.items() if offset and queue in done.marks}
    before = queues.marks(asked)
    behind = queues.marks({queue: offset + 1 for queue, offset in asked.items() if queue not in before})
    return [
        queue
        for queue in asked
        if (queue in before and before[queue] != done.marks[queue])
        or (queue in behind and behind[queue].log_offset <= done.marks[queue].log_offset)
    ]
