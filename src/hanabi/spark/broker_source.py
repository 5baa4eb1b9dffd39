"""`spark.read.format("rocketmq")`: topics of a cluster, ours or Apache's, as a table.

df = spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876").option("subscribe", "Orders").load()
"""

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError
from hanabi.spark.broker.batch_reader import BrokerReader
from hanabi.spark.broker.options import NAME, parse_batch_options, parse_stream_options, source_columns
from hanabi.spark.shared.columns import source_struct
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.table_options import check_is_no_table
from hanabi.spark.shared.versions import check_version
from hanabi.spark.sink.options import parse_sink_options
from hanabi.spark.sink.writer import BrokerStreamWriter, BrokerWriter
from hanabi.spark.stream.broker_stream import BrokerStreamReader


class BrokerSource(DataSource):
    """Data source and sink of the format `rocketmq`.

    Spark creates one instance per use and chooses reading or writing later.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with plain_errors():
            check_version(pyspark.__version__)
            check_is_no_table(options, NAME)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return all columns. `.schema("tags string, body binary")` selects fewer, which is much faster."""
        with plain_errors():
            return source_struct(source_columns(self.options))

    def reader(self, schema: StructType) -> BrokerReader:
        with plain_errors():
            options = parse_batch_options(self.options)
        return BrokerReader(options, schema)

    def streamReader(self, schema: StructType) -> BrokerStreamReader:  # noqa: N802 (Spark's name)
        with plain_errors():
            options = parse_stream_options(self.options)
        return BrokerStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BrokerWriter:
        with plain_errors():
            if overwrite:
                raise ConfigError('a topic cannot be overwritten: use mode("append")')
            return BrokerWriter(parse_sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> BrokerStreamWriter:  # noqa: N802
        """Return the writer of a stream. A query in complete mode sends its whole result with every batch."""
        with plain_errors():
            return BrokerStreamWriter(parse_sink_options(self.options), schema)
