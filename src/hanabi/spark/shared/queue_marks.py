"""Marks: the message that stands before an offset. They tell a queue that went on from one that began again.

An offset alone cannot: a topic that was deleted and made again counts from 0, and a broker that lost its last messages
gives their offsets to others. So the place of the last message that was read is kept beside the offset behind it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from hanabi.message import MessageQueue
from hanabi.spark.shared.offsets import Offsets


class Mark(NamedTuple):
    """One message of a broker: where it lies in the commit log, and when it was stored."""

    log_offset: int
    stored_ms: int


Marks: TypeAlias = dict[MessageQueue, Mark]


@dataclass(frozen=True)
class Positions:
    """How far each queue was read, and for some of them the message before that."""

    offsets: Offsets = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)

    def only(self, queues: Iterable[MessageQueue]) -> "Positions":
        chosen = [queue for queue in queues if queue in self.offsets]
        marks = {queue: self.marks[queue] for queue in chosen if queue in self.marks}
        return Positions({queue: self.offsets[queue] for queue in chosen}, marks)

    def differs(self, other: "Positions", queue: MessageQueue) -> bool:
        mine, others = self.offsets.get(queue), other.offsets.get(queue)
        return mine != others or self.marks.get(queue) != other.marks.get(queue)


class Queues(Protocol):
    """Questions about queues, to a cluster or to the files of a broker."""

    def firsts(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the oldest offset of each queue that is still kept."""

    def marks(self, offsets: Mapping[MessageQueue, int]) -> Marks:
        """Return the message before each offset; queues where there is none are left out."""

    def since(self, times_ms: Mapping[MessageQueue, int], first: Offsets, end: Offsets) -> Offsets:
        """Return the first message of each queue that was stored at its time or later; its end if there is none."""


def broken_off(done: Positions, ends: Mapping[MessageQueue, int], queues: Queues) -> Offsets:
    """Return the queues of *done* that do not go on where they were read to, and where reading them goes on.

    That is with the first message that was stored when the last one was read, or later: nothing is left out, and little
    is read again. A queue without a mark begins with its first message.
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
    """Return the queues in which another message stands before the offset. Where retention deleted that one, the
    message at the offset must lie behind it in the log."""
    asked = {queue: offset for queue, offset in done.offsets.items() if offset and queue in done.marks}
    before = queues.marks(asked)
    behind = queues.marks({queue: offset + 1 for queue, offset in asked.items() if queue not in before})
    return [
        queue
        for queue in asked
        if (queue in before and before[queue] != done.marks[queue])
        or (queue in behind and behind[queue].log_offset <= done.marks[queue].log_offset)
    ]
