"""Pipeline `orders`, a demo: JSON orders, deduplicated, enriched, summed by time, to Parquet and to a topic.

    topic ─► check, deduplicate, enrich ─► OUTPUT/orders ─► windows ─► OUTPUT/totals ─► topic
             query 1, a checkpoint            query 2, a checkpoint       query 3, a checkpoint

Spark's Parquet files have every row exactly once, even after crashes, so each query can rely on the one before it. The
topic gets every total at least once; query 3 has no shuffle, so a repeat has the same stamp (SPARK_ROW).
"""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError
from hanabi.spark.broker.options import NAME as BROKER_FORMAT
from hanabi.spark.pipelines.connection import Connection
from hanabi.spark.pipelines.contract import Cell, Outcome, Pipeline, Progress
from hanabi.spark.pipelines.orders.frames import (
    COLUMNS,
    DAMAGE,
    as_messages,
    checked_orders,
    enriched,
    once_each,
    totals,
)
from hanabi.spark.pipelines.support.file_system import FileSystem
from hanabi.spark.pipelines.support.results import table_of
from hanabi.spark.pipelines.support.streams import Watched, follow

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Stage = tuple[str, Callable[[], StreamingQuery]]


class OrdersOptions(Connection, frozen=True, kw_only=True):
    """Options of `orders`. A run with the same output continues where the last run ended."""

    output: Annotated[
        str, msgspec.Meta(description="Parquet goes to OUTPUT/orders and /totals, progress to /checkpoints")
    ]
    topic: Annotated[str, msgspec.Meta(description="the topic with the orders")] = "Orders"
    output_topic: Annotated[str | None, msgspec.Meta(description="send the totals as JSON to this topic")] = None
    products: Annotated[
        str | None, msgspec.Meta(description="CSV with a header, JSON lines or Parquet: columns to add, by `product`")
    ] = None
    by: Annotated[str, msgspec.Meta(description="the column that totals are for, of orders or products")] = "product"
    window: Annotated[str, msgspec.Meta(description="the time span of each total")] = "1 hour"
    watermark: Annotated[
        str, msgspec.Meta(description="maximum lateness of an order, and maximum distance of its duplicates")
    ] = "10 minutes"
    group: Annotated[str, msgspec.Meta(description="the group whose offsets are committed to brokers")] = (
        "orders-pipeline"
    )
    batch_orders: Annotated[int, msgspec.Meta(description="maximum messages per step", ge=1)] = 100_000
    fail_on_data_loss: Annotated[
        bool, msgspec.Meta(description="fail if orders were deleted, or their topic was re-created")
    ] = True
    on_damage: Annotated[
        Literal["fail", "skip"],
        msgspec.Meta(description="for an unreadable body: fail; or skip it, and list it with the invalid orders"),
    ] = "fail"
    follow: Annotated[bool, msgspec.Meta(description="keep reading new orders until interrupted")] = False
    interval_s: Annotated[float, msgspec.Meta(description="with follow: seconds between steps", ge=0)] = 5.0
    for_s: Annotated[_Seconds | None, msgspec.Meta(description="with follow: seconds to run")] = None
    rows: Annotated[int, msgspec.Meta(description="rows of each table that are shown", ge=1)] = 30

    def __post_init__(self) -> None:
        if self.output_topic == self.topic:
            raise ConfigError(f"output-topic={self.output_topic} is the topic that orders come from")
        if self.for_s is not None and not self.follow:
            raise ConfigError("for-s is for a run with follow: without it, a run ends when all there is was read")


def run(spark: SparkSession, options: OrdersOptions, progress: Progress) -> Outcome:
    return _Run(spark, options, progress).run()


class _Run:
    """One run over one output directory."""

    def __init__(self, spark: SparkSession, options: OrdersOptions, progress: Progress) -> None:
        self._spark, self._options, self._progress = spark, options, progress
        self._files = FileSystem(spark, options.output)
        self._orders_path, self._totals_path = self._files.at("orders"), self._files.at("totals")

    def run(self) -> Outcome:
        options = self._options
        # All frames are made before any query starts: errors in windows, columns or files are raised now.
        orders = enriched(once_each(checked_orders(self._source()), options.watermark), self._products())
        for name in ("orders", "totals"):
            self._files.make(name)  # a file stream needs an existing directory
        written = self._spark.readStream.schema(orders.schema).parquet(self._orders_path)
        good = written.where("problem is null").withWatermark("ordered_at", options.watermark)
        added = totals(good, options.window, options.by)
        ready = self._spark.readStream.schema(added.schema).parquet(self._totals_path)
        stages = [
            ("taking orders", lambda: self._to_parquet("orders", orders, self._orders_path)),
            ("adding up", lambda: self._to_parquet("totals", added, self._totals_path)),
        ]
        if options.output_topic is not None:
            stages.append((f"sending totals to {options.output_topic}", lambda: self._to_topic(ready)))
        watched = self._follow(stages) if options.follow else self._drain(stages)
        return self._outcome(watched, orders.schema, added.schema)

    def _drain(self, stages: list[_Stage]) -> list[Watched]:
        """Run the stages one after another: each ends when it has read all of its input."""
        watched = []
        for step, start in stages:
            self._progress.step(step)
            watched.append(Watched(start()))
            follow(watched[-1:], self._progress)
        return watched

    def _follow(self, stages: list[_Stage]) -> list[Watched]:
        self._progress.step("taking orders until interrupted")
        watched = [Watched(start()) for _, start in stages]
        follow(watched, self._progress, self._options.for_s)
        return watched

    def _source(self) -> DataFrame:
        given = {
            **self._options.spark_options(),
            "subscribe": self._options.topic,
            "startingOffsets": "earliest",
            "groupId": self._options.group,
            "maxOffsetsPerTrigger": str(self._options.batch_orders),
            "failOnDataLoss": str(self._options.fail_on_data_loss),
            "onDamage": "fail" if self._options.on_damage == "fail" else "raw",
        }
        columns = COLUMNS if self._options.on_damage == "fail" else f"{COLUMNS}, {DAMAGE}"
        return self._spark.readStream.format(BROKER_FORMAT).options(**given).schema(columns).load()

    def _products(self) -> DataFrame | None:
        path = self._options.products
        if path is None:
            return None
        if path.endswith(".csv"):
            return self._spark.read.option("header", True).csv(path)
        return self._spark.read.json(path) if path.endswith((".json", ".jsonl")) else self._spark.read.parquet(path)

    def _to_parquet(self, name: str, frame: DataFrame, path: str) -> StreamingQuery:
        return self._start(name, frame.writeStream.format("parquet").option("path", path))

    def _to_topic(self, ready: DataFrame) -> StreamingQuery:
        messages = as_messages(ready, self._options.by)
        sink = messages.writeStream.format(BROKER_FORMAT).options(**self._options.spark_options())
        return self._start("topic", sink.option("topic", self._options.output_topic))

    def _start(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        writer = writer.option("checkpointLocation", self._files.at(f"checkpoints/{name}")).queryName(f"orders-{name}")
        if self._options.follow:
            return writer.trigger(processingTime=f"{self._options.interval_s} seconds").start()
        return writer.trigger(availableNow=True).start()

    def _outcome(self, watched: list[Watched], of_orders: StructType, of_totals: StructType) -> Outcome:
        self._progress.step("reading the results")
        orders = self._spark.read.schema(of_orders).parquet(self._orders_path)
        sent = self._spark.read.schema(of_totals).parquet(self._totals_path)
        (kept,) = orders.agg(
            f.count_if(f.col("problem").isNull()).alias("orders"), f.count("problem").alias("problems")
        ).collect()
        ((closed_until,),) = sent.agg(f.max("to")).collect()
        still_open = orders.where("problem is null")
        if closed_until is not None:
            still_open = still_open.where(f.col("ordered_at") >= f.lit(closed_until))
        options = self._options
        state = "written" if options.output_topic is None else "sent"
        both = sent.withColumn("state", f.lit(state)).unionByName(
            totals(still_open, options.window, options.by).withColumn("state", f.lit("open"))
        )
        refused = orders.where(f.col("problem").isNotNull()).select("message_id", "problem", "text")
        tables = [table_of("totals", both.orderBy(f.desc("from"), options.by), options.rows)]
        if kept["problems"]:
            tables.append(table_of("no orders", refused, options.rows))
        facts: dict[str, Cell] = {
            "messages_read": watched[0].rows_read,
            "duplicates_left_out": watched[0].duplicates,
            "too_late": sum(each.too_late for each in watched[:2]),
            "orders_in_all": kept["orders"],
            "no_orders_in_all": kept["problems"],
        }
        if len(watched) > 2:
            facts["totals_sent"] = watched[2].rows_read
        return Outcome(tables=tables, facts=facts)


PIPELINE = Pipeline(
    name="orders",
    summary="The demo: deduplicate, enrich and add up JSON orders, as a stream.",
    options=OrdersOptions,
    run=run,
    spark_conf={"spark.sql.shuffle.partitions": "2"},
)
