"""Proof of what a frame really delivers, so that nothing is compared which does less than the others.

A digest reads every value of every column in the JVM: Spark can leave out none of them. It is taken outside of the
measured time; within it, Spark counts the rows.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.sql.types import MapType

BODY_AT = 88  # in a record whose hosts are of IPv4


def digest(frame: DataFrame) -> dict[str, int]:
    """Return the number of rows, the bytes of their bodies, and for each column a hash over all of its values."""
    return _collect(frame, {name: f.col(name) for name in frame.columns})


def digest_of_records(frame: DataFrame, body_bytes: int) -> dict[str, int]:
    """Return what `digest` says of bodies, from whole records."""
    return _collect(frame, {"body": f.substring("record", BODY_AT + 1, body_bytes)})


def same_digest(left: dict[str, int], right: dict[str, int], *, but: frozenset[str] = frozenset()) -> None:
    """Raise unless both are the same in all columns that both have, save those in *but*."""
    for name in (left.keys() & right.keys()) - but:
        assert left[name] == right[name], f"{name}: {left[name]} is not {right[name]}"


def written(frame: DataFrame) -> int:
    """Write *frame* to nowhere with all its columns. Returns how many rows Spark wrote."""
    observation = Observation()
    frame.observe(observation, f.count(f.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    rows = observation.get["rows"]
    assert isinstance(rows, int)
    return rows


def _collect(frame: DataFrame, columns: dict[str, Column]) -> dict[str, int]:
    def hashed(name: str, column: Column) -> Column:
        is_map = name in frame.columns and isinstance(frame.schema[name].dataType, MapType)  # no hash is made of a map
        return f.bit_xor(f.xxhash64(f.lit(name), f.map_entries(column) if is_map else column)).alias(name)

    wanted = [hashed(name, column) for name, column in columns.items()]
    if "body" in columns:
        wanted.append(f.sum(f.length(columns["body"])).alias("bytes of bodies"))
    found: dict[str, Any] = frame.agg(f.count(f.lit(1)).alias("rows"), *wanted).collect()[0].asDict()
    return found
