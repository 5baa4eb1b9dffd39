"""Tables of `trace`: success and duration of sending and consuming, by group and client."""

from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as f

TIMED_OUT: Final = 1  # ConsumeReturnType: SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL, FAILED
THREW: Final = 2


def sends(lines: DataFrame) -> DataFrame:
    """Return, per producing group, client and topic, the number of sends, their success and their duration."""
    return _timed(
        lines.where("type = 'Pub'").groupBy("group", "client", "topic"),
        f.count("*").alias("sends"),
        f.count_if(~f.col("success")).alias("failed"),
        _rate().alias("success_rate"),
    )


def consumption(lines: DataFrame) -> DataFrame:
    """Return a row for each delivery of a message to a consumer, with its begin and its end.

    The end is null if the delivery did not end. Older clients write no group in SubAfter; the SubBefore line has it.
    """
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
    """Return, per consuming group and client, the deliveries, their success and duration, and the unfinished ones."""
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
    """Return the slow consumers of *measured*, with the message that took longest, for inspection.

    A consumer is slow if 5 % of its messages take *slow_ms* or longer, or some never end.
    """
    slow = measured.where((f.col("p95_ms") >= slow_ms) | (f.col("never_ended") > 0))
    slowest = consumed.groupBy("group", "client").agg(
        f.count_if(f.col("cost_ms") >= slow_ms).alias("slow"),
        f.max_by("id", "cost_ms").alias("slowest_message"),
    )
    columns = ["group", "client", "consumed", "slow", "never_ended", "p50_ms", "p95_ms", "max_ms", "slowest_message"]
    return slow.join(slowest, ["group", "client"]).select(*columns)


def transactions(lines: DataFrame) -> DataFrame:
    """Return, per group and topic, the ends of transactions, and how many ended only after a check by the broker."""
    state = f.col("state")
    found = lines.where("type = 'EndTransaction'").groupBy("group", "topic")
    return found.agg(
        f.count_if(state == "COMMIT_MESSAGE").alias("committed"),
        f.count_if(state == "ROLLBACK_MESSAGE").alias("rolled_back"),
        f.count_if(state == "UNKNOW").alias("unknown"),
        f.count_if("from_check").alias("after_check"),
    )


def _rate() -> Column:
    """Return the share of successes among the finished ones."""
    return f.round(f.avg(f.col("success").cast("int")), 4)


def _timed(groups: GroupedData, *counts: Column) -> DataFrame:
    p50, p95, p99 = (f.round(f.percentile("cost_ms", share), 1) for share in (0.5, 0.95, 0.99))
    return groups.agg(
        *counts, p50.alias("p50_ms"), p95.alias("p95_ms"), p99.alias("p99_ms"), f.max("cost_ms").alias("max_ms")
    )
