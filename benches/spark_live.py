"""A stream beside a producer on the same cores: how many messages a second it reads while more are offered."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benches.spark_clients import finish, start

OFFERED = 90_000  # a second: more than is demanded of the stream, or it could not show more


@dataclass(frozen=True)
class Live:
    """Messages a second. `read` is what came between the end of the first trigger and that of the last one, of those
    that were over before the producer was."""

    sent: float
    read: float
    waiting: int  # messages when the last one was sent
    triggers: int


def measure_live(spark: SparkSession, namesrv: str, topic: str, checkpoint: Path, seconds: int) -> Live:
    query = (
        spark.readStream.format("rocketmq")
        .options(namesrv=namesrv, subscribe=topic, startingOffsets="earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        warm = finish(start("feed", namesrv, topic, OFFERED // 6, 4)).messages
        wait_for_rows(query, warm)
        ends = [(0.0, warm)]  # of triggers: when, and how many rows were read by then
        feed = start("feed", namesrv, topic, OFFERED, seconds)
        while feed.poll() is None:
            if (rows := rows_read(query)) > ends[-1][1]:
                ends.append((time.perf_counter(), rows))
            time.sleep(0.005)
        told = finish(feed)
        wait_for_rows(query, warm + told.messages)
        assert len(ends) > 2, "fewer than two triggers were over before the producer was"
        _, (began, first), *_, (ended, last) = ends
        read = (last - first) / (ended - began)
        return Live(told.per_second, read, warm + told.messages - last, len(ends) - 1)
    finally:
        query.stop()


def wait_for_rows(query: StreamingQuery, wanted: int) -> None:
    """Until the query has read that many messages in all."""
    deadline = time.monotonic() + 300
    while rows_read(query) < wanted:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"{wanted} messages were not read in 300 s"
        time.sleep(0.02)


def rows_read(query: StreamingQuery) -> int:
    """By the triggers that are over: their offsets say it, as the topic was empty before."""
    progress = query.lastProgress
    told = None if progress is None else progress["sources"][0]["endOffset"]
    offsets = json.loads(told) if isinstance(told, str) else told
    if not isinstance(offsets, dict):
        return 0
    return sum(at for brokers in offsets.values() for queues in brokers.values() for at in queues.values())
