"""Rows of Apache's traces: one message of the trace topic holds many lines; the type of a line defines its fields.

    Pub             type time region group topic id tags keys storeHost bodyBytes costMs kind [offsetId] success [host]
    SubBefore       type time region group requestId id retries keys
    SubAfter        type requestId id costMs success keys [outcome [time group]]
    EndTransaction  type time region group topic id tags keys storeHost kind transactionId state fromCheck
    Recall          type time region group topic id success                                          (5.x)

0x01 separates fields, 0x02 ends lines. Agrees with TraceDataEncoder of 4.9 and 5.x, and with the shorter forms of
older clients. Uses Spark's own functions only: no row enters Python.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

COLUMNS: Final = "body binary, bornHost string, storeTimestamp timestamp"

_FIELDS: Final = {  # by type: column -> position in the line
    "Pub": {"time": 1, "group": 3, "topic": 4, "id": 5, "cost": 10},
    "SubBefore": {"time": 1, "group": 3, "request": 4, "id": 5, "retries": 6},
    "SubAfter": {"request": 1, "id": 2, "cost": 3, "success": 4, "outcome": 6, "time": 7, "group": 8},
    "EndTransaction": {"time": 1, "group": 3, "topic": 4, "id": 5, "state": 11, "from_check": 12},
    "Recall": {"time": 1, "group": 3, "topic": 4, "id": 5, "success": 6},
}
_NEEDED: Final = {  # by type: the mandatory columns of a line
    "Pub": ("time", "cost", "success"),
    "SubBefore": ("time", "request", "retries"),
    "SubAfter": ("request", "cost", "success"),
    "EndTransaction": ("time", "state"),
    "Recall": ("time", "success"),
}
_UNIQUE_ID: Final = "^[0-9A-F]{32}"  # of a client with an IPv4 address: address, process, loader, time, counter


def trace_lines(messages: DataFrame) -> DataFrame:
    """Return a row for each line, with null for fields that its type lacks. `is_readable` is false for an invalid line.

    `client` is the origin of the line, as `host@process`: a traced client sends its traces itself, and its ids contain
    the number of its process.
    """
    line = f.explode(f.split(f.make_valid_utf8(f.col("body").cast("string")), "\x02")).alias("line")
    fields = (
        messages.select(_host(f.col("bornHost")).alias("host"), "storeTimestamp", line)
        .where(f.length("line") > 0)
        .select("host", "storeTimestamp", f.split("line", "\x01").alias("fields"))
        .withColumn("type", f.get("fields", f.lit(0)))
    )
    kind = f.col("type")
    success = f.when(kind == "Pub", _pub_success()).otherwise(_field("success"))
    lines = fields.select(
        "type",
        "host",
        "storeTimestamp",
        _number("time", "long").alias("time_ms"),
        _text("group").alias("group"),
        _text("topic").alias("topic"),
        _text("id").alias("id"),
        _text("request").alias("request"),
        _number("cost", "long").alias("cost_ms"),
        _number("retries", "int").alias("retries"),
        _truth(success).alias("success"),
        _number("outcome", "int").alias("outcome"),
        _text("state").alias("state"),
        _truth(_field("from_check")).alias("from_check"),
    )
    made_id = f.coalesce("request", "id")  # SubAfter and SubBefore: the consumer's own; Pub: the producer's
    process = f.when(made_id.rlike(_UNIQUE_ID), f.conv(f.substring(made_id, 9, 4), 16, 10))
    return lines.select(
        "*",
        f.concat_ws("@", "host", process).alias("client"),
        _is_readable().alias("is_readable"),
    )


def _is_readable() -> Column:
    """Return whether the line has the mandatory fields of its type."""
    column_of = {"time": "time_ms", "cost": "cost_ms"}
    good = f.lit(False)
    for kind, names in _NEEDED.items():
        has_all = f.col("id").isNotNull()
        for name in names:
            has_all = has_all & f.col(column_of.get(name, name)).isNotNull()
        good = f.when(f.col("type") == kind, has_all).otherwise(good)
    return good


def _field(name: str) -> Column:
    """Return the text of a field, null if the line's type lacks it or the line is too short."""
    found = f.lit(None).cast("string")
    for kind, places in _FIELDS.items():
        if name in places:
            found = f.when(f.col("type") == kind, f.get("fields", f.lit(places[name]))).otherwise(found)
    return found


def _pub_success() -> Column:
    """Return the success field.

    Clients before 4.5 wrote no offset id before it; some later ones add their host after it.
    """
    at = f.when(f.size("fields") == 13, f.lit(12)).otherwise(f.lit(13))
    return f.get("fields", at)


def _text(name: str) -> Column:
    """Return a field, null for Java's text "null"."""
    return f.nullif(f.nullif(_field(name), f.lit("null")), f.lit(""))


def _number(name: str, kind: str) -> Column:
    return _field(name).try_cast(kind)


def _truth(text: Column) -> Column:
    return f.when(text == "true", f.lit(True)).when(text == "false", f.lit(False))


def _host(address: Column) -> Column:
    """Return `10.0.0.7:4711` without the port."""
    return f.regexp_replace(address, r":\d+$", "")
