"""The batch reader: plans on the driver, pulls on the executors."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from hanabi.client.consumer.subscription import Expression
from hanabi.spark.broker_cluster import ask_cluster
from hanabi.spark.broker_options import BatchOptions, readable_columns
from hanabi.spark.broker_plan import plan_batch
from hanabi.spark.broker_read import read_range
from hanabi.spark.columns import arrow_schema
from hanabi.spark.plain_errors import plain_errors
from hanabi.spark.pushdown import narrow
from hanabi.spark.ranges import QueueRange
from hanabi.spark.selection import Selection


class BrokerReader(DataSourceReader):
    """Reads what is there when the query begins."""

    def __init__(self, options: BatchOptions, schema: StructType) -> None:
        with plain_errors():
            self._schema = arrow_schema(schema, readable_columns(options.read))
        self._options, self._selection = options, Selection()

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            options, selection = self._options, self._selection
            return [*ask_cluster(options.read, lambda cluster: plan_batch(cluster, options, selection))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plain_errors():
            if isinstance(partition, QueueRange):  # Spark makes up one of no kind when there is nothing to read
                yield from read_range(self._options.read, self._expression(), self._schema, partition)

    def _expression(self) -> Expression:
        """What the broker shall look for. Tags that the query wants are used if the options say nothing about it."""
        read, tags = self._options.read, self._selection.tags
        if read.is_filtered or not tags or not all(_can_travel(tag) for tag in tags):
            return read.expression
        return " || ".join(sorted(tags))


def _can_travel(tag: str) -> bool:
    """Whether a subscription can say it: not so if it has blanks at its ends, or a bar in it."""
    return bool(tag) and tag == tag.strip() and "|" not in tag and tag != "*"


class FilteringBrokerReader(BrokerReader):
    """Also uses the filters of the query. A class of its own, because Spark refuses every reader that can do this
    unless `spark.sql.python.filterPushdown.enabled` is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        self._selection = narrow(self._selection, filters)
        return filters
