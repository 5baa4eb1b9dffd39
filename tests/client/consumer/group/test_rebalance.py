"""Members of a group share the queues, while they come and go, and lose nothing."""

from collections import Counter
from pathlib import Path

from hanabi.client.consumer.group.rebalance import retry_delay
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, MessageQueue
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox, committed, numbered, send


def _queues(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.queues if queue.topic == "T"]


def _bodies(inboxes: list[Inbox]) -> Counter[bytes]:
    return Counter(body for inbox in inboxes for body in inbox.bodies)


async def test_two_members_share_the_queues_at_once_and_the_one_left_has_them_all(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=8)
        async with Inbox(cluster, "g") as first:
            await eventually(lambda: len(_queues(first.consumer)) == 8)
            async with Inbox(cluster, "g") as second:
                await eventually(lambda: len(_queues(first.consumer)) == len(_queues(second.consumer)) == 4)
                assert not set(_queues(first.consumer)) & set(_queues(second.consumer))
            await eventually(lambda: len(_queues(first.consumer)) == 8)


async def test_every_message_is_consumed_while_members_come_and_go(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster:
        await cluster.create_topic("T", queues=4)
        inboxes: list[Inbox] = []
        sent = 0
        async with Producer("senders", config=cluster.config()) as producer:

            async def send_some(count: int) -> None:
                nonlocal sent
                for body in numbered(count, sent):
                    await producer.send(Message("T", body))
                sent += count

            async def member() -> Inbox:
                inbox = Inbox(cluster, "g", consume_batch=4)
                inboxes.append(inbox)
                await inbox.consumer.start()
                return inbox

            first = await member()
            await send_some(100)
            second = await member()
            await send_some(100)
            third = await member()
            await send_some(100)
            await first.consumer.shutdown()
            await send_some(100)
            await second.consumer.shutdown()
            await send_some(100)
            await eventually(lambda: len(_bodies(inboxes)) == 500)
            await third.consumer.shutdown()
        assert sorted(_bodies(inboxes)) == numbered(500)
        again = sum(count - 1 for count in _bodies(inboxes).values())
        assert again <= 64  # what was pulled but not told when a queue changed hands
        offsets = [broker.tables.offsets.of("g", "T") for broker in cluster.brokers]
        assert sum(sum(dict(table).values()) for table in offsets) == 500


async def test_a_topic_that_is_made_later_is_consumed_soon_after(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Inbox(cluster, "g") as inbox:
        await cluster.create_topic("T")
        await send(cluster, numbered(5))
        await eventually(lambda: len(inbox.messages) == 5)


async def test_a_topic_that_gets_more_queues_has_them_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        consumer = PushConsumer("g", config=cluster.config(route_refresh_s=0.1), consume_from="first")
        consumer.subscribe("T")
        consumer.listener(lambda messages: None)
        async with consumer:
            await eventually(lambda: len(_queues(consumer)) == 2)
            await cluster.create_topic("T", queues=5)
            await eventually(lambda: len(_queues(consumer)) == 5)


async def test_a_dropped_queue_has_its_offset_saved_before_it_is_forgotten(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        await send(cluster, numbered(10))
        async with Inbox(cluster, "g") as first:
            await eventually(lambda: len(first.messages) == 10)
            async with Inbox(cluster, "g") as second:
                await eventually(lambda: len(_queues(second.consumer)) == 1)
                assert second.messages == []
                (queue,) = _queues(second.consumer)
                assert committed(cluster, "g")[queue.queue_id] == 5


def test_what_is_missing_is_asked_for_again_less_and_less_often() -> None:
    assert [retry_delay(failures, 20.0) for failures in (1, 2, 3, 8, 100)] == [0.2, 0.4, 0.8, 20.0, 20.0]
    assert retry_delay(100, 1.0) == 1.0
