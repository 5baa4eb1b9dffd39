"""Verification of a step before it counts: reads back the written messages and checks that each is there once."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from hanabi.errors import MQError
from hanabi.message import MessageQueue
from hanabi.spark.pipelines.archive.state import ArchivedQueue
from hanabi.spark.shared.offsets import describe


@dataclass(frozen=True)
class Written:
    """Written messages of one queue. *offsets_sum* detects a duplicate and a missing message together.

    *log_offset* and *stored_ms* are those of the last message.
    """

    messages: int
    first: int
    last: int
    offsets_sum: int
    log_offset: int
    stored_ms: int


def look_at(messages: DataFrame) -> dict[MessageQueue, Written]:
    """Return a summary of *messages* by queue. Reads a few narrow columns only."""
    found = (
        messages.groupBy("topic", "brokerName", "queueId")
        .agg(
            f.count("*").alias("messages"),
            f.min("queueOffset").alias("first"),
            f.max("queueOffset").alias("last"),
            f.sum(f.col("queueOffset").cast("decimal(38,0)")).alias("offsets_sum"),
            f.max_by("commitLogOffset", "queueOffset").alias("log_offset"),
            f.max_by(f.unix_millis("storeTimestamp"), "queueOffset").alias("stored_ms"),
        )
        .collect()
    )
    return {
        MessageQueue(row.topic, row.brokerName or "", row.queueId): Written(
            row.messages, row["first"], row["last"], int(row.offsets_sum), row.log_offset, row.stored_ms or 0
        )
        for row in found
    }


def check(
    start: Mapping[MessageQueue, int],
    stop: Mapping[MessageQueue, int],
    written: Mapping[MessageQueue, Written],
    *,
    fail_on_data_loss: bool,
) -> tuple[list[ArchivedQueue], int]:
    """Return the archived queues after the step that had to write [start, stop) of each queue, and the lost messages.

    Raises MQError unless every message of the step was written once; with *fail_on_data_loss* off, some may be missing.
    """
    for queue in written.keys() - stop.keys():
        raise MQError(f"{describe(queue)} was written, but not asked for")
    archived: list[ArchivedQueue] = []
    lost = 0
    for queue, end in stop.items():
        found, wanted = written.get(queue), end - start[queue]
        missing = wanted - (found.messages if found else 0)
        is_whole = found is not None and (found.messages, found.first, found.last, found.offsets_sum) == (
            wanted,
            start[queue],
            end - 1,
            (start[queue] + end - 1) * wanted // 2,
        )
        if not is_whole and (fail_on_data_loss or missing <= 0):
            raise MQError(
                f"{describe(queue)}: of the messages {start[queue]} to {end - 1}, {found.messages if found else 0} were"
                f" written and {wanted} wanted; nothing of this step counts"
            )
        lost += missing
        archived.append(
            ArchivedQueue(
                topic=queue.topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                first=start[queue],
                end=end,
                log_offset=found.log_offset if found else -1,
                stored_ms=found.stored_ms if found else 0,
                last=found.last if found else -1,
            )
        )
    return archived, lost
