"""`spark.read.format("rocketmq-store").load(dir)`: the files of a broker, ours or Apache's, as a table.

The directory may be a running broker's, a slave's, or a copy; it must be the same on the driver and on every worker.
Nothing in it is written or locked.
"""

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from hanabi.spark.columns import DAMAGE, MESSAGE, RAW, struct_of
from hanabi.spark.plain_errors import plain_errors
from hanabi.spark.store_options import NAME, StoreOptions, parse_store_options
from hanabi.spark.store_reader import FilteringStoreReader, StoreReader
from hanabi.spark.versions import check_version


class StoreSource(DataSource):
    """The source. Spark makes one for each read."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        with plain_errors():
            check_version(pyspark.__version__)
            self._parsed: StoreOptions = parse_store_options(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """All columns. `.schema("tags string, body binary")` asks for fewer, and is much faster then."""
        if self._parsed.is_damage_report:
            return struct_of(DAMAGE)
        return struct_of(MESSAGE | RAW if self._parsed.has_raw_record else MESSAGE)

    def reader(self, schema: StructType) -> StoreReader:
        kind = FilteringStoreReader if self._parsed.pushdown else StoreReader
        return kind(self._parsed, schema)
