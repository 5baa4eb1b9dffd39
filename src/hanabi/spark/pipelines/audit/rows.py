"""Rows of an audit, in one table: records and broken stretches of the log, entries of queues and index, and differences
within a file. Most columns are null for most kinds.

    record   a valid record: size, stored_ms, keys (its hashes in the index); and the position of its entry (topic,
             queue_id, queue_offset, tags_code), if it has one; tags_code is null if it is a delivery time of
             levels that were not given
    also     another position where an entry of that record may be (light queues): `certain` is false
    entry    an entry of a queue at its position, and its target: log_offset, size, tags_code; with difference and
             reason if the target is behind the end of the compared log and wrong
    blank    a filler entry before the first message
    newer    a correct entry of a message stored after the audit began; newer-key: one of the index
    span     a file of a queue has entries in [queue_offset, log_offset), or none; it has room for `number` entries,
             the first of them with the offset `size`
    queue    a queue; log_offset: that of its message with offset 0, if it still exists
    log      the log: it ends at log_offset, and has `number` files
    index    a file of the index, with the messages at log offsets from log_offset to size
    key      an entry of the index: file, number, hash, log_offset, seconds since begin_ms
    wrong    a difference found without a comparison: `difference` is its kind, `reason` the details
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType

from hanabi.spark.shared.columns import struct_of

BROKEN: Final = "broken-record"  # the difference of a stretch of the log without a valid record

STRUCT: Final = struct_of(
    {
        "kind": StringType(),
        "topic": StringType(),
        "queue_id": IntegerType(),
        "queue_offset": LongType(),
        "log_offset": LongType(),
        "size": LongType(),
        "tags_code": LongType(),
        "certain": BooleanType(),
        "stored_ms": LongType(),
        "keys": ArrayType(IntegerType()),
        "file": StringType(),
        "number": IntegerType(),
        "hash": IntegerType(),
        "seconds": IntegerType(),
        "begin_ms": LongType(),
        "difference": StringType(),
        "reason": StringType(),
    }
)
ARROW: Final[pa.Schema] = to_arrow_schema(STRUCT, timezone="UTC")


def found(kind: str, count: int, **columns: Any) -> pa.RecordBatch:
    """Return *count* rows of one kind. A column is an array, or one value for all rows."""
    arrays = []
    for field in ARROW:
        value = kind if field.name == "kind" else columns.pop(field.name, None)
        if isinstance(value, np.ndarray):
            value = pa.array(value.astype(field.type.to_pandas_dtype(), copy=False))
        elif isinstance(value, list):
            value = pa.array(value, field.type)
        elif not isinstance(value, pa.Array):
            value = pa.repeat(pa.scalar(value, field.type), count)
        arrays.append(value.cast(field.type))
    if columns:
        raise TypeError(f"rows of an audit have no column {next(iter(columns))!r}")
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def wrong(difference: str, reason: str, **columns: Any) -> pa.RecordBatch:
    """Return one difference."""
    return found("wrong", 1, difference=difference, reason=reason, **columns)
