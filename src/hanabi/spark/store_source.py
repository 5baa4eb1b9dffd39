"""`spark.read.format("rocketmq-store").load(dir)`: the files of a broker, ours or Apache's, as a table or a stream.

The directory may be a running broker's, a slave's, or a copy; it must be the same on the driver and on every worker.
Nothing in it is written or locked.
"""

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from hanabi.spark.shared.columns import DAMAGE, MESSAGE, RAW, source_struct, struct_of
from hanabi.spark.shared.option_values import OptionValues
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.shared.table_options import check_is_no_table
from hanabi.spark.shared.versions import check_version
from hanabi.spark.store.options import NAME, parse_store_options, store_options
from hanabi.spark.store.reader import StoreReader
from hanabi.spark.stream.store_options import ALL, parse_store_stream_options
from hanabi.spark.stream.store_stream import StoreStreamReader


class StoreSource(DataSource):
    """Data source of the format `rocketmq-store`.

    Spark creates one instance per use and chooses batch or stream later.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with plain_errors():
            check_version(pyspark.__version__)
            check_is_no_table(options, f"`{NAME}`")
            self._common = store_options(OptionValues(options, ALL, NAME))

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return all columns. `.schema("tags string, body binary")` selects fewer, which is much faster."""
        if self._common.is_damage_report:
            return struct_of(DAMAGE)
        return source_struct(MESSAGE | RAW if self._common.has_raw_record else MESSAGE)

    def reader(self, schema: StructType) -> StoreReader:
        with plain_errors():
            options = parse_store_options(self.options)
        return StoreReader(options, schema)

    def streamReader(self, schema: StructType) -> StoreStreamReader:  # noqa: N802 (Spark's name)
        with plain_errors():
            options = parse_store_stream_options(self.options)
        return StoreStreamReader(options, schema)
