"""The columns of a message: what both sources give, under these names and in this order."""

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hanabi.errors import ConfigError
from hanabi.spark.decode.batches import DAMAGE as DAMAGE_COLUMN
from hanabi.spark.decode.batches import RECORD
from hanabi.spark.shared.suggestions import did_you_mean

MESSAGE: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "messageId": StringType(),
    "offsetMessageId": StringType(),
    "tags": StringType(),
    "keys": ArrayType(StringType()),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "bornHost": StringType(),
    "storeHost": StringType(),
    "reconsumeTimes": IntegerType(),
    "sysFlag": IntegerType(),
    "commitLogOffset": LongType(),
}
_MAY_BE_NULL: Final = frozenset({"brokerName", "tags", "bornTimestamp", "storeTimestamp", DAMAGE_COLUMN})
RAW: Final[dict[str, DataType]] = {RECORD: BinaryType()}  # the bytes as they are stored: only when asked for
DAMAGED: Final[dict[str, DataType]] = {DAMAGE_COLUMN: StringType()}  # where damaged bodies are rows: what is wrong
DAMAGE: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "commitLogOffset": LongType(),
    "reason": StringType(),
}


def struct_of(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def source_struct(columns: dict[str, DataType]) -> StructType:
    """Return what a source of messages gives. Says what is never null: Spark then looks for no nulls there, which saves
    some of the JVM's CPU."""
    return StructType(
        [StructField(name, _without_nulls(kind), nullable=name in _MAY_BE_NULL) for name, kind in columns.items()]
    )


def _without_nulls(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(kind.elementType, containsNull=False)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, kind.valueType, valueContainsNull=False)
    return kind


def arrow_schema(asked: StructType, columns: dict[str, DataType]) -> pa.Schema:
    """What Spark wants batches to look like, after a check that *columns* can give it.

    Spark tells a source of no columns that a query does not use, but whoever reads may say `.schema("tags string")`.
    """
    for field in asked.fields:
        known = columns.get(field.name)
        if known is None:
            raise ConfigError(f"there is no column {field.name!r}{did_you_mean(field.name, columns)}")
        if field.dataType.simpleString() != known.simpleString():
            raise ConfigError(
                f"column {field.name!r} is of type {known.simpleString()}, not {field.dataType.simpleString()}"
            )
    return to_arrow_schema(asked, timezone="UTC")
