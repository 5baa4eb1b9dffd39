"""The tables of `trace`: how well sending and consuming went, by group and client."""

from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as f

TIMED_OUT: Final = 1  # ConsumeReturnType: SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL, FAILED
THREW: Final = 2


def sends(lines: DataFrame) -> DataFrame:
    """Per producing group, client and topic: how many sends, how many worked, how long they took."""
    return _timed(
        lines.where("type = 'Pub'").groupBy("group", "client", "topic"),
        f.count("*").alias("sends"),
        f.count_if(~f.col("success")).alias("failed"),
        _rate().alias("success_rate"),
    )


def consumption(lines: DataFrame) -> DataFrame:
    """Return a row for each time that a message was given to a consumer: when it began, how it ended. Ends are null
    if it did not end. Older clients write no group behind a message; the line before it has one."""
    before = lines.where("type = 'SubBefore'").select(
        "request", "id", "group", "client", "retries", f.col("time_ms").alias("began_ms")
    )
    after = lines.where("type = 'SubAfter'").select(
        "request",
        "id",
        f.col("group").alias("after_group"),
        f.col("client").alias("after_client"),
        "cost_ms",
        "success",
        "outcome",
    )
    joined = before.join(after, ["request", "id"], "full_outer")
    return joined.select(
        "id",
        f.coalesce("group", "after_group", f.lit("(not told)")).alias("group"),
        f.coalesce("client", "after_client").alias("client"),
        "retries",
        "began_ms",
        "cost_ms",
        "success",
        "outcome",
    )


def consumers(consumed: DataFrame, unfinished_before_ms: Column) -> DataFrame:
    """Per consuming group and client: how often, how well, how long; and what was begun long ago and has no end."""
    ended = f.col("success").isNotNull()
    hangs = f.col("success").isNull() & (f.col("began_ms") < unfinished_before_ms)
    return _timed(
        consumed.groupBy("group", "client"),
        f.count_if(ended).alias("consumed"),
        f.count_if(~f.col("success")).alias("failed"),
        f.count_if(f.col("outcome") == TIMED_OUT).alias("timed_out"),
        f.count_if(f.col("outcome") == THREW).alias("threw"),
        f.count_if(f.col("retries") > 0).alias("retries"),
        f.count_if(hangs).alias("never_ended"),
        _rate().alias("success_rate"),
    )


def slow_consumers(consumed: DataFrame, measured: DataFrame, slow_ms: int) -> DataFrame:
    """Return the consumers of *measured* that are slow: one message in twenty takes *slow_ms* or longer, or some never
    end.

    With the message that took longest, so that somebody can look at it.
    """
    slow = measured.where((f.col("p95_ms") >= slow_ms) | (f.col("never_ended") > 0))
    slowest = consumed.groupBy("group", "client").agg(
        f.count_if(f.col("cost_ms") >= slow_ms).alias("slow"),
        f.max_by("id", "cost_ms").alias("slowest_message"),
    )
    columns = ["group", "client", "consumed", "slow", "never_ended", "p50_ms", "p95_ms", "max_ms", "slowest_message"]
    return slow.join(slowest, ["group", "client"]).select(*columns)


def transactions(lines: DataFrame) -> DataFrame:
    """Per group and topic: how transactions ended, and how many of them only when the broker asked."""
    state = f.col("state")
    found = lines.where("type = 'EndTransaction'").groupBy("group", "topic")
    return found.agg(
        f.count_if(state == "COMMIT_MESSAGE").alias("committed"),
        f.count_if(state == "ROLLBACK_MESSAGE").alias("rolled_back"),
        f.count_if(state == "UNKNOW").alias("unknown"),
        f.count_if("from_check").alias("after_check"),
    )


def _rate() -> Column:
    """Of those that ended, the share that worked."""
    return f.round(f.avg(f.col("success").cast("int")), 4)


def _timed(groups: GroupedData, *counts: Column) -> DataFrame:
    p50, p95, p99 = (f.round(f.percentile("cost_ms", share), 1) for share in (0.5, 0.95, 0.99))
    return groups.agg(
        *counts, p50.alias("p50_ms"), p95.alias("p95_ms"), p99.alias("p99_ms"), f.max("cost_ms").alias("max_ms")
    )
