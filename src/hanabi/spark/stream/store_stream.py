"""Stream reader over a store's files: follows the consume queues of a running broker without a request to it.

A batch is a range of each queue, and is read as a batch query reads it; so a replay has the same rows. Spark keeps the
offsets in the checkpoint.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError
from hanabi.spark.broker.plan import within
from hanabi.spark.shared.data_loss import lost
from hanabi.spark.shared.offsets import Offsets, describe
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.queue_marks import Positions
from hanabi.spark.store.plan import WantedQueue, cut_tasks
from hanabi.spark.store.reader import StoreReader
from hanabi.spark.stream.continuity import Continuity, reached
from hanabi.spark.stream.store_options import StoreStreamOptions
from hanabi.spark.stream.store_view import StoreOffsets, StoreView, from_store_json, to_store_json
from hanabi.spark.stream.trigger_size import SmallTriggers, backlog, begun, capped, next_offsets

_COMPARE_S: Final = 10.0  # interval of comparing queues without new messages with their read positions


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream of messages."""

    def __init__(self, options: StoreStreamOptions, schema: StructType) -> None:
        self._reader = StoreReader(options.read, schema)
        self._options = options
        self._view = StoreView(options)
        self._target: Offsets | None = None  # AvailableNow: the ends at the beginning
        self._continuity = Continuity(fail=options.fail_on_data_loss, seconds=_COMPARE_S)
        self._small = SmallTriggers(options.offsets_min, options.delay_max_s, time.monotonic)

    # On the driver

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name, as those below)
        most = self._options.offsets_max
        return ReadMaxRows(most) if most is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with plain_errors():
            self._target = self._view.ends()

    def initialOffset(self) -> StoreOffsets:  # noqa: N802
        with plain_errors():
            options, queues = self._options, self._view.queues()
            if options.from_ms is not None:
                young = self._view.look(replace(options.read.selection, from_ms=options.from_ms))
                return self._marked(
                    {queue: young[queue].first if queue in young else each.end for queue, each in queues.items()}
                )
            if unknown := sorted(options.starting.named - set(queues)):
                raise ConfigError(
                    f"option startingOffsets: there is no {describe(unknown[0])} among the queues that are read"
                )
            return self._marked(
                {queue: options.starting.resolve(queue, each.first, each.end) for queue, each in queues.items()}
            )

    def latestOffset(self, start: Any, limit: ReadLimit) -> StoreOffsets:  # noqa: N802
        """Return the end of this trigger."""
        with plain_errors():
            done = from_store_json(start)
            queues = self._view.queues()
            ends = {queue: each.end for queue, each in queues.items()}
            begin = self._continuity.begin(done, ends, self._view)
            if self._target is not None:
                ends = capped(ends, self._target)
            beginning = begun(begin.offsets, {queue: queues[queue].first for queue in ends})
            if self._target is None and self._small.put_off(backlog(beginning, ends)):
                return to_store_json(done)
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return to_store_json(reached(done, begin, next_offsets(beginning, ends, rows_max), self._view))

    def reportLatestOffset(self) -> StoreOffsets:  # noqa: N802
        with plain_errors():
            return to_store_json(Positions(self._view.ends()))

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        with plain_errors():
            begin, stop = from_store_json(start), from_store_json(end)
            return [*cut_tasks(self._still_there(begin, stop), self._options.read)]

    def commit(self, end: Any) -> None:
        """Do nothing: only Spark needs the offsets, and it has them."""

    # Decisions

    def _marked(self, offsets: Offsets) -> StoreOffsets:
        return to_store_json(Positions(offsets, self._view.marks(offsets)))

    def _still_there(self, begin: Positions, stop: Positions) -> list[WantedQueue]:
        """Return the parts of the ranges that the files still have. Lost messages are an error, or are skipped."""
        there, fail = self._view.look(self._options.read.selection), self._options.fail_on_data_loss
        moving = [queue for queue in stop.offsets if stop.differs(begin, queue)]
        for queue in moving:
            if queue not in there:
                start = begin.offsets.get(queue, 0)
                lost(queue, start, stop.offsets[queue], "the queue is not there any more", fail=fail)
        kept = {queue: there[queue] for queue in moving if queue in there}
        ends = {queue: each.end for queue, each in kept.items()}
        low, high = self._continuity.span(begin.only(kept), stop.only(kept), ends, self._view)
        wanted: list[WantedQueue] = []
        for queue, each in kept.items():
            first, end = within(queue, low.get(queue, each.first), high[queue], each.first, each.end, fail=fail)
            if first < end:
                wanted.append(WantedQueue(each.queue, first, end))
        return wanted

    # On an executor

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._reader.read(partition)
