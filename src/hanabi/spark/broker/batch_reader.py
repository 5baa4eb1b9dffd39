"""Batch reader: plans on the driver, pulls on the executors."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hanabi.spark.broker.cluster import ask_cluster
from hanabi.spark.broker.options import BatchOptions, readable_columns
from hanabi.spark.broker.plan import plan_batch
from hanabi.spark.broker.task import read_range
from hanabi.spark.shared.columns import arrow_schema
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.ranges import QueueRange


class BrokerReader(DataSourceReader):
    """Reader of the messages that exist when the query begins."""

    def __init__(self, options: BatchOptions, schema: StructType) -> None:
        with plain_errors():
            self._schema = arrow_schema(schema, readable_columns(options.read))
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            options = self._options
            return [*ask_cluster(options.read, lambda cluster: plan_batch(cluster, options))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plain_errors():
            if isinstance(partition, QueueRange):  # Spark passes a placeholder partition if there is nothing to read
                yield from read_range(self._options.read, self._options.read.expression, self._schema, partition)
