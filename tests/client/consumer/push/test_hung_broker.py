"""Two brokers, one of which hangs: the topics and queues of the other one are consumed as if nothing had happened."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.subscription import sql
from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message, StoredMessage
from hanabi.testing.proxied import NAMESRV, ProxiedCluster, proxied_cluster
from hanabi.testing.waiting import eventually, within

pytestmark = pytest.mark.long

TOPICS = [f"T{number:02}" for number in range(30)]


async def fill(cluster: ProxiedCluster, topics: list[str], *, queues: int = 1) -> None:
    """Send a message of each topic to each queue of broker-a."""
    for topic in topics:
        await cluster.create_topic(topic, queues=queues)
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        for topic in topics:
            for queue in await producer.queues(topic):
                if queue.broker_name == "broker-a":
                    await producer.send(Message(topic, topic.encode()), queue=queue)


def consumer_of(cluster: ProxiedCluster, topics: list[str], got: list[str], **options: Any) -> PushConsumer:
    ordered = options.pop("ordered", False)
    consumer = PushConsumer("g", namesrv=cluster.namesrv, consume_from="first", **options)
    for topic in topics:
        consumer.subscribe(topic)

    @consumer.listener(ordered=ordered)
    async def take(messages: list[StoredMessage]) -> None:
        got.extend(message.topic for message in messages)

    return consumer


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_consumer_of_many_topics_gets_all_messages_of_the_healthy_broker(tmp_path: Path, ordered: bool) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        await fill(cluster, TOPICS)
        cluster.hang("broker-b")
        got: list[str] = []
        async with consumer_of(cluster, TOPICS, got, ordered=ordered):
            await eventually(lambda: sorted(got) == TOPICS, "all topics of the healthy broker")
        cluster.wake("broker-b")


async def test_a_lite_consumer_of_many_topics_gets_all_messages_of_the_healthy_broker(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        await fill(cluster, TOPICS)
        cluster.hang("broker-b")
        consumer = LitePullConsumer("g", namesrv=cluster.namesrv, consume_from="first")
        for topic in TOPICS:
            consumer.subscribe(topic)
        got: list[str] = []
        async with consumer, asyncio.timeout(18.0):
            while sorted(got) != TOPICS:
                got += [message.topic for message in await consumer.poll(1.0)]
        cluster.wake("broker-b")


async def test_topics_of_the_hung_broker_alone_do_not_hold_up_the_others_and_are_consumed_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        both, only_b = TOPICS[:10], [f"B{number}" for number in range(100)]
        for topic in only_b:
            await cluster.create_topic(topic, queues=1, brokers=["broker-b"])
        await fill(cluster, both)
        cluster.hang("broker-b")
        got: list[str] = []
        async with consumer_of(cluster, [*only_b, *both], got):
            await eventually(lambda: sorted(got) == both, "all topics of the healthy broker")
            cluster.wake("broker-b")
            async with Producer("senders", namesrv=cluster.namesrv) as producer:
                await producer.send_many([Message(topic, b"back") for topic in only_b], timeout=20.0)
            await eventually(lambda: sorted(got) == sorted([*both, *only_b]), "the rest", 40.0)


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_with_a_silent_name_server_a_start_asks_for_all_topics_at_once(
    tmp_path: Path, kind: Callable[..., Any]
) -> None:
    async with proxied_cluster(tmp_path, brokers=("broker-a",)) as cluster:
        cluster.hang(NAMESRV)
        consumer = kind("g", config=ClientConfig(namesrv=cluster.namesrv))
        if isinstance(consumer, PushConsumer):
            consumer.listener(lambda messages: None)
        for topic in TOPICS:
            consumer.subscribe(topic)
        await within(consumer.start())  # one after the other, it would take 90 s
        await within(consumer.shutdown())


async def test_a_producer_sends_to_the_healthy_broker_after_the_hung_one_has_not_answered_once(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=4)
        async with Producer(
            "g", namesrv=cluster.namesrv, send_timeout_s=6.0, attempt_timeout_s=1.0, latency_fault_tolerance=True
        ) as producer:
            await producer.send_many([Message("T", b"before")] * 8)
            cluster.hang("broker-b")
            failed = 0
            for _ in range(40):
                try:
                    await producer.send(Message("T", b"while it hangs"))
                except SendFailed:
                    failed += 1
            assert failed == 0


async def test_a_filter_that_no_broker_could_check_does_not_keep_a_consumer_from_starting(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path, property_filter_enabled=True) as cluster:
        await cluster.create_topic("T", queues=1)
        cluster.hang("broker-a")
        cluster.hang("broker-b")
        got: list[str] = []
        consumer = consumer_of(cluster, [], got)
        consumer.subscribe("T", sql("a > 1"))
        await within(consumer.start())
        for name in cluster.brokers:
            cluster.wake(name)
        async with Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("T", b"wanted", properties={"a": "2"}), timeout=20.0)
        await eventually(lambda: got == ["T"])
        await consumer.shutdown()
