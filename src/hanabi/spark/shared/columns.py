"""Columns of a message: names, types and order, the same in both sources."""

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
RAW: Final[dict[str, DataType]] = {RECORD: BinaryType()}  # the bytes as stored; only on request
DAMAGED: Final[dict[str, DataType]] = {DAMAGE_COLUMN: StringType()}  # the kind of damage, if damaged bodies are rows
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
    """Return the schema of a source of messages.

    Columns that are never null are declared so: Spark then skips null checks there, which saves JVM CPU.
    """
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
    """Return the Arrow schema that Spark expects of batches, after a check that *columns* provides it.

    Spark does not push column pruning into a Python source, but a reader may select columns by `.schema("tags
    string")`.
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
