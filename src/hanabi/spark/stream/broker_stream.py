"""Stream reader over a cluster: the driver decides the size of a trigger, executors pull as in a batch.

Spark keeps the offsets in the checkpoint. State kept here only saves requests or implements a delay: a restarted driver
loses nothing.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.broker.cluster import Cluster
from hanabi.spark.broker.options import StreamOptions, readable_columns
from hanabi.spark.broker.plan import existing_queues, within
from hanabi.spark.broker.task import read_range
from hanabi.spark.shared.columns import arrow_schema
from hanabi.spark.shared.data_loss import lost
from hanabi.spark.shared.offsets import JsonOffsets, Offsets, to_json
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.queue_marks import Positions
from hanabi.spark.shared.ranges import QueueRange, plan_ranges, with_marks
from hanabi.spark.stream.broker_view import ClusterView
from hanabi.spark.stream.continuity import Continuity, reached
from hanabi.spark.stream.positions import JsonPositions, positions_from_json, positions_to_json
from hanabi.spark.stream.trigger_size import SmallTriggers, backlog, begun, capped, next_offsets

logger = logging.getLogger(__name__)


class BrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream of messages."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        with plain_errors():
            self._schema = arrow_schema(schema, readable_columns(options.read))
        self._options = options
        self._driver: ClusterView | None = None
        self._target: Offsets | None = None  # AvailableNow: the ends at the beginning
        self._committed: Offsets = {}  # the offsets committed to brokers
        self._know_group: set[str] = set()  # brokers that the group has pulled from
        self._continuity = Continuity(fail=options.read.fail_on_data_loss, seconds=options.discovery_s)
        self._small = SmallTriggers(options.offsets_min, options.delay_max_s, time.monotonic)

    @property
    def _view(self) -> ClusterView:
        if self._driver is None:  # not in __init__: this object is pickled to executors too
            self._driver = ClusterView(self._options)
        return self._driver

    # On the driver

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name, as those below)
        most = self._options.offsets_max
        return ReadMaxRows(most) if most is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with plain_errors():
            self._target = dict(self._view.ends())

    def initialOffset(self) -> JsonPositions:  # noqa: N802
        with plain_errors():
            starting = self._options.read.starting

            async def resolve(cluster: Cluster) -> Offsets:
                queues = await existing_queues(cluster, self._options.read.wanted)
                first, end = await cluster.first_offsets(queues), await cluster.end_offsets(queues)
                await cluster.check_readable(first)
                return await cluster.resolve(starting, queues, first, end)

            begin = self._view.ask(resolve)
            return positions_to_json(Positions(begin, self._view.marks(begin)))

    def latestOffset(self, start: Any, limit: ReadLimit) -> JsonPositions:  # noqa: N802
        """Return the end of this trigger. Messages below *start* are done, also after a restart."""
        with plain_errors():
            done = positions_from_json(start)
            self._commit_progress(done.offsets)
            ends = self._view.ends()
            begin = self._continuity.begin(done, ends, self._view)
            if self._target is not None:
                ends = capped(ends, self._target)
            firsts = self._view.firsts(queue for queue in ends if queue not in done.offsets)
            beginning = begun(begin.offsets, firsts)
            if self._target is None and self._small.put_off(backlog(beginning, ends)):
                return positions_to_json(done)
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return positions_to_json(reached(done, begin, next_offsets(beginning, ends, rows_max), self._view))

    def reportLatestOffset(self) -> JsonOffsets:  # noqa: N802
        with plain_errors():
            return to_json(self._view.ends())

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        with plain_errors():
            stop = positions_from_json(end)
            low, high = self._still_there(positions_from_json(start), stop)
            read = self._options.read
            planned = plan_ranges(low, high, partitions_min=read.partitions_min, rows_max=read.partition_rows_max)
            reached = [queue for queue, offset in high.items() if offset == stop.offsets[queue]]
            return [*with_marks(planned, high, stop.only(reached).marks)]

    def commit(self, end: Any) -> None:
        with plain_errors():
            self._commit_progress(positions_from_json(end).offsets)

    # On an executor

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plain_errors():
            if isinstance(partition, QueueRange):
                yield from read_range(self._options.read, self._options.read.expression, self._schema, partition)

    # Decisions

    def _still_there(self, begin: Positions, stop: Positions) -> tuple[Offsets, Offsets]:
        """Return the parts of the ranges that the cluster still has. Lost messages are an error, or are skipped."""
        fail = self._options.read.fail_on_data_loss
        there = set(self._view.queues())
        moving = [queue for queue in stop.offsets if stop.differs(begin, queue)]
        for queue in moving:
            if queue not in there:
                start = begin.offsets.get(queue, 0)
                lost(queue, start, stop.offsets[queue], "the queue is not there any more", fail=fail)
        kept = [queue for queue in moving if queue in there]
        firsts, ends = self._view.firsts(kept), self._view.ask(lambda cluster: cluster.end_offsets(kept))
        low, high = self._continuity.span(begin.only(kept), stop.only(kept), ends, self._view)
        ranges: dict[MessageQueue, tuple[int, int]] = {
            queue: within(queue, low.get(queue, firsts[queue]), high[queue], firsts[queue], ends[queue], fail=fail)
            for queue in kept
        }
        return {queue: low for queue, (low, _) in ranges.items()}, {queue: high for queue, (_, high) in ranges.items()}

    def _commit_progress(self, done: Offsets) -> None:
        """Commit offsets for groupId to brokers. A failure is only logged: these offsets are for monitoring."""
        group = self._options.read.group
        if group is None:
            return
        new = {queue: offset for queue, offset in done.items() if self._committed.get(queue) != offset}
        if not new:
            return
        try:
            self._view.ask(lambda cluster: cluster.commit_progress(group, new, self._know_group))
        except MQError as error:
            logger.warning("offsets of group %s are not committed to brokers: %s", group, error)
        else:
            self._committed |= new
