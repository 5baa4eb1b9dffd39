"""Format `rocketmq-audit`: the findings of an audit's tasks as a table (`rows`).

It is a format, not a function mapped over rows, because Spark needs pandas for the latter.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hanabi.spark.pipelines.audit.plan import plan_audit, rows_of
from hanabi.spark.pipelines.audit.rows import STRUCT
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.store.options import StoreOptions, parse_store_options
from hanabi.wire.delay_levels import parse_delay_levels

NAME: Final = "rocketmq-audit"
DELAY_LEVELS: Final = "delaylevels"  # Spark passes option names in lower case


class AuditSource(DataSource):
    """Data source of the audit. Takes the options of `rocketmq-store`, and the broker's delay levels if known."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return STRUCT

    def reader(self, schema: StructType) -> "AuditReader":
        with plain_errors():
            given = {name: value for name, value in self.options.items() if name.lower() != DELAY_LEVELS}
            levels = self.options.get(DELAY_LEVELS)
            return AuditReader(
                parse_store_options(given), None if levels is None else parse_delay_levels(levels).delays_ms
            )


class AuditReader(DataSourceReader):
    """Reader that plans and reads the parts of an audit."""

    def __init__(self, options: StoreOptions, delays_ms: tuple[int, ...] | None) -> None:
        self._options, self._delays_ms = options, delays_ms

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            return plan_audit(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plain_errors():
            yield from rows_of(partition, self._options.home, self._delays_ms)
