"""Which task reads which messages, and how much of a backlog one trigger takes. Pure: offsets in, ranges out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from hanabi.message import MessageQueue
from hanabi.spark.shared.queue_marks import Marks, Positions


@dataclass(frozen=True)
class QueueRange(InputPartition):
    """The messages of one queue that one task reads: start <= offset < end.

    *planned* is how far all tasks of the queue go, with the message that stood there when they were planned.
    """

    queue: MessageQueue
    start: int
    end: int
    planned: Positions = field(default_factory=Positions, compare=False)

    def __len__(self) -> int:
        return self.end - self.start


def plan_ranges(
    start: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    *,
    partitions_min: int = 1,
    rows_max: int | None = None,
) -> list[QueueRange]:
    """What lies between *start* and *end* as tasks: one a queue, or more where *rows_max* or *partitions_min* say so.

    To reach *partitions_min*, long ranges are cut into more parts than short ones. A queue has no task if it has no
    messages.
    """
    whole = [QueueRange(queue, start[queue], end[queue]) for queue in sorted(end) if start[queue] < end[queue]]
    total = sum(map(len, whole))
    parts = {each.queue: -(-len(each) // rows_max) if rows_max else 1 for each in whole}
    wanted = min(partitions_min, total)
    if sum(parts.values()) < wanted:
        # Each gets its share of the tasks by its length, and the remaining ones go to where tasks are the longest.
        parts = {each.queue: max(parts[each.queue], len(each) * wanted // total) for each in whole}
        for _ in range(wanted - sum(parts.values())):
            longest = max(whole, key=lambda each: len(each) / parts[each.queue])
            parts[longest.queue] += 1
    return [part for each in whole for part in _cut(each, parts[each.queue])]


def with_marks(parts: list[QueueRange], end: Mapping[MessageQueue, int], marks: Marks) -> list[QueueRange]:
    """*parts*, each with the mark of its queue at *end*, where there is one."""
    return [
        replace(part, planned=Positions({part.queue: end[part.queue]}, {part.queue: marks[part.queue]}))
        if part.queue in marks
        else part
        for part in parts
    ]


def _cut(whole: QueueRange, parts: int) -> list[QueueRange]:
    """*whole* in *parts* whose lengths differ by one at most."""
    at = [whole.start + len(whole) * number // parts for number in range(parts + 1)]
    return [QueueRange(whole.queue, at[number], at[number + 1]) for number in range(parts)]


def share_out(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], rows_max: int
) -> dict[MessageQueue, int]:
    """Where to stop so that *rows_max* messages are taken, of each queue by its backlog; *end* if there are fewer.

    What rounding leaves goes to those that lost most by it: some queue always moves on, and the sum is exact.
    """
    backlog = {queue: max(0, end[queue] - start[queue]) for queue in sorted(end)}
    total = sum(backlog.values())
    if total <= rows_max:
        return {queue: start[queue] + count for queue, count in backlog.items()}
    taken = {queue: count * rows_max // total for queue, count in backlog.items()}
    by_loss = sorted(backlog, key=lambda queue: backlog[queue] * rows_max % total, reverse=True)
    for queue in by_loss[: rows_max - sum(taken.values())]:
        taken[queue] += 1
    return {queue: start[queue] + count for queue, count in taken.items()}
