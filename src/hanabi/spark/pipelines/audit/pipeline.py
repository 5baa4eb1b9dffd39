"""Pipeline `audit`: comparison of a store's commit log, consume queues and key index, distributed over all machines.

Tasks read parts of the files and return rows (`rows`); joins compare them (`joins`). It finds the same differences as
`hanabi store verify`, in any amount of data, and lists every one. The store is not written.
"""

from typing import Annotated, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.spark.pipelines.audit import joins
from hanabi.spark.pipelines.audit.layout import Layout
from hanabi.spark.pipelines.audit.source import DELAY_LEVELS, NAME, AuditSource
from hanabi.spark.pipelines.contract import Cell, Outcome, Pipeline, Progress, Table
from hanabi.spark.pipelines.support.results import table_of, write_parquet
from hanabi.spark.pipelines.support.task_progress import task_progress
from hanabi.spark.store.options import parse_store_options
from hanabi.store.inspection.config_files import known_topics
from hanabi.store.inspection.state_files import read_checkpoint
from hanabi.store.upkeep.lock import has_crashed
from hanabi.wire.delay_levels import parse_delay_levels

_NEVER_MS: Final = 2**63 - 1


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `audit`. The store's directory must be the same on all machines."""

    store: Annotated[str, msgspec.Meta(description="the directory of a broker's store, or a copy of it")]
    commit_log: Annotated[
        str | None, msgspec.Meta(description="storePathCommitLog, if it is outside the directory")
    ] = None
    delay_levels: Annotated[
        str | None, msgspec.Meta(description="messageDelayLevel of the broker: also check when messages are due")
    ] = None
    index_keys: Annotated[
        bool, msgspec.Meta(description="also look for keys that the index lacks; brokers lose some in a crash")
    ] = True
    output: Annotated[str | None, msgspec.Meta(description="write all differences as Parquet to OUTPUT")] = None
    overwrite: Annotated[bool, msgspec.Meta(description="replace existing output")] = False
    partition_mb: Annotated[int, msgspec.Meta(description="megabytes of the log that one task reads", ge=1)] = 256
    rows: Annotated[int, msgspec.Meta(description="differences that are shown", ge=1)] = 50

    def __post_init__(self) -> None:
        if self.delay_levels is not None:
            parse_delay_levels(self.delay_levels)


def run(spark: SparkSession, options: AuditOptions, progress: Progress) -> Outcome:
    return _Audit(spark, options, progress).run()


class _Audit:
    """One audit of one store."""

    def __init__(self, spark: SparkSession, options: AuditOptions, progress: Progress) -> None:
        self._spark, self._options, self._progress = spark, options, progress
        self._given = {"path": options.store, "maxBytesPerPartition": str(options.partition_mb << 20)}
        self._given["minPartitions"] = str(spark.sparkContext.defaultParallelism)
        if options.commit_log is not None:
            self._given["commitLog"] = options.commit_log
        self._home = parse_store_options(self._given).home  # raises now if it is not a store

    def run(self) -> Outcome:
        self._progress.step("reading the store")
        self._spark.dataSource.register(AuditSource)
        levels = self._options.delay_levels
        given = self._given if levels is None else self._given | {DELAY_LEVELS: levels}
        found = self._spark.read.format(NAME).options(**given).load().persist()
        try:
            with task_progress(self._spark, self._progress):
                layout = Layout.read(found)
            # A running broker may have deleted its oldest files meanwhile. These are no differences.
            files = self._home.log_files()
            log_min = files[0].base if files else 0
            self._progress.step("comparing")
            with task_progress(self._spark, self._progress):
                return self._compare(found, layout, log_min)
        finally:
            found.unpersist()

    def _compare(self, found: DataFrame, layout: Layout, log_min: int) -> Outcome:
        at = f.col("log_offset")
        counts = {
            row["kind"]: (row["count"], row["expired"])
            for row in found.groupBy("kind")
            .agg(f.count("*").alias("count"), f.count_if(at.between(0, log_min - 1)).alias("expired"))
            .collect()
        }
        places = joins.odd_places(found, log_min).persist()
        keys = joins.odd_keys(found, log_min, layout.covered if self._options.index_keys else (0, -1)).persist()
        try:
            topics = joins.table_of_topics(self._spark, known_topics(self._home))
            without_entry = joins.records_without_entry(places, layout.queues(self._spark), topics, self._safe_ms())
            states = {row["state"]: row["count"] for row in without_entry.groupBy("state").count().collect()}
            there = joins.lying_there(found)
            differences = (
                joins.known_wrong(found)
                .unionByName(self._spark.createDataFrame(layout.gaps(), joins.DIFFERENCE))
                .unionByName(joins.wrong_entries(places, there))
                .unionByName(joins.missing_entries(without_entry))
                .unionByName(joins.wrong_keys(keys, there))
            )
            still_there = at.isNull() | (at < 0) | (at >= log_min)
            tables, count = self._tables(differences.where(still_there).select(*joins.COLUMNS))
        finally:
            places.unpersist()
            keys.unpersist()
        facts = _facts(counts, layout, log_min, states) | {"differences": count}
        complaint = f"{self._home.root}: {count} differences between log, queues and index" if count else None
        return Outcome(tables=tables, facts=facts, complaint=complaint)

    def _tables(self, differences: DataFrame) -> tuple[list[Table], int]:
        """Return the tables, and the number of differences."""
        differences = differences.persist()
        try:
            kinds = differences.groupBy("difference").count().collect()
            if self._options.output is not None:
                self._progress.step(f"writing {self._options.output}")
                write_parquet(differences, self._options.output, overwrite=self._options.overwrite)
            tables = [Table("how many of each kind", ["difference", "count"], sorted(list(row) for row in kinds))]
            count = sum(row["count"] for row in kinds)
            if count:
                order = ("difference", "file", "topic", "queue_id", "queue_offset", "log_offset", "reason")
                shown = differences.orderBy(*(f.col(name).asc_nulls_last() for name in order))
                tables.append(table_of("differences", shown, self._options.rows))
            return tables, count
        finally:
            differences.unpersist()

    def _safe_ms(self) -> int:
        """Return the time before which every message must have its entries. A running broker still adds later ones."""
        return read_checkpoint(self._home).checkpoint.safe_ms if has_crashed(self._home.root) else _NEVER_MS


def _facts(counts: dict[str, tuple[int, int]], layout: Layout, log_min: int, states: dict[str, int]) -> dict[str, Cell]:
    """Return the facts of the outcome.

    *counts* has for each kind of row the total, and the total below the log's start.
    """
    entries, expired = counts.get("entry", (0, 0))
    keys, expired_keys = counts.get("key", (0, 0))
    newer_entries, newer_keys = counts.get("newer", (0, 0))[0], counts.get("newer-key", (0, 0))[0]
    return {
        "log_files": layout.log_files,
        "log_min": log_min,
        "log_end": layout.log_end,
        "records": counts.get("record", (0, 0))[0],
        "queues": sum(queue.files > 0 for queue in layout.known_queues),
        "queue_entries": entries + newer_entries - expired,
        "queue_entries_expired": expired,
        "queue_entries_blank": counts.get("blank", (0, 0))[0],
        "messages_pending": states.get("pending", 0),
        "messages_of_deleted_topics": states.get("deleted", 0),
        "index_files": len(layout.indexes),
        "index_entries": keys + newer_keys - expired_keys,
        "index_entries_expired": expired_keys,
    }


PIPELINE = Pipeline(
    name="audit",
    summary="Compare a store's commit log, consume queues and index with each other.",
    options=AuditOptions,
    run=run,
)
