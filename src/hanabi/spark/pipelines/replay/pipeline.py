"""Pipeline `replay`: sends messages of an archive, a store or topics to a topic again.

Messages keep their bodies, keys, tags and properties; properties that brokers and clients wrote are dropped, and they
get new ids and times. Tasks send in parallel, at most `rate` messages per second in total.
"""

import time
from typing import Annotated

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from hanabi.client.validation import check_topic
from hanabi.errors import ConfigError, InvalidMessage
from hanabi.spark.pipelines.contract import Count, Outcome, Pipeline, Progress, Rate, Table
from hanabi.spark.pipelines.origin import Origin
from hanabi.spark.pipelines.replay.choice import TARGET, Choice, choose
from hanabi.spark.pipelines.replay.send import Plan, send_all
from hanabi.spark.pipelines.replay.source import read_messages
from hanabi.spark.pipelines.support.text import body_text
from hanabi.spark.sink.check import check_destination
from hanabi.spark.sink.options import SinkOptions, parse_sink_options
from hanabi.wire.message import property_names as names

SHOWN_IN_DRY_RUN = 20


class ReplayOptions(Origin, frozen=True, kw_only=True):
    """Options of `replay`. Source and target are one cluster, unless `from-namesrv` names another."""

    archive: Annotated[str | None, msgspec.Meta(description="read this archive, not a cluster")] = None
    from_namesrv: Annotated[
        str | None, msgspec.Meta(description="name servers of the cluster to read from, if it is another one")
    ] = None
    to: Annotated[str | None, msgspec.Meta(description="the topic to send to")] = None
    to_origin: Annotated[
        bool, msgspec.Meta(description="or send each message to its original topic; dead letters, too")
    ] = False
    keys: Annotated[list[str] | None, msgspec.Meta(description="only messages with one of these keys")] = None
    tags: Annotated[list[str] | None, msgspec.Meta(description="only messages with one of these tags")] = None
    where: Annotated[
        str | None,
        msgspec.Meta(
            description="only where this SQL holds, over the columns of docs/spark.md: \"properties['k'] = 'v'\""
        ),
    ] = None
    limit: Annotated[Count | None, msgspec.Meta(description="maximum number of messages")] = None
    rate: Annotated[Rate | None, msgspec.Meta(description="maximum messages per second")] = None
    keep_order: Annotated[
        bool, msgspec.Meta(description="messages of one queue go to one queue, in their order; slower")
    ] = False
    mark: Annotated[
        str | None, msgspec.Meta(description="add a property of this name with the position of the original message")
    ] = None
    producer_group: Annotated[str, msgspec.Meta(description="the group that sends")] = "hanabi-replay"
    dry_run: Annotated[bool, msgspec.Meta(description="only count and show what would be sent")] = False

    def __post_init__(self) -> None:
        Origin.__post_init__(self)
        if self.archive is not None and self.store is not None:
            raise ConfigError("options archive and store exclude each other: give one of them")
        if self.archive is not None and self.pattern is not None:
            raise ConfigError("option pattern is not for archives: name their --topics")
        if self.archive is None and self.store is None and not self.topics and self.pattern is None:
            raise ConfigError("no messages to replay: give --archive, --store, or --topics")
        if (self.to is None) == (not self.to_origin):
            raise ConfigError("give either --to TOPIC or --to-origin as the destination")
        if self.mark in names.RESERVED:
            raise ConfigError(
                f"option mark={self.mark}: the name has a meaning of its own in RocketMQ; choose another one"
            )
        if self.to is not None:
            try:
                check_topic(self.to)
            except InvalidMessage as error:
                raise ConfigError(f"option to: {error}") from error


def run(spark: SparkSession, options: ReplayOptions, progress: Progress) -> Outcome:
    started = time.monotonic()
    sink = _sink(options)
    progress.step("looking for messages")
    choice = Choice(
        keys=options.keys,
        tags=options.tags,
        where=options.where,
        limit=options.limit,
        to=options.to,
        mark=options.mark,
        keep_order=options.keep_order,
    )
    chosen = choose(read_messages(spark, options), choice)
    if options.dry_run:
        return _dry_run(chosen, started)
    total = chosen.count() if options.archive is not None else None  # other sources would be read twice
    sent = send_all(spark, chosen, Plan(sink, options.rate, options.keep_order, total), progress)
    return Outcome(
        tables=[Table("Sent", ["topic", "messages", "bytes"], [[*each] for each in sent.by_topic()])],
        facts={
            "messages_sent": sent.messages,
            "bytes_sent": sent.bytes,
            "passed_over": sent.passed_over,
            "seconds": round(time.monotonic() - started, 1),
        },
        complaint=_passed_over(sent.passed_over),
    )


def _sink(options: ReplayOptions) -> SinkOptions:
    """Return the options of the sink, after a check that the destination is writable. Nothing has been read yet."""
    given = options.spark_options() | {"producerGroup": options.producer_group}
    sink = parse_sink_options(given if options.to is None else given | {"topic": options.to})
    check_destination(sink)
    return sink


def _dry_run(chosen: DataFrame, started: float) -> Outcome:
    by_topic = (
        chosen.groupBy(TARGET)
        .agg(f.count("*").alias("messages"), f.sum(f.length("body")).alias("bytes"))
        .orderBy(TARGET)
        .collect()
    )
    shown = chosen.select(TARGET, "tags", f.concat_ws(" ", "keys"), "body").limit(SHOWN_IN_DRY_RUN).collect()
    sendable = [row for row in by_topic if row[0] is not None]
    passed_over = sum(row.messages for row in by_topic if row[0] is None)
    return Outcome(
        tables=[
            Table("Would be sent", ["topic", "messages", "bytes"], [[*row] for row in sendable]),
            Table(
                "The first of them",
                ["topic", "tags", "keys", "body"],
                [[row[0], row[1], row[2], body_text(row[3])] for row in shown],
            ),
        ],
        facts={
            "messages_to_send": sum(row.messages for row in sendable),
            "bytes_to_send": sum(row.bytes or 0 for row in sendable),
            "passed_over": passed_over,
            "seconds": round(time.monotonic() - started, 1),
        },
        complaint=_passed_over(passed_over),
    )


def _passed_over(count: int) -> str | None:
    """Return the complaint about skipped messages, which sets the exit code, as with `hanabi dlq resend`."""
    return f"{count} messages were passed over: they do not say where they came from, or are empty" if count else None


PIPELINE = Pipeline(
    name="replay",
    summary="Send messages of an archive, a store or a topic to a topic again, some of them or all.",
    options=ReplayOptions,
    run=run,
    spark_conf={"spark.sql.files.maxPartitionBytes": "16m"},  # small tasks: progress is reported at the end of each
)
