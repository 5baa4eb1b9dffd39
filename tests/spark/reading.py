"""Reads stores with the parts of the source itself, without a Spark session: the same code, in this process."""

from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from hanabi.spark.store.reader import StoreReader
from hanabi.spark.store_source import StoreSource
from tests.spark.decoded import Row, rows_of


def reader(root: Path, schema: StructType | None = None, **options: Any) -> StoreReader:
    """Return a reader with *options*, as Spark makes one."""
    source = StoreSource({"path": str(root)} | {name.lower(): str(value) for name, value in options.items()})
    return source.reader(schema or source.schema())


def tasks(root: Path, schema: StructType | None = None, **options: Any) -> list[list[Row]]:
    """Return the rows of every task."""
    made = reader(root, schema, **options)
    return [[row for batch in made.read(task) for row in rows_of(batch)] for task in made.partitions()]


def rows(root: Path, schema: StructType | None = None, **options: Any) -> list[Row]:
    return [row for task in tasks(root, schema, **options) for row in task]


def numbers(found: list[Row]) -> list[int]:
    """Return which of the messages of `sample_stores.make_store` these are."""
    return [int(row["body"]) for row in found]
