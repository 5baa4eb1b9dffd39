"""Pipeline `trace`: summary of the traces of producers and consumers, by Apache's clients and ours, in a few tables."""

from typing import Annotated

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.spark.pipelines.contract import Outcome, Pipeline, Progress
from hanabi.spark.pipelines.origin import Origin
from hanabi.spark.pipelines.support.results import table_of, write_parquet
from hanabi.spark.pipelines.trace import tables
from hanabi.spark.pipelines.trace.lines import COLUMNS, trace_lines
from hanabi.wire.system_names import TRACE_TOPIC


class TraceOptions(Origin, frozen=True, kw_only=True):
    """Options of `trace`. Without `topics` and `pattern`: Apache's trace topic."""

    slow_ms: Annotated[
        int, msgspec.Meta(description="milliseconds per message from which a consumer is slow", ge=0)
    ] = 1000
    ended_after_s: Annotated[
        int,
        msgspec.Meta(
            description="seconds before the last trace after which a message without an end counts as unfinished", ge=0
        ),
    ] = 60
    output: Annotated[
        str | None,
        msgspec.Meta(description="write Parquet to OUTPUT/lines, /sends, /consumers, /slow and /transactions"),
    ] = None
    overwrite: Annotated[bool, msgspec.Meta(description="replace existing tables")] = False
    rows: Annotated[int, msgspec.Meta(description="rows of each table that are shown", ge=1)] = 30


def _messages(spark: SparkSession, options: TraceOptions) -> DataFrame:
    """Return the messages with traces.

    Brokers create the trace topic with its first message: before that there are none.
    """
    if options.topics or options.pattern is not None:
        return options.read(spark, COLUMNS)
    return msgspec.structs.replace(options, topics=[TRACE_TOPIC]).read_existing(spark, COLUMNS)


def run(spark: SparkSession, options: TraceOptions, progress: Progress) -> Outcome:
    progress.step("reading traces")
    lines = trace_lines(_messages(spark, options)).persist()
    try:
        (totals,) = lines.agg(
            f.count("*").alias("lines"),
            f.count_if(~f.col("is_readable")).alias("unreadable"),
            f.count_if(f.expr("is_readable and type = 'Pub'")).alias("sends"),
            f.count_if(f.expr("is_readable and type = 'Pub' and not success")).alias("sends_failed"),
            f.count_if(f.expr("is_readable and type = 'SubAfter'")).alias("consumed"),
            f.count_if(f.expr("is_readable and type = 'SubAfter' and not success")).alias("consumed_failed"),
            f.max(f.when(f.col("is_readable"), f.unix_millis("storeTimestamp"))).alias("last_ms"),
        ).collect()
        good = lines.where("is_readable")
        consumed = tables.consumption(good)
        measured = tables.consumers(consumed, f.lit((totals["last_ms"] or 0) - options.ended_after_s * 1000))
        found = {
            "sends": tables.sends(good),
            "consumers": measured,
            "slow": tables.slow_consumers(consumed, measured, options.slow_ms),
            "transactions": tables.transactions(good),
        }
        if options.output is not None:
            for name, frame in ({"lines": good} | found).items():
                path = f"{options.output}/{name}"
                progress.step(f"writing {path}")
                write_parquet(frame, path, overwrite=options.overwrite)
        progress.step("counting")
        worst = ("success_rate", f.desc("p99_ms"), "group", "client")
        slowest = found["slow"].orderBy(f.desc("p95_ms"), "group", "client")
        slow = table_of(f"slow consumers: {options.slow_ms} ms or more, or without end", slowest, options.rows)
        return Outcome(
            tables=[
                table_of("sends, the worst first", found["sends"].orderBy(*worst, "topic"), options.rows),
                table_of("consumers, the worst first", found["consumers"].orderBy(*worst), options.rows),
                slow,
                table_of("transactions", found["transactions"].orderBy("group", "topic"), options.rows),
            ],
            facts={
                "lines": totals["lines"],
                "unreadable_lines": totals["unreadable"],
                "sends": totals["sends"],
                "sends_failed": totals["sends_failed"],
                "consumed": totals["consumed"],
                "consumed_failed": totals["consumed_failed"],
                "slow_consumers": len(slow.rows) if len(slow.rows) < options.rows else found["slow"].count(),
            },
        )
    finally:
        lines.unpersist()


PIPELINE = Pipeline(
    name="trace",
    summary="Success and latency of sending and consuming from message traces; slow consumers.",
    options=TraceOptions,
    run=run,
)
