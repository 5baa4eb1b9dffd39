"""Pipeline `traffic`: the present or past traffic of a cluster, minute by minute.

One pass over the messages of a cluster or of a store's files yields four tables: minutes, sizes, queues, lag.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hanabi.errors import ConfigError
from hanabi.spark.broker.options import parse_batch_options
from hanabi.spark.pipelines.contract import Outcome, Pipeline, Progress
from hanabi.spark.pipelines.origin import Origin
from hanabi.spark.pipelines.support.group_lag import GroupLag, cluster_lags, store_lags
from hanabi.spark.pipelines.support.results import send_rows, table_of, write_parquet
from hanabi.spark.pipelines.traffic import tables
from hanabi.spark.pipelines.traffic.chart import BINS_MAX, Bin, draw

_LAG = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("queues", LongType()),
        StructField("queues_behind", LongType()),
        StructField("lag", LongType()),
    ]
)


class TrafficOptions(Origin, frozen=True, kw_only=True):
    """Options of `traffic`: the measured messages, and outputs besides the screen."""

    output: Annotated[
        str | None, msgspec.Meta(description="write the tables as Parquet to OUTPUT/minutes, /sizes, /queues and /lag")
    ] = None
    overwrite: Annotated[bool, msgspec.Meta(description="replace existing tables")] = False
    output_topic: Annotated[
        str | None, msgspec.Meta(description="send every row as JSON to this topic, tagged with its table's name")
    ] = None
    chart: Annotated[str | None, msgspec.Meta(description="draw messages and latencies over time to this SVG file")] = (
        None
    )
    rows: Annotated[int, msgspec.Meta(description="rows of each table that are shown", ge=1)] = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_topic is not None and self.output_topic in self.topics:
            raise ConfigError(f"output-topic={self.output_topic} is one of the topics that are measured")
        if self.chart is not None and not Path(self.chart).absolute().parent.is_dir():
            raise ConfigError(f"chart={self.chart}: there is no directory {Path(self.chart).absolute().parent}")


def run(spark: SparkSession, options: TrafficOptions, progress: Progress) -> Outcome:
    progress.step("reading messages")
    messages = options.read(spark, tables.COLUMNS)
    if options.output_topic is not None:  # our own earlier output is not traffic
        messages = messages.where(f.col("topic") != options.output_topic)
    counts = tables.count_messages(messages).persist()
    try:
        totals = counts.groupBy("topic").agg(
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.sum(f.when(f.col("latency_ms") < 0, f.col("messages")).otherwise(0)).alias("stored_before_born"),
        )
        topics = totals.collect()
        progress.step("reading the lag of groups")
        lags = _lags(options, [topic["topic"] for topic in topics])
        found = {
            "minutes": tables.by_minute(counts),
            "sizes": tables.by_size(counts),
            "queues": tables.by_queue(counts),
            "lag": spark.createDataFrame(lags, _LAG),
        }
        _write(found, options, progress)
        if options.chart is not None:
            progress.step(f"drawing {options.chart}")
            Path(options.chart).write_text(draw(_bins(counts)), encoding="utf-8")
        progress.step("counting")
        minutes = found["minutes"].orderBy(f.desc("minute"), "topic", "tag")
        sizes = found["sizes"].orderBy("topic", "size_up_to")
        queues = found["queues"].orderBy(f.desc("skew"), "topic")
        lag = found["lag"].orderBy(f.desc("lag"), "group", "topic")
        return Outcome(
            tables=[
                table_of("messages by minute, the latest first", minutes, options.rows),
                table_of("sizes of bodies", sizes, options.rows),
                table_of("how evenly queues are used", queues, options.rows),
                table_of("what groups have still to consume", lag, options.rows),
            ],
            facts={
                "messages": sum(topic["messages"] for topic in topics),
                "bytes": sum(topic["bytes"] for topic in topics),
                "topics": len(topics),
                # Producers whose clocks are ahead of the broker's: their latencies are too low.
                "stored_before_born": sum(topic["stored_before_born"] for topic in topics),
                "lag": sum(lag.lag for lag in lags),
            },
        )
    finally:
        counts.unpersist()


def _lags(options: TrafficOptions, topics: list[str]) -> list[GroupLag]:
    home = options.store_home
    if home is not None:
        return store_lags(home, topics)
    return cluster_lags(parse_batch_options(options.broker_options()).read)


def _write(found: dict[str, DataFrame], options: TrafficOptions, progress: Progress) -> None:
    for name, frame in found.items() if options.output is not None else ():
        path = f"{options.output}/{name}"
        progress.step(f"writing {path}")
        write_parquet(frame, path, overwrite=options.overwrite)
    if options.output_topic is not None:
        progress.step(f"sending rows to {options.output_topic}")
        send_rows(found, options, options.output_topic, key="topic")


def _bins(counts: DataFrame) -> list[Bin]:
    rows = tables.over_time(counts, BINS_MAX).withColumn("at_s", f.unix_seconds("minute")).collect()
    return [
        Bin(
            at_s=row["at_s"],
            minutes=row["minutes"],
            topic=row["topic"],
            messages=row["messages"],
            p50_ms=row["latency_p50_ms"],
            p99_ms=row["latency_p99_ms"],
        )
        for row in rows
    ]


PIPELINE = Pipeline(
    name="traffic",
    summary="Messages, bytes and latencies by topic, tag and minute; sizes, skew of queues, lag of groups.",
    options=TrafficOptions,
    run=run,
)
