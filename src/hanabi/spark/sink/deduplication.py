"""Deduplication on the reading side: each row that the sink sent, once.

The sink sends at least once and stamps each message with its row (`row_ids.ROW_ID_PROPERTY`). A retried task and a
replayed batch give their rows the same stamps, so keeping one message per stamp yields every row once.
"""

from typing import TYPE_CHECKING, Final

from hanabi.errors import ConfigError
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY

if TYPE_CHECKING:  # `import hanabi.spark` must work without Spark
    from pyspark.sql import DataFrame

_COLUMN: Final = "_spark_row"


def deduplicated(messages: "DataFrame", *, within: str | None = None) -> "DataFrame":
    """Return *messages* without repeats of rows that the sink sent; messages without a stamp are kept unchanged.

    *messages* must have the columns properties and offsetMessageId. For a stream, *within* is required: the time within
    which a repeat may follow, such as "1 hour", and for which each stamp is remembered. It becomes a watermark on
    storeTimestamp, which must be present too. A replay happens when a query is restarted, so *within* must cover the
    longest expected downtime.
    """
    from pyspark.sql import functions as f

    needed = ("properties", "offsetMessageId", *(("storeTimestamp",) if messages.isStreaming else ()))
    for name in needed:
        if name not in messages.columns:
            raise ConfigError(f"deduplicated() needs the column {name}")
    stamped = messages.withColumn(_COLUMN, f.coalesce(f.col("properties")[ROW_ID_PROPERTY], f.col("offsetMessageId")))
    if not messages.isStreaming:
        return stamped.dropDuplicates([_COLUMN]).drop(_COLUMN)
    if within is None:
        raise ConfigError("deduplicated() of a stream needs the longest delay of a repeat, such as within='1 hour'")
    return stamped.withWatermark("storeTimestamp", within).dropDuplicatesWithinWatermark([_COLUMN]).drop(_COLUMN)
