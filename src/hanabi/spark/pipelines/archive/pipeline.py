"""Pipeline `archive`: topics to Parquet (or Delta), by topic and hour, each message exactly once.

Steps of at most `batch-messages` are written and committed one after another. `home` explains why a killed process
neither loses nor duplicates a message.
"""

import time
from typing import Annotated, Literal

import msgspec
from pyspark.sql import SparkSession

from hanabi.errors import ConfigError
from hanabi.message import MessageQueue
from hanabi.spark.pipelines.archive.compaction import join_small_files
from hanabi.spark.pipelines.archive.delta import check_delta
from hanabi.spark.pipelines.archive.home import ArchiveHome, writing_archive
from hanabi.spark.pipelines.archive.plan import Backlog, backlog
from hanabi.spark.pipelines.archive.report import report
from hanabi.spark.pipelines.archive.source import ArchiveSource, ClusterSource, Extent, StoreSource
from hanabi.spark.pipelines.archive.step import StepWriter
from hanabi.spark.pipelines.connection import Connection
from hanabi.spark.pipelines.contract import Outcome, Pipeline, Progress
from hanabi.spark.pipelines.support.file_system import FileSystem
from hanabi.spark.shared.option_values import OptionValues
from hanabi.spark.shared.queue_marks import broken_off


class ArchiveOptions(Connection, frozen=True, kw_only=True):
    """Options of `archive`: the selection, the source and the destination."""

    to: Annotated[
        str, msgspec.Meta(description="the archive: a directory or URL that all of Spark's machines can reach")
    ]
    topics: Annotated[list[str] | None, msgspec.Meta(description="topics to archive")] = None
    pattern: Annotated[
        str | None, msgspec.Meta(description="or a regular expression of their names; not brokers' own topics")
    ] = None
    store: Annotated[
        str | None,
        msgspec.Meta(description="read this broker's files, not a cluster; all topics unless some are named"),
    ] = None
    broker_name: Annotated[
        str | None, msgspec.Meta(description="the broker of these files, which do not contain its name")
    ] = None
    format: Annotated[
        Literal["parquet", "delta"], msgspec.Meta(description="format of the archive; delta needs its package")
    ] = "parquet"
    starting: Annotated[
        str,
        msgspec.Meta(description="where to begin with a queue that is not archived yet: earliest, latest, or a time"),
    ] = "earliest"
    batch_messages: Annotated[int, msgspec.Meta(ge=1, description="messages per step")] = 1_000_000
    compression: Annotated[
        Literal["zstd", "snappy", "gzip", "none"], msgspec.Meta(description="compression of the files")
    ] = "zstd"
    compact: Annotated[bool, msgspec.Meta(description="join small files")] = True
    compact_mb: Annotated[int, msgspec.Meta(ge=1, description="target size of a file, in MiB")] = 128
    fail_on_data_loss: Annotated[
        bool, msgspec.Meta(description="fail if messages were deleted before they were archived")
    ] = True
    on_damage: Annotated[
        Literal["fail", "skip"],
        msgspec.Meta(description="for an unreadable body: fail; or skip it, and count it as lost"),
    ] = "fail"
    group: Annotated[
        str | None, msgspec.Meta(description="commit the progress to brokers as the offsets of this consumer group")
    ] = None
    follow: Annotated[bool, msgspec.Meta(description="keep archiving new messages until interrupted")] = False
    interval_s: Annotated[
        float, msgspec.Meta(ge=1, description="with follow: seconds between steps when there is no backlog")
    ] = 60.0

    def __post_init__(self) -> None:
        if self.topics and self.pattern is not None:
            raise ConfigError("options topics and pattern exclude each other: give one of them")
        if self.store is None and not self.topics and self.pattern is None:
            raise ConfigError("no topics to archive: give --topics or --pattern")
        if self.store is not None and self.group is not None:
            raise ConfigError("option group: offsets cannot be committed to the files of a broker; leave it out")
        if self.store is None and self.broker_name is not None:
            raise ConfigError("option broker-name is for --store: a cluster names its brokers itself")
        if self.on_damage == "skip" and self.fail_on_data_loss:
            raise ConfigError("option on-damage=skip leaves messages out: give --no-fail-on-data-loss, too")
        _ = self.starting_ms

    @property
    def starting_ms(self) -> int | None:
        if self.starting in ("earliest", "latest"):
            return None
        return OptionValues({"starting": self.starting}, ("starting",), "archive").time_ms("starting")

    def chosen_topics(self) -> dict[str, str]:
        if self.topics:
            return {"subscribe": ",".join(self.topics)}
        return {} if self.pattern is None else {"subscribePattern": self.pattern}


def run(spark: SparkSession, options: ArchiveOptions, progress: Progress) -> Outcome:
    started = time.monotonic()
    source = _source(spark, options)
    progress.step("reading the offsets of queues")
    with writing_archive(FileSystem(spark, options.to)) as home:
        _check(spark, home, options)
        before = home.state.messages
        writer = StepWriter(
            spark, home, source, options.format, options.compression, options.fail_on_data_loss, progress
        )
        writer.finish_planned()
        while True:
            _drain(writer, _backlog(home, source, source.extent(), options), options)
            if options.compact:
                join_small_files(spark, home, progress, options.compact_mb << 20, options.compression)
            if not options.follow:
                break
            progress.step(f"waiting for messages, every {options.interval_s:g} seconds")
            time.sleep(options.interval_s)
        seconds = time.monotonic() - started
        return report(home, source.extent(), home.state.messages - before, seconds)


def _source(spark: SparkSession, options: ArchiveOptions) -> ArchiveSource:
    if options.store is not None:
        topics, name = options.chosen_topics(), options.broker_name or ""
        return StoreSource(spark, options.store, name, topics, options.on_damage)
    return ClusterSource(spark, options.spark_options() | {"onDamage": options.on_damage}, options.chosen_topics())


def _check(spark: SparkSession, home: ArchiveHome, options: ArchiveOptions) -> None:
    """Raise ConfigError if the format or the broker's name differs from the archive's."""
    if not home.is_new and home.state.format != options.format:
        raise ConfigError(f"{options.to} is an archive in {home.state.format}: say --format {home.state.format}")
    if options.format == "delta":
        check_delta(spark)
    if home.is_new:
        return
    brokers = {each.broker for each in home.state.queues}
    if options.store is not None and (options.broker_name or "") not in brokers:
        known = ", ".join(sorted(filter(None, brokers)))
        hint = f"of {known}: say --broker-name, if this is one of them" if known else "without a name: leave it out"
        raise ConfigError(f"{options.to} has messages {hint}; another broker needs another archive")
    if options.store is None and "" in brokers:
        raise ConfigError(f"{options.to} was made from files of a broker without --broker-name: archive elsewhere")


def _backlog(home: ArchiveHome, source: ArchiveSource, extent: Extent, options: ArchiveOptions) -> Backlog:
    starting: dict[MessageQueue, int] = {}
    if options.starting == "latest" and home.is_new:
        starting = extent.end  # queues created later begin with their first message
    elif options.starting_ms is not None:
        starting = source.at_time(extent, options.starting_ms)
    began_again = broken_off(home.state.positions(), extent.end, source)
    fail = options.fail_on_data_loss
    return backlog(home.state.ends(), extent.first, extent.end, starting, began_again, fail_on_data_loss=fail)


def _drain(writer: StepWriter, left: Backlog, options: ArchiveOptions) -> None:
    """Archive the backlog *left*, step by step."""
    progress, home = writer.progress, writer.home
    total, done = left.messages, 0
    while left.messages or home.is_new or left.lost:
        progress.step(f"archiving to {options.to}")
        progress.advance(done, total)
        stop = left.next(options.batch_messages)
        writer.write(left, stop)
        done += sum(stop[queue] - left.start[queue] for queue in stop)
        left = left.after(stop)
        if options.group is not None:
            writer.source.commit_progress(options.group, home.state.ends())


PIPELINE = Pipeline(
    name="archive",
    summary="Copy topics to Parquet or Delta, each message exactly once, and say what retention may delete.",
    options=ArchiveOptions,
    run=run,
    spark_conf={
        "spark.sql.maxConcurrentOutputFileWriters": "32",  # avoids a sort by topic and hour before the write
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the type that all other programs read
    },
)
