"""Task of an executor: pull one range and convert it to record batches. The client lives as long as the task."""

from collections.abc import Iterator

import pyarrow as pa

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.client.consumer.subscription import Expression, subscription_data
from hanabi.spark.broker.options import ReadOptions
from hanabi.spark.broker.range_pull import RangePull
from hanabi.spark.broker.rows import RangeRows
from hanabi.spark.broker.same_queue import check_same_queue
from hanabi.spark.shared.ranges import QueueRange
from hanabi.spark.shared.worker_gc import leave_modules_alone


def read_range(
    options: ReadOptions, expression: Expression, schema: pa.Schema, part: QueueRange
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of *part* that match *expression*. Pulls the next chunk while one is decoded."""
    leave_modules_alone()
    loop = LoopThread.acquire()
    try:
        core = loop.run(Core.acquire(options.client))
        try:
            pull = loop.call(lambda: RangePull(core, options, expression, part))
            tags = subscription_data(part.queue.topic, expression, 0).tags_set
            rows = RangeRows(part, schema, tags, check_crc=options.check_crc, on_damage=options.on_damage)
            try:
                while bodies := loop.run(pull.chunk()):
                    yield from rows.batches(bodies)
                rows.report()
                check_same_queue(part, options, core, loop)
            finally:
                loop.run(pull.close())
        finally:
            loop.run(core.release())
    finally:
        loop.release()
