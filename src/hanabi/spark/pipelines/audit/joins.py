"""Comparison of log, queues and index, as joins of the rows that the audit's tasks found.

Two passes over all rows keep the mismatches (`odd_places`, `odd_keys`): none, in an intact store. All later steps
process only these rows.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from hanabi.spark.pipelines.audit.rows import BROKEN
from hanabi.store.inspection.expected import DELIVERY_MS_MAX

COLUMNS: Final = ("difference", "topic", "queue_id", "queue_offset", "log_offset", "file", "reason")
DIFFERENCE: Final = (
    "difference string, topic string, queue_id int, queue_offset long, log_offset long, file string, reason string"
)

_PLACE: Final = ["topic", "queue_id", "queue_offset"]
_SECONDS_MAX: Final = 2**31 - 1


def odd_places(found: DataFrame, log_min: int) -> DataFrame:
    """Return the queue positions where the entry does not match the record, or one of the two is missing.

    `entry_is`: wrong-size or wrong-tags, stray (of no record that belongs there), or null. `record_is`: lonely (without
    an entry), superseded (by a newer message, as when its topic was deleted and re-created), or null. Several records
    can belong to one position; an entry is reported once, with the newest of them.
    """
    records = found.where("kind in ('record', 'also') and topic is not null").select(
        *_PLACE,
        f.col("log_offset").alias("record_at"),
        f.col("size").alias("record_size"),
        f.col("tags_code").alias("record_code"),
        "certain",
        "stored_ms",
    )
    entries = found.where("kind = 'entry'").select(
        *_PLACE,
        f.col("log_offset").alias("entry_at"),
        f.col("size").alias("entry_size"),
        f.col("tags_code").alias("entry_code"),
        "difference",
        "reason",
    )
    place = Window.partitionBy(*_PLACE)
    record_at, entry_at = f.col("record_at"), f.col("entry_at")
    pairs = (
        records.join(entries, _PLACE, "full_outer")
        .withColumn("is_same", f.coalesce(entry_at == record_at, f.lit(False)))
        .withColumn("is_right", f.max("is_same").over(place))
        .withColumn("is_newest", record_at.eqNullSafe(f.max("record_at").over(place)))
    )
    is_same, is_certain = f.col("is_same"), f.col("certain")
    is_expired = record_at.isNull() & (entry_at < log_min)
    is_stray = entry_at.isNotNull() & ~f.col("is_right") & f.col("is_newest") & ~is_expired
    entry_is = (
        f.when(is_same & (f.col("entry_size") != f.col("record_size")), f.lit("wrong-size"))
        .when(is_same & ~_is_right_code(), f.lit("wrong-tags"))
        .when(is_stray, f.lit("stray"))
    )
    record_is = f.when(is_certain & entry_at.isNull(), f.lit("lonely")).when(
        is_certain & ~is_same & (entry_at > record_at), f.lit("superseded")
    )
    judged = pairs.withColumn("entry_is", entry_is).withColumn("record_is", record_is)
    return judged.where("entry_is is not null or record_is is not null")


def _is_right_code() -> Column:
    """Return whether the tags code is allowed, as `ExpectedEntry.allows` does."""
    entry_code, record_code, stored_ms = f.col("entry_code"), f.col("record_code"), f.col("stored_ms")
    is_time = f.coalesce(f.abs(entry_code - stored_ms) <= DELIVERY_MS_MAX, f.lit(False))
    return f.when(record_code.isNull(), is_time).otherwise(entry_code.eqNullSafe(record_code))


def wrong_entries(odd: DataFrame, lying_there: DataFrame) -> DataFrame:
    """Return the entries that do not match the records at their positions."""
    entry = _said(f.col("entry_at"), f.col("entry_size"), f.col("entry_code"), "(lost)")
    record = _said(f.col("record_at"), f.col("record_size"), f.col("record_code"), "a time of delivery")
    is_stray = f.col("entry_is") == "stray"
    is_broken, is_nowhere = f.col("is_broken"), f.col("is_broken").isNull()
    stray_is = (
        f.when(is_broken, f.lit("leads-to-broken"))
        .when(is_nowhere, f.coalesce("difference", f.lit("points-nowhere")))
        .otherwise(f.lit("other-message"))
    )
    why = (
        f.when(f.col("record_at").isNotNull(), f.concat(f.lit(", but by the log it must be "), record))
        .when(is_broken, f.lit(", but the record there is broken"))
        .when(is_nowhere, f.coalesce("reason", f.lit(", but no record begins there")))
        .otherwise(f.concat(f.lit(", but there lies message "), f.col("there_offset"), f.lit(" of "), f.col("there")))
    )
    entries = odd.where("entry_is is not null").join(lying_there, f.col("entry_at") == f.col("at"), "left")
    return entries.select(
        f.when(is_stray, stray_is).otherwise(f.col("entry_is")).alias("difference"),
        *_PLACE,
        f.col("entry_at").alias("log_offset"),
        f.lit(None).cast("string").alias("file"),
        f.concat(entry, why).alias("reason"),
    )


def records_without_entry(odd: DataFrame, queues: DataFrame, topics: DataFrame | None, safe_ms: int) -> DataFrame:
    """Return the records without an entry, and their `state`.

    The state is missing, pending (the broker will still make the entry), or deleted (its topic was).
    *queues* has for each queue its end and the log offset of its first message; *topics* are those that the broker
    knows. Messages stored after *safe_ms* may still get their entries.
    """
    records = odd.where("record_is is not null").join(f.broadcast(queues), ["topic", "queue_id"], "left")
    if topics is not None:
        records = records.join(f.broadcast(topics.withColumn("is_known", f.lit(True))), "topic", "left")
    else:
        records = records.withColumn("is_known", f.lit(True))
    was_deleted = f.col("is_queue").isNull() & f.col("is_known").isNull()
    was_made_again = f.coalesce(f.col("first_at") > f.col("record_at"), f.lit(False))
    is_later = (f.col("queue_offset") >= f.coalesce("end", f.lit(0))) & (f.col("stored_ms") > safe_ms)
    state = (
        f.when((f.col("record_is") == "superseded") | was_deleted | was_made_again, f.lit("deleted"))
        .when(is_later, f.lit("pending"))
        .otherwise(f.lit("missing"))
    )
    return records.select(*_PLACE, "record_at", state.alias("state"))


def missing_entries(without_entry: DataFrame) -> DataFrame:
    return without_entry.where("state = 'missing'").select(
        f.lit("no-entry").alias("difference"),
        *_PLACE,
        f.col("record_at").alias("log_offset"),
        f.lit(None).cast("string").alias("file"),
        f.lit("the message has no entry in its queue").alias("reason"),
    )


def odd_keys(found: DataFrame, log_min: int, covered: tuple[int, int]) -> DataFrame:
    """Return mismatches of the index: entries that match no key or not the time of their message, and missing keys.

    Missing keys are looked for in messages between the two log offsets of *covered*; their `number` is null.
    """
    keys = found.where("kind = 'record'").select(
        "log_offset",
        f.explode(f.array_distinct("keys")).alias("hash"),
        "stored_ms",
        *(f.col(name).alias(f"of_{name}") for name in _PLACE),
    )
    entries = found.where("kind = 'key'").select("log_offset", "hash", "file", "number", "seconds", "begin_ms")
    at, number = f.col("log_offset"), f.col("number")
    since_begin = f.floor(f.greatest(f.col("stored_ms") - f.col("begin_ms"), f.lit(0)) / 1000)
    right_seconds = f.least(since_begin, f.lit(_SECONDS_MAX))
    is_other_time = (number > 1) & (
        f.col("seconds") != right_seconds
    )  # the first entry's seconds count from the previous file
    is_lost = f.col("stored_ms").isNull() & ~at.between(0, log_min - 1)
    key_is = (
        f.when(number.isNull() & at.between(*covered), f.lit("index-lacks-key"))
        .when(number.isNotNull() & is_lost, f.lit("stray"))
        .when(is_other_time, f.lit("index-other-time"))
    )
    joined = keys.join(entries, ["log_offset", "hash"], "full_outer").withColumn("right_seconds", right_seconds)
    return joined.withColumn("key_is", key_is).where("key_is is not null")


def wrong_keys(odd: DataFrame, lying_there: DataFrame) -> DataFrame:
    """Return the differences of the index, classified by the content of the log where its entries point."""
    is_stray = f.col("key_is") == "stray"
    is_broken, is_nowhere = f.col("is_broken"), f.col("is_broken").isNull()
    entry, hashed = f.concat(f.lit("entry "), f.col("number")), f.col("hash")
    reason = (
        f.when(
            f.col("key_is") == "index-lacks-key",
            f.concat(f.lit("no entry of the index for its key with the hash "), hashed),
        )
        .when(
            f.col("key_is") == "index-other-time",
            f.concat(
                entry, f.lit(" is of second "), f.col("seconds"), f.lit(", its message of second "), "right_seconds"
            ),
        )
        .when(is_broken, f.concat(entry, f.lit(": the record there is broken")))
        .when(is_nowhere, f.concat(entry, f.lit(": no record begins there")))
        .otherwise(f.concat(entry, f.lit(": no key of the message has the hash "), hashed))
    )
    stray_is = (
        f.when(is_broken, f.lit("index-leads-to-broken"))
        .when(is_nowhere, f.lit("index-points-nowhere"))
        .otherwise(f.lit("index-other-key"))
    )
    is_missing = f.col("key_is") == "index-lacks-key"
    return odd.join(lying_there, f.col("log_offset") == f.col("at"), "left").select(
        f.when(is_stray, stray_is).otherwise(f.col("key_is")).alias("difference"),
        *(f.when(is_missing, f.col(f"of_{name}")).alias(name) for name in _PLACE),
        "log_offset",
        "file",
        reason.alias("reason"),
    )


def lying_there(found: DataFrame) -> DataFrame:
    """Return the content of each log offset: a valid record, or a broken one."""
    is_broken = (f.col("kind") == "wrong") & (f.col("difference") == BROKEN)
    return found.where((f.col("kind") == "record") | is_broken).select(
        f.col("log_offset").alias("at"),
        is_broken.alias("is_broken"),
        f.concat_ws("/", f.coalesce("topic", f.lit("(a transaction)")), "queue_id").alias("there"),
        f.col("queue_offset").alias("there_offset"),
    )


def known_wrong(found: DataFrame) -> DataFrame:
    """Return the differences that tasks found without a comparison."""
    return found.where("kind = 'wrong'").select(*COLUMNS)


def table_of_topics(spark: SparkSession, topics: Iterable[str] | None) -> DataFrame | None:
    if topics is None:
        return None
    return spark.createDataFrame([(topic,) for topic in sorted(topics)], "topic string")


def _said(at: Column, size: Column, code: Column, no_code: str) -> Column:
    shown = f.coalesce(code.cast("string"), f.lit(no_code))
    return f.concat(f.lit("log offset "), at, f.lit(", size "), size, f.lit(", tags code "), shown)
