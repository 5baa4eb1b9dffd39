"""Layout of an archive's tables: the columns of a message, and the partition columns."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from hanabi.spark.shared.columns import MESSAGE, struct_of

TOPIC: Final = "topic"
HOUR: Final = "hour"  # of storeTimestamp in UTC, such as 2026-11-15T14
PARTITIONED_BY: Final = (TOPIC, HOUR)
HOUR_PATTERN: Final = "yyyy-MM-dd'T'HH"
PYTHON_HOUR: Final = "%Y-%m-%dT%H"

IN_FILES: Final[StructType] = struct_of({name: kind for name, kind in MESSAGE.items() if name != TOPIC})
# Explicit, not inferred: otherwise a topic named 2026 would be a number.
WHOLE: Final[StructType] = struct_of(
    {**{name: kind for name, kind in MESSAGE.items() if name != TOPIC}, TOPIC: StringType(), HOUR: StringType()}
)


def with_hour(messages: DataFrame) -> DataFrame:
    return messages.withColumn(HOUR, f.date_format("storeTimestamp", HOUR_PATTERN))
