"""The deduplicating reader: of messages that the sink sent, each row once.

The sink sends at least once and stamps each message with the row that it was (`stamps.STAMP`). A task that is
tried again and a batch that is replayed give their rows the same stamps: one message of each is every row once.
"""

from typing import TYPE_CHECKING, Final

from hanabi.errors import ConfigError
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY

if TYPE_CHECKING:  # so that `import hanabi.spark` does without Spark
    from pyspark.sql import DataFrame

_COLUMN: Final = "_spark_row"


def deduplicated(messages: "DataFrame", *, within: str | None = None) -> "DataFrame":
    """*messages*, of which each row that the sink sent more than once is there once; others stay as they are.

    *messages* must have the columns properties and offsetMessageId. A stream must say *within* what time a repeat may
    follow, such as "1 hour": so long it remembers each stamp. That is a watermark on storeTimestamp, which must be
    there too. A replay comes when a query is started again, so the time must cover how long that may take.
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
        raise ConfigError("deduplicated() of a stream needs within='1 hour', or how long a repeat may take to come")
    return stamped.withWatermark("storeTimestamp", within).dropDuplicatesWithinWatermark([_COLUMN]).drop(_COLUMN)
