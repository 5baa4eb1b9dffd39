"""A broker with topics to read from and to write to."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import Filter

import hanabi
from hanabi.client.config import ClientConfig
from hanabi.client.core import Core
from hanabi.client.loop_thread import LoopThread
from hanabi.spark.broker_reader import FilteringBrokerReader
from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.columns import MESSAGE, struct_of
from hanabi.wire.headers.topic import CreateTopicHeader
from tests.spark.decoded import Row, rows_of


class Served(Protocol):
    """Where a name server and a broker are, whoever's."""

    @property
    def namesrv(self) -> str: ...

    @property
    def broker(self) -> str: ...


def make_topic(serving: Served, topic: str, queues: int = 4) -> str:
    """Make *topic*, or give it more queues; the name server knows it when this returns."""

    async def make(core: Core) -> None:
        header = CreateTopicHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        await core.api.create_topic(serving.broker, header)
        await _until_known(core, topic, queues)

    _with_core(serving, make)
    return topic


def wait_for_topic(serving: Served, topic: str, queues: int) -> None:
    """Until the name server knows a topic that the broker has made by itself: it tells so when it gets to it."""
    _with_core(serving, lambda core: _until_known(core, topic, queues))


async def _until_known(core: Core, topic: str, queues: int) -> None:
    while True:
        try:
            route = await core.routes.find(topic, fresh=True)
        except hanabi.MQError:
            await asyncio.sleep(0.05)
            continue
        if len(route.read_queues) == queues:
            return


def _with_core(serving: Served, do: Callable[[Core], Awaitable[None]]) -> None:
    async def with_core() -> None:
        core = await Core.acquire(ClientConfig(namesrv=serving.namesrv))
        try:
            async with asyncio.timeout(30):
                await do(core)
        finally:
            await core.release()

    loop = LoopThread.acquire()
    try:
        loop.run(with_core())
    finally:
        loop.release()


def send(serving: Served, topic: str, bodies: Sequence[str], *, tags: str | None = None, **options: Any) -> None:
    """Send *bodies*, in turn to all queues."""
    with hanabi.Producer("tests", namesrv=serving.namesrv) as producer:
        queues = producer.queues(topic)
        for number, body in enumerate(bodies):
            message = hanabi.Message(topic, body.encode(), tags=tags, keys=[body], **options)
            producer.send(message, queue=queues[number % len(queues)])


def read(spark: SparkSession, serving: Served, schema: str | None = None, **options: Any) -> DataFrame:
    """What the source says."""
    reader = spark.read.format("rocketmq").option("namesrv", serving.namesrv).options(**options)
    return (reader.schema(schema) if schema else reader).load()


def tasks(serving: Served, columns: str = "", filters: list[Filter] | None = None, **options: Any) -> list[list[Row]]:
    """The rows of every task, read in this process: Spark's part takes seconds, ours does not."""
    source = BrokerSource({"namesrv": serving.namesrv} | {name.lower(): str(value) for name, value in options.items()})
    reader = source.reader(struct_of({name: MESSAGE[name] for name in columns.split() or MESSAGE}))
    if isinstance(reader, FilteringBrokerReader):
        assert reader.pushFilters(filters or []) == filters
    return [[row for batch in reader.read(task) for row in rows_of(batch)] for task in reader.partitions()]


def rows(serving: Served, columns: str = "", filters: list[Filter] | None = None, **options: Any) -> list[Row]:
    return [row for task in tasks(serving, columns, filters, **options) for row in task]


def bodies(serving: Served, filters: list[Filter] | None = None, **options: Any) -> list[str]:
    """The bodies of all messages that are read, sorted."""
    return sorted(row["body"].decode() for row in rows(serving, "body", filters, **options))
