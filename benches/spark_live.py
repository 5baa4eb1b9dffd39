"""A stream beside a steady producer on the same cores: whether it keeps up, and at what lag.

The load generator offers messages at a rate, in batches over connections with much room, and falls behind only if the
broker does. What is told is of a window between the ends of two triggers, after a warm-up and while the producer goes
on: what the broker took in that time, what the stream read, and how many messages waited at both ends of it.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import hanabi
from benches.broker_servers import RunningBroker
from benches.rounds import Load
from benches.spark_data import BODY_BYTES, QUEUES
from benches.spark_ways import QUICK_CHECKPOINTS

OFFERED = (66_000, 90_000)  # a second: a tenth more than is demanded, and more than there is room for
A_BATCH = 64  # messages of a request of the producer
ROOM = {"connections": 8, "window": 16}  # requests under way, so that a busy machine does not slow the producer down
WARM_UP_SECONDS = 15
PATIENCE_SECONDS = 300  # for the end of a trigger


@dataclass(frozen=True)
class Live:
    """Messages a second in the window; the lags are what waited when its first and its last trigger were over."""

    offered: int
    sent: float
    read: float
    lag_first: int
    lag_last: int
    triggers: int
    seconds: float

    @property
    def cells(self) -> list[str]:
        """Under HEAD."""
        counts = (self.offered, self.sent, self.read, self.lag_first, self.lag_last, self.triggers)
        return [*(f"{count:,.0f}" for count in counts), f"{self.seconds / self.triggers:.2f}"]


HEAD = ("offered/s", "sent/s", "read/s", "lag at the start", "lag at the end", "triggers", "seconds a trigger")


@dataclass(frozen=True)
class Mark:
    """The end of a trigger: when, which, how many messages were read by then, and how many the broker had."""

    at: float
    trigger: int
    read: int
    sent: int


class LiveStream:
    """A stream of a topic that was empty before, and what its broker has of it."""

    def __init__(self, query: StreamingQuery, consumer: hanabi.PullConsumer, topic: str) -> None:
        self._query, self._consumer, self._queues = query, consumer, consumer.queues_of(topic)

    def next_mark(self) -> Mark:
        """Wait for the end of a trigger with messages. Looks seldom: this runs on the cores that are measured."""
        before, deadline = self._progress(), time.monotonic() + PATIENCE_SECONDS
        while (found := self._progress())[1] <= before[1]:
            self._check(deadline)
            time.sleep(0.02)
        at = time.perf_counter()
        return Mark(at, *found, self._sent())

    def drain(self) -> None:
        """Wait until everything is read that was sent."""
        last, deadline = -1, 0.0
        while (read := self._progress()[1]) < (sent := self._sent()):
            if read > last:
                last, deadline = read, time.monotonic() + PATIENCE_SECONDS
            self._check(deadline)
            time.sleep(0.05)
        assert read == sent, f"{read} messages were read, {sent} were sent"

    def _check(self, deadline: float) -> None:
        assert self._query.isActive, self._query.exception()
        assert time.monotonic() < deadline, f"no trigger ended within {PATIENCE_SECONDS} s: {self._query.lastProgress}"

    def _sent(self) -> int:
        return sum(self._consumer.end_offset(queue) for queue in self._queues)

    def _progress(self) -> tuple[int, int]:
        """Return the last trigger that is over, and how many messages were read by then, which the offsets say."""
        progress = self._query.lastProgress
        if progress is None:
            return -1, 0
        told = progress["sources"][0]["endOffset"]
        offsets = json.loads(told) if isinstance(told, str) else told
        brokers = offsets.values() if isinstance(offsets, dict) else ()
        read = sum(at for each in brokers for queues in each.values() for at in queues.values())
        return progress["batchId"], read


def measure_live(
    spark: SparkSession, broker: RunningBroker, topic: str, checkpoint: Path, offered: int, seconds: float
) -> Live:
    """Return what becomes of *offered* messages a second, in a window of about so many *seconds*."""
    spark.conf.set(*QUICK_CHECKPOINTS)
    query = (
        spark.readStream.format("rocketmq")
        .options(namesrv=broker.namesrv, subscribe=topic, startingOffsets="earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    spark.conf.unset(QUICK_CHECKPOINTS[0])
    try:
        with hanabi.PullConsumer("live-bench", namesrv=broker.namesrv) as consumer:
            stream = LiveStream(query, consumer, topic)
            with _producer(broker, topic, offered // 6, 4) as slow:  # the first triggers take seconds
                slow.wait()
            stream.drain()
            longer_than_needed = WARM_UP_SECONDS + seconds + 2 * PATIENCE_SECONDS
            with _producer(broker, topic, offered, longer_than_needed) as producer:
                time.sleep(WARM_UP_SECONDS)
                first = stream.next_mark()
                time.sleep(seconds)
                last = stream.next_mark()
                assert producer.poll() is None, "the producer ended before the window did"
            stream.drain()
    finally:
        query.stop()
    took = last.at - first.at
    return Live(
        offered,
        (last.sent - first.sent) / took,
        (last.read - first.read) / took,
        first.sent - first.read,
        last.sent - last.read,
        last.trigger - first.trigger,
        took,
    )


@contextmanager
def _producer(broker: RunningBroker, topic: str, rate: int, seconds: float) -> "Iterator[subprocess.Popen[bytes]]":
    """Sends for so many *seconds*, but no longer than the block takes."""
    load = Load(
        "live", "send", topic=topic, queues=QUEUES, body=BODY_BYTES, batch=A_BATCH, rate=rate, seconds=seconds, **ROOM
    )
    process = subprocess.Popen(load.command(broker), stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
