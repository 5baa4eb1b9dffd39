"""A broker with topics to read from and to write to."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

import hanabi
from hanabi.admin import Admin
from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.message import MessageQueue
from hanabi.spark.broker_source import BrokerSource
from hanabi.spark.shared.columns import DAMAGED, MESSAGE, struct_of
from hanabi.testing.topics import plain_topic
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.sysflag import COMPRESSED
from tests.spark.decoded import Row, rows_of

WAIT_S = 60.0
TOLD_AGAIN_S = 5.0


class Served(Protocol):
    """Addresses of a name server and a broker."""

    @property
    def namesrv(self) -> str: ...

    @property
    def broker(self) -> str: ...


def make_topic(serving: Served, topic: str, queues: int = 4) -> str:
    """Make *topic*, or give it more queues; the name server knows it when this returns."""

    async def make(core: Core) -> None:
        await _make(core, serving, topic, queues)
        await _until_known(core, serving, topic, queues)

    _with_core(serving, make)
    return topic


def remake_topic(serving: Served, topic: str, queues: int = 4) -> str:
    """Delete *topic* and make it again: its queues count from 0."""

    async def delete() -> None:
        async with Admin(namesrv=serving.namesrv) as admin:
            await admin.topics.delete(topic)

    asyncio.run(delete())
    return make_topic(serving, topic, queues)


async def _make(core: Core, serving: Served, topic: str, queues: int) -> None:
    await core.api.create_topic(serving.broker, plain_topic(topic, queues), WAIT_S)


async def _until_known(core: Core, serving: Served, topic: str, queues: int) -> None:
    """Apache's 5.3 tells of topics that it makes at the same time with one version number, and then the name server
    takes no notice of the second, ever: a topic that it does not know after some seconds is changed there and back."""
    now = asyncio.get_running_loop().time
    again_at = now() + TOLD_AGAIN_S
    while True:
        with suppress(hanabi.MQError):  # not yet
            if len((await core.routes.find(topic, fresh=True)).read_queues) == queues:
                return
        if now() > again_at:
            await _make(core, serving, topic, queues + 1)
            await _make(core, serving, topic, queues)
            again_at = now() + TOLD_AGAIN_S
        await asyncio.sleep(0.05)


def _with_core(serving: Served, do: Callable[[Core], Awaitable[None]]) -> None:
    async def with_core() -> None:
        core = await Core.acquire(ClientConfig(namesrv=serving.namesrv))
        try:
            async with asyncio.timeout(WAIT_S):
                await do(core)
        finally:
            await core.release()

    loop = LoopThread.acquire()
    try:
        loop.run(with_core())
    finally:
        loop.release()


def send(serving: Served, topic: str, bodies: Sequence[str], *, tags: str | None = None, **options: Any) -> None:
    """Send *bodies*, in turn to all queues; they can be read when this returns."""
    ends: dict[MessageQueue, int] = {}
    with hanabi.Producer("tests", namesrv=serving.namesrv) as producer:
        queues = producer.queues(topic)
        for number, body in enumerate(bodies):
            message = hanabi.Message(topic, body.encode(), tags=tags, keys=[body], **options)
            sent = producer.send(message, queue=queues[number % len(queues)])
            ends[sent.queue] = sent.queue_offset + 1

    async def until_there(core: Core) -> None:
        found = await _ends(core, topic)
        while any(found.get(queue, 0) < end for queue, end in ends.items()):
            await asyncio.sleep(0.02)
            found = await _ends(core, topic)

    _with_core(serving, until_there)


def send_poison(serving: Served, topic: str, body: bytes = b"not zlib", sys_flag: int = COMPRESSED) -> None:
    """Send a message to queue 0 whose *body* is said to be compressed and is not."""
    put_raw(serving, topic, [body], 1, sys_flag)


def put_raw(serving: Served, topic: str, bodies: Sequence[bytes], queues: int, sys_flag: int = 0) -> None:
    """Bodies as they are, in turn to all queues of any topic: no producer checks them."""

    async def put(core: Core) -> None:
        for number, body in enumerate(bodies):
            header = SendMessageV2Header(
                producer_group="tests",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=number % queues,
                sys_flag=sys_flag,
                born_timestamp=int(time.time() * 1_000),
                flag=0,
            )
            await core.api.send_message(serving.broker, header, body, WAIT_S)

    _with_core(serving, put)


def wait_for_messages(serving: Served, topic: str, count: int) -> None:
    """Wait until so many can be read: Apache's brokers put a message into its queue a moment after they have told
    so."""

    async def until_there(core: Core) -> None:
        while sum((await _ends(core, topic)).values()) < count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)

    _with_core(serving, until_there)


async def _ends(core: Core, topic: str) -> dict[MessageQueue, int]:
    route = await core.routes.find(topic)
    found = {}
    for queue in route.read_queues:
        address = route.master_of(queue.broker_name)
        assert address is not None
        found[queue] = await core.api.get_max_offset(address, queue, WAIT_S)
    return found


def read(spark: SparkSession, serving: Served, schema: str | None = None, **options: Any) -> DataFrame:
    """Return what the source says."""
    reader = spark.read.format("rocketmq").option("namesrv", serving.namesrv).options(**options)
    return (reader.schema(schema) if schema else reader).load()


def tasks(serving: Served, columns: str = "", **options: Any) -> list[list[Row]]:
    """Return the rows of every task, read in this process: Spark's part takes seconds, ours does not."""
    source = BrokerSource({"namesrv": serving.namesrv} | {name.lower(): str(value) for name, value in options.items()})
    reader = source.reader(struct_of({name: (MESSAGE | DAMAGED)[name] for name in columns.split() or MESSAGE}))
    return [[row for batch in reader.read(task) for row in rows_of(batch)] for task in reader.partitions()]


def rows(serving: Served, columns: str = "", **options: Any) -> list[Row]:
    return [row for task in tasks(serving, columns, **options) for row in task]


def bodies(serving: Served, **options: Any) -> list[str]:
    """Return the bodies of all messages that are read, sorted."""
    return sorted(row["body"].decode() for row in rows(serving, "body", **options))
