"""Writers of the sink: each task sends its rows with stamps (`row_ids.RowIds`).

A retried task or a batch replayed after a restart sends messages with the same stamps: a reader that keeps one message
per stamp has every row once. Sent messages cannot be withdrawn, so `abort` does nothing.
"""

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.producer.producer import Producer
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.sink.check import check_destination, has_finished_batches
from hanabi.spark.sink.columns import check_columns, rows_of
from hanabi.spark.sink.options import SinkOptions
from hanabi.spark.sink.row_ids import RowIds
from hanabi.spark.sink.send import RowSender


class BrokerWriter(DataSourceArrowWriter):
    """Writer of a batch query."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        check_destination(options)
        self._options = options
        self._run = uuid.uuid4().hex  # the same for all attempts of all tasks of this query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with plain_errors():
            send_rows(self._options, iterator, RowIds(f"{self._run}/0", _partition()))
        return WriterCommitMessage()


class BrokerStreamWriter(DataSourceStreamArrowWriter):
    """Writer of a micro-batch. The query's id comes from its checkpoint, so it survives a restart."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Create a writer. Spark creates one for each micro-batch and another one for its commit."""
        check_columns(schema, options.topic)
        has_run = has_finished_batches(options.checkpoint)
        check_destination(options, patience_s=options.retry_s if has_run else 0.0)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with plain_errors():
            task = TaskContext.get()
            query = task.getLocalProperty("sql.streaming.queryId") if task else None
            batch = task.getLocalProperty("streaming.sql.batchId") if task else None
            send_rows(self._options, iterator, RowIds(f"{query}/{batch}", _partition()))
        return WriterCommitMessage()


def send_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch], stamps: RowIds) -> int:
    """Send all rows of *batches* and return their number. Returns when brokers have stored them."""
    count = 0
    loop = LoopThread.acquire()
    try:
        producer = Producer(options.group, config=options.client, settings=options.producer)
        loop.run(producer.start())
        try:
            sender = loop.call(lambda: RowSender(producer, options))
            for batch in batches:
                loop.run(sender.send(list(rows_of(batch, count, options.topic, stamps))))
                count += batch.num_rows
        finally:
            loop.run(producer.shutdown())
    finally:
        loop.release()
    return count


def _partition() -> int:
    task = TaskContext.get()
    return task.partitionId() if task else 0
