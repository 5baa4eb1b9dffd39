"""Sending of a replay: every task has a producer, sends its messages and returns their number."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.producer.producer import Producer
from hanabi.message import Message
from hanabi.spark.pipelines.contract import Progress
from hanabi.spark.pipelines.replay.send_rate import SendRate, chunk_of
from hanabi.spark.shared.plain_errors import plain_errors
from hanabi.spark.sink.columns import SinkRow
from hanabi.spark.sink.options import SinkOptions
from hanabi.spark.sink.send import RowSender

_REPORT_EVERY_S: Final = 0.5
_TASK_S: Final = 2.0  # target duration of a rate-limited task
_TASKS_MAX: Final = 10_000


@dataclass
class Sent:
    """Messages and bytes by topic; under None, those that were skipped."""

    messages_by_topic: Counter[str | None] = field(default_factory=Counter)
    bytes_by_topic: Counter[str | None] = field(default_factory=Counter)

    def add(self, topic: str | None, messages: int, size: int) -> None:
        self.messages_by_topic[topic] += messages
        self.bytes_by_topic[topic] += size

    def rows(self) -> list[tuple[str | None, int, int]]:
        return [(topic, count, self.bytes_by_topic[topic]) for topic, count in self.messages_by_topic.items()]

    def by_topic(self) -> list[tuple[str, int, int]]:
        return sorted((topic, count, size) for topic, count, size in self.rows() if topic is not None)

    @property
    def messages(self) -> int:
        return sum(count for topic, count in self.messages_by_topic.items() if topic is not None)

    @property
    def bytes(self) -> int:
        return sum(size for topic, size in self.bytes_by_topic.items() if topic is not None)

    @property
    def passed_over(self) -> int:
        return self.messages_by_topic[None]


@dataclass(frozen=True)
class Plan:
    """Settings of a replay."""

    options: SinkOptions
    rate: float | None
    keep_order: bool
    total: int | None  # the expected number, for the progress display


def send_all(spark: SparkSession, messages: DataFrame, plan: Plan, progress: Progress) -> Sent:
    """Send *messages*. Raises the error of the first task that fails; other tasks may have sent some messages."""
    slots, total, rate = spark.sparkContext.defaultParallelism, plan.total, plan.rate
    if rate is not None:
        total = messages.count() if total is None else total
        if not plan.keep_order:
            tasks = round(total / (rate / slots * _TASK_S))
            messages = messages.repartition(max(slots, min(_TASKS_MAX, tasks)))
    count: Any = spark.sparkContext.accumulator(0)
    progress.step("sending")
    found = Sent()
    with _reporting(progress, count, total):
        task = SendTask(plan.options, None if rate is None else rate / slots, count)
        for topic, sent, size in messages.rdd.mapPartitions(task).collect():  # mapInArrow needs pandas
            found.add(topic, sent, size)
    progress.advance(found.messages, found.messages)
    return found


class SendTask:
    """Function that a task runs. Pickled to the workers."""

    def __init__(self, options: SinkOptions, rate: float | None, count: Any) -> None:
        self._options, self._rate, self._count = options, rate, count

    def __call__(self, messages: Iterable[Row]) -> Iterable[tuple[str | None, int, int]]:
        with plain_errors():
            return self._send(iter(messages)).rows()

    def _send(self, messages: Iterator[Row]) -> Sent:
        sent, pace, chunk = Sent(), SendRate(self._rate), chunk_of(self._rate)
        loop = LoopThread.acquire()
        try:
            producer = Producer(self._options.group, config=self._options.client, settings=self._options.producer)
            loop.run(producer.start())
            try:
                sender = loop.call(lambda: RowSender(producer, self._options))
                while some := list(islice(messages, chunk)):
                    rows = list(_sendable(some, sent))
                    loop.run(sender.send(rows))
                    self._count.add(len(rows))
                    pace.wait_after(len(rows))
            finally:
                loop.run(producer.shutdown())
        finally:
            loop.release()
        return sent


def _sendable(messages: Iterable[Row], sent: Sent) -> Iterator[SinkRow]:
    """Yield the sendable rows. Count all rows in *sent*, including those that cannot be sent."""
    for number, (topic, body, tags, keys, properties, ordering_key) in enumerate(messages):
        if topic is None or not body:  # brokers refuse a message without a body
            sent.add(None, 1, 0)
            continue
        sent.add(topic, 1, len(body))
        message = Message(topic, bytes(body), tags=tags, keys=keys or (), properties=properties or {})
        yield SinkRow(number, message, ordering_key)


@contextmanager
def _reporting(progress: Progress, count: Any, total: int | None) -> Iterator[None]:
    """Report the number of sent messages while tasks end one after another."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_REPORT_EVERY_S):
            progress.advance(count.value, total)

    progress.advance(0, total)
    teller = threading.Thread(target=tell, name="replay-progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
