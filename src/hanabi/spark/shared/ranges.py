"""Split of a backlog into tasks and triggers. Pure: offsets in, ranges out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from hanabi.message import MessageQueue
from hanabi.spark.shared.queue_marks import Marks, Positions


@dataclass(frozen=True)
class QueueRange(InputPartition):
    """Messages of one queue that one task reads: start <= offset < end.

    *planned* is the end offset of all tasks of the queue, with the mark before it at planning time.
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
    """Return the tasks for the messages between *start* and *end*.

    One task per queue, or more to satisfy *rows_max* or *partitions_min*. To reach *partitions_min*, long ranges are
    cut into more parts than short ones. A queue without messages has no task.
    """
    whole = [QueueRange(queue, start[queue], end[queue]) for queue in sorted(end) if start[queue] < end[queue]]
    total = sum(map(len, whole))
    parts = {each.queue: -(-len(each) // rows_max) if rows_max else 1 for each in whole}
    wanted = min(partitions_min, total)
    if sum(parts.values()) < wanted:
        # Each range gets tasks in proportion to its length; the remainder goes to the ranges with the longest tasks.
        parts = {each.queue: max(parts[each.queue], len(each) * wanted // total) for each in whole}
        for _ in range(wanted - sum(parts.values())):
            longest = max(whole, key=lambda each: len(each) / parts[each.queue])
            parts[longest.queue] += 1
    return [part for each in whole for part in _cut(each, parts[each.queue])]


def with_marks(parts: list[QueueRange], end: Mapping[MessageQueue, int], marks: Marks) -> list[QueueRange]:
    """Return *parts*, each with the mark of its queue at *end*, if there is one."""
    return [
        replace(part, planned=Positions({part.queue: end[part.queue]}, {part.queue: marks[part.queue]}))
        if part.queue in marks
        else part
        for part in parts
    ]


def _cut(whole: QueueRange, parts: int) -> list[QueueRange]:
    """Cut *whole* into *parts* whose lengths differ by at most one."""
    at = [whole.start + len(whole) * number // parts for number in range(parts + 1)]
    return [QueueRange(whole.queue, at[number], at[number + 1]) for number in range(parts)]


def share_out(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], rows_max: int
) -> dict[MessageQueue, int]:
    """Return end offsets that take *rows_max* messages, from each queue in proportion to its backlog; at most *end*.

    The remainder of rounding goes to the queues that lost most by it: some queue always advances, and the sum is exact.
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
