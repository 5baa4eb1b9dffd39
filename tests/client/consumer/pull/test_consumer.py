"""The pull consumer against a broker of ours on a real socket."""

import asyncio
from pathlib import Path

import pytest

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.client.consumer.pull_request import PullStatus
from hanabi.client.consumer.subscription import sql
from hanabi.client.hooks import ConsumeContext
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConfigError, MQError
from hanabi.message import Message, MessageQueue
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import within

QUEUE = MessageQueue("Orders", "broker-a", 0)


async def send(cluster: Cluster, count: int, **fields: object) -> None:
    async with Producer("writers", config=cluster.config()) as producer:
        for number in range(count):
            await producer.send(Message("Orders", b"%d" % number, **fields), queue=QUEUE)  # type: ignore[arg-type]


async def test_it_pulls_what_it_asks_for_and_keeps_count_itself(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        await send(cluster, 10)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            assert await consumer.queues_of("Orders") == [QUEUE]
            assert await consumer.committed(QUEUE) in (None, 0)
            result = await consumer.pull(QUEUE, 2, count=3)
            assert result.status is PullStatus.FOUND
            assert [message.body for message in result.messages] == [b"2", b"3", b"4"]
            assert (result.next_offset, result.min_offset, result.max_offset) == (5, 0, 10)
            await consumer.commit({QUEUE: result.next_offset})
            assert await consumer.committed(QUEUE) == 5
            assert (await consumer.begin_offset(QUEUE), await consumer.end_offset(QUEUE)) == (0, 10)
            assert await consumer.earliest_store_time_ms(QUEUE) > 0
            moment = result.messages[0].store_timestamp_ms
            assert await consumer.offset_for_time(QUEUE, moment / 1_000) <= 2


async def test_the_end_of_a_queue_and_offsets_beyond_it_are_told_apart(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        await send(cluster, 2)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            assert (await consumer.pull(QUEUE, 2)).status is PullStatus.NO_NEW_MESSAGE
            beyond = await consumer.pull(QUEUE, 77)
            assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 2)
            with pytest.raises(ConfigError, match="must not be negative"):
                await consumer.pull(QUEUE, -1)


async def test_a_pull_that_may_wait_gets_the_message_when_it_comes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            waiting = asyncio.create_task(consumer.pull(QUEUE, 0, hold_s=20))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await send(cluster, 1)
            assert [message.body for message in (await within(waiting)).messages] == [b"0"]


async def test_filters_are_those_of_each_pull(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        await send(cluster, 2, tags="paid", properties={"amount": "5"})
        await send(cluster, 2, tags="created", properties={"amount": "50"})
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            paid = await consumer.pull(QUEUE, 0, "paid")
            assert {message.tags for message in paid.messages} == {"paid"}
            dear = await consumer.pull(QUEUE, 0, sql("amount > 10"))
            assert [message.properties["amount"] for message in dear.messages] == ["50", "50"]
            nothing = await consumer.pull(QUEUE, 0, "refunded")
            assert (nothing.messages, nothing.next_offset) == ([], 4)


async def test_a_message_that_was_sent_back_comes_again_from_the_retry_topic(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        await send(cluster, 1)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            (message,) = (await consumer.pull(QUEUE, 0)).messages
            await consumer.send_back(message, delay_level=1)
            retry = MessageQueue("%RETRY%readers", "broker-a", 0)
            again = await within(consumer.pull(retry, 0, hold_s=15))
            (copy,) = again.messages
            assert (copy.body, copy.message_id, copy.reconsume_times) == (message.body, message.message_id, 1)


async def test_hooks_see_what_was_pulled(tmp_path: Path) -> None:
    seen: list[tuple[str, str, int]] = []

    class Hook:
        def before_consume(self, context: ConsumeContext) -> None:
            seen.append(("before", context.group, len(context.messages)))

        def after_consume(self, context: ConsumeContext) -> None:
            seen.append(("after", context.queue.topic, len(context.messages)))
            raise RuntimeError("a hook that fails is no reason to fail")

    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        await send(cluster, 2)
        async with PullConsumer("readers", config=cluster.config(), hooks=[Hook()]) as consumer:
            assert len((await consumer.pull(QUEUE, 0)).messages) == 2

    assert seen == [("before", "readers", 2), ("after", "Orders", 2)]


async def test_brokers_know_it_while_it_is_there(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with PullConsumer("readers", config=cluster.config(heartbeat_s=0.1)) as consumer:
            await consumer.pull(QUEUE, 0)
            address = (await consumer._started().core.routes.find("Orders")).master_of("broker-a")
            assert address is not None
            api = consumer._started().core.api
            assert await api.consumer_ids(address, "readers") == [consumer.client_id]


async def test_a_queue_of_a_broker_that_nobody_knows_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            with pytest.raises(MQError, match=r"know no broker broker-x that serves it, only broker-a"):
                await consumer.pull(MessageQueue("Orders", "broker-x", 0), 0)
        with pytest.raises(MQError, match="is not running"):
            await consumer.pull(QUEUE, 0)
