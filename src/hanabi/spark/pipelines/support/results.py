"""Output of computed tables: rows for a terminal, Parquet, and messages."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from hanabi.errors import ConfigError
from hanabi.spark.broker.options import NAME as BROKER_FORMAT
from hanabi.spark.pipelines.connection import Connection
from hanabi.spark.pipelines.contract import Cell, Table


def table_of(title: str, frame: DataFrame, rows_max: int) -> Table:
    """Return the first *rows_max* rows of *frame*, in its order.

    Times are in UTC, independent of the session's zone.
    """
    columns = [
        f.unix_micros(field.name).alias(field.name) if isinstance(field.dataType, TimestampType) else f.col(field.name)
        for field in frame.schema.fields
    ]
    is_time = [isinstance(field.dataType, TimestampType) for field in frame.schema.fields]
    found = frame.select(*columns).limit(rows_max).collect()
    rows = [
        [_time(value) if timed else _cell(value) for value, timed in zip(row, is_time, strict=True)] for row in found
    ]
    return Table(title, frame.columns, rows)


def write_parquet(frame: DataFrame, path: str, *, overwrite: bool) -> None:
    """Write *frame* as a new directory of Parquet files. An existing one is an error unless *overwrite*."""
    try:
        frame.write.mode("overwrite" if overwrite else "error").parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_ALREADY_EXISTS":
            raise ConfigError(f"{path} is there already: give another directory, or overwrite") from None
        raise


def send_rows(frames: Mapping[str, DataFrame], cluster: Connection, topic: str, *, key: str) -> None:
    """Send each row of *frames* as a JSON message, tagged with the name of its frame; column *key* is its key."""
    messages = [
        frame.select(
            f.to_json(f.struct("*")).alias("body"),
            f.lit(name).alias("tags"),
            f.array(f.col(key)).alias("keys"),
            f.col(key).alias("orderingKey"),
        )
        for name, frame in frames.items()
    ]
    sink = reduce(DataFrame.union, messages).write.format(BROKER_FORMAT).mode("append")
    sink.options(**cluster.spark_options(), topic=topic).save()


def _time(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
