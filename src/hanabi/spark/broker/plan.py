"""Plan of a batch: query the cluster once, and cut the messages between the two bounds into tasks."""

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster
from hanabi.spark.broker.options import BatchOptions
from hanabi.spark.broker.topics import Wanted
from hanabi.spark.shared.bounds import Bound
from hanabi.spark.shared.data_loss import lost
from hanabi.spark.shared.offsets import describe
from hanabi.spark.shared.ranges import QueueRange, plan_ranges, with_marks


async def plan_batch(cluster: Cluster, options: BatchOptions) -> list[QueueRange]:
    """Return the tasks of a batch."""
    read = options.read
    queues = await existing_queues(cluster, read.wanted)
    first, end = await cluster.first_offsets(queues), await cluster.end_offsets(queues)
    start = await cluster.resolve(read.starting, queues, first, end)
    stop = await cluster.resolve(options.ending, queues, first, end)
    for queue in queues:
        check_order(queue, read.starting, start[queue], options.ending, stop[queue])
        start[queue], stop[queue] = within(
            queue, start[queue], stop[queue], first[queue], end[queue], fail=read.fail_on_data_loss
        )
    planned = plan_ranges(start, stop, partitions_min=read.partitions_min, rows_max=read.partition_rows_max)
    await cluster.check_readable({part.queue: part.start for part in reversed(planned)})
    return with_marks(planned, stop, await cluster.marks({part.queue: stop[part.queue] for part in planned}))


async def existing_queues(cluster: Cluster, wanted: Wanted) -> list[MessageQueue]:
    """Return the initial queues. Assigned queues must be among them."""
    queues = await cluster.queues()
    if missing := wanted.missing(queues):
        raise ConfigError(f"option assign: there is no {missing[0]}")
    return queues


def check_order(queue: MessageQueue, starting: Bound, start: int, ending: Bound, stop: int) -> None:
    """Raise ConfigError if the given starting offset is behind the given ending offset."""
    if queue in starting.offsets and queue in ending.offsets and start > stop:
        raise ConfigError(f"{describe(queue)}: startingOffsets {start} lies behind endingOffsets {stop}")


def within(queue: MessageQueue, start: int, stop: int, first: int, end: int, *, fail: bool) -> tuple[int, int]:
    """Return the part of [start, stop) that the queue, which holds [first, end), still has. Report the rest as lost."""
    if start < first and start < stop:
        lost(queue, start, min(first, stop), f"the oldest that is kept is {first}", fail=fail)
    if stop > end and stop > start:
        lost(queue, max(end, start), stop, f"the queue ends at {end}", fail=fail)
    if start > end:
        lost(queue, end, start, f"the queue ends at {end}", fail=fail)
    start = min(max(start, first), end)
    return start, max(start, min(stop, end))
