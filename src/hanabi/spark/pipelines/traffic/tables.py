"""Tables of `traffic`, from one pass over the messages.

Messages are first counted by every dimension of any table, including the latency in whole milliseconds. The result is
small, and yields exact percentiles: each latency has its number of messages.
"""

from typing import Final

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as f

COLUMNS: Final = (
    "topic string, brokerName string, queueId int, tags string, body binary, "
    "bornTimestamp timestamp, storeTimestamp timestamp"
)
PERCENTILES: Final = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
SMALLEST_CLASS: Final = 64  # bytes; the limit doubles with each size class


def count_messages(messages: DataFrame) -> DataFrame:
    """Return the number of messages of each kind, and the bytes of their bodies. Reads *messages* once."""
    size = f.length("body").cast("long")
    doublings = f.greatest(f.ceil(f.log2(f.greatest(size, f.lit(1)) / SMALLEST_CLASS)), f.lit(0))
    return (
        messages.select(
            "topic",
            f.col("brokerName").alias("broker"),
            f.col("queueId").alias("queue"),
            f.coalesce("tags", f.lit("")).alias("tag"),
            f.date_trunc("minute", "storeTimestamp").alias("minute"),
            (f.lit(SMALLEST_CLASS) * f.pow(f.lit(2), doublings)).cast("long").alias("size_up_to"),
            (f.unix_millis("storeTimestamp") - f.unix_millis("bornTimestamp")).alias("latency_ms"),
            size.alias("size"),
        )
        .groupBy("topic", "broker", "queue", "tag", "minute", "size_up_to", "latency_ms")
        .agg(f.count("*").alias("messages"), f.sum("size").alias("bytes"))
    )


def by_minute(counts: DataFrame) -> DataFrame:
    """Return, per topic, tag and minute, the messages, bytes, and latencies from producer to store."""
    return _with_latencies(counts.groupBy("topic", "tag", "minute"))


def by_size(counts: DataFrame) -> DataFrame:
    """Return, per topic, the number of bodies with up to 64, 128, 256... bytes."""
    return counts.groupBy("topic", "size_up_to").agg(f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))


def by_queue(counts: DataFrame) -> DataFrame:
    """Return the distribution of messages over the queues of each topic.

    Skew is the fullest queue divided by the average; 1 is even. Queues without a message are unknown here, and not
    counted.
    """
    queues = counts.groupBy("topic", "broker", "queue").agg(f.sum("messages").alias("messages"))
    return queues.groupBy("topic").agg(
        f.count("*").alias("queues"),
        f.sum("messages").alias("messages"),
        f.min("messages").alias("fewest"),
        f.max("messages").alias("most"),
        f.round(f.max("messages") / f.avg("messages"), 2).alias("skew"),
    )


def over_time(counts: DataFrame, bins_max: int) -> DataFrame:
    """Return messages per topic and overall latencies, in at most about *bins_max* steps of whole minutes."""
    first, last = counts.agg(f.min("minute"), f.max("minute")).first() or (None, None)
    minutes = 1 if first is None else int((last - first).total_seconds() // 60) // bins_max + 1
    bins = counts.withColumn("minute", f.window("minute", f"{minutes} minutes")["start"])
    latencies = _with_latencies(bins.groupBy("minute")).select("minute", *PERCENTILES)
    topics = bins.groupBy("minute", "topic").agg(f.sum("messages").alias("messages"))
    return topics.join(latencies, "minute").withColumn("minutes", f.lit(minutes)).orderBy("minute", "topic")


def _with_latencies(groups: GroupedData) -> DataFrame:
    return groups.agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        *(
            f.round(f.percentile("latency_ms", share, f.col("messages")), 1).alias(name)
            for name, share in PERCENTILES.items()
        ),
        f.max("latency_ms").alias("latency_max_ms"),
    )
