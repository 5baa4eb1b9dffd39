"""Plan of an archive's next step, and of the log that may be deleted after it. Pure: offsets in, offsets out."""

from collections.abc import Mapping
from dataclasses import dataclass

from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.pipelines.archive.state import ArchivedQueue
from hanabi.spark.shared.offsets import Offsets, describe
from hanabi.spark.shared.ranges import share_out


@dataclass(frozen=True)
class Backlog:
    """Messages to archive: [start, end) of each queue, and the number of messages lost before that."""

    start: Offsets
    end: Offsets
    lost: int

    @property
    def messages(self) -> int:
        return sum(self.end[queue] - self.start[queue] for queue in self.end)

    def next(self, rows_max: int) -> Offsets:
        """Return the end of a step of *rows_max* messages; only queues that advance."""
        stop = share_out(self.start, self.end, rows_max)
        return {queue: offset for queue, offset in stop.items() if offset > self.start[queue]}

    def after(self, stop: Mapping[MessageQueue, int]) -> "Backlog":
        return Backlog({**self.start, **stop}, self.end, 0)


def backlog(
    archived: Mapping[MessageQueue, int],
    first: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    starting: Mapping[MessageQueue, int],
    began_again: Mapping[MessageQueue, int],
    *,
    fail_on_data_loss: bool,
) -> Backlog:
    """Return the messages of queues with [first, end) that are not *archived* yet.

    New queues begin at *starting*, or *first*. Deleted messages are an error, or counted. A queue that ends before its
    archived offset, or has a different message there, was re-created: an error, or archived from *began_again* on.
    """
    start: Offsets = {}
    lost = 0
    for queue, stop in end.items():
        done = archived.get(queue)
        if done is None:
            start[queue] = min(max(starting.get(queue, first[queue]), first[queue]), stop)
        elif done > stop or queue in began_again:
            start[queue] = began_again.get(queue, first[queue])
            if fail_on_data_loss:
                what = f"ends at {stop}" if done > stop else f"has another message at {done - 1} than was archived"
                raise MQError(
                    f"{describe(queue)} {what}, but is archived up to {done}: was the topic re-created?"
                    f" Archive it elsewhere, or continue at {start[queue]} with --no-fail-on-data-loss"
                )
        else:
            if done < first[queue] and fail_on_data_loss:
                raise MQError(
                    f"{describe(queue)}: messages {done} to {first[queue] - 1} were deleted before they were archived;"
                    " --no-fail-on-data-loss continues without them"
                )
            lost += max(0, first[queue] - done)
            start[queue] = max(done, first[queue])
    return Backlog(start, dict(end), lost)


@dataclass(frozen=True)
class Deletable:
    """Deletable log of *broker*: all messages of the archived topics below *log_offset* are archived."""

    broker: str
    log_offset: int
    behind: int  # messages not archived yet


def deletable(queues: list[ArchivedQueue], end: Mapping[MessageQueue, int]) -> list[Deletable]:
    """Return the log that retention may delete. *end* must be newer than the last archived message.

    Brokers dispatch messages to queues in the order of the log. So when a message at some log offset was readable, all
    messages before it were in their queues; and a queue that ends at its archived offset had none of them left. In a
    queue with a backlog, only messages before its last archived one are known to be archived.
    """
    by_queue = {each.queue: each for each in queues}
    found: list[Deletable] = []
    for broker in sorted({queue.broker_name for queue in end}):
        reached = max((each.log_offset for each in queues if each.broker == broker), default=-1)
        behind = 0
        for queue in (queue for queue in end if queue.broker_name == broker):
            mine = by_queue.get(queue)
            more = end[queue] - (mine.end if mine else 0)
            if more > 0:
                behind += more
                reached = min(reached, mine.log_offset if mine else -1)
        found.append(Deletable(broker, max(0, reached), behind))
    return found
