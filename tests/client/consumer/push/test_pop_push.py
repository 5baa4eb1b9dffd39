"""Push consumers that let the broker assign queues, and pop where the group's request mode says so."""

import asyncio
from pathlib import Path

import pytest

from hanabi.client.consumer.group.allocate import ConsistentHash
from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.push.pop_loop import AGAIN_S, again_ms
from hanabi.errors import ConfigError
from hanabi.message import StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.pop import MessageRequestMode
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import encode_body
from tests.broker.talk import connected
from tests.client.consumer.pushing import Inbox, numbered, send


async def set_mode(cluster: Cluster, mode: str) -> None:
    body = encode_body(MessageRequestMode(consumer_group="g", topic="T", mode=mode))
    async with connected(cluster.address) as peer:
        assert (await peer.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, None, body)).code == 0


async def create(cluster: Cluster, queues: int = 4) -> None:
    await cluster.create_topic("T", queues=queues)
    cluster.broker.tables.groups.find("g")  # which creates it


def in_flight(cluster: Cluster) -> int:
    return cluster.broker.services.pop.flights.count


def ids_of(consumer: PushConsumer) -> set[int]:
    return {queue.queue_id for queue in consumer.queues if queue.topic == "T"}


async def test_more_members_than_queues_all_pop_and_each_message_is_consumed_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create(cluster, queues=1)
        await set_mode(cluster, "POP")
        async with (
            Inbox(cluster, "g", rebalance="broker", instance="one", pull_batch=1, concurrency=1) as first,
            Inbox(cluster, "g", rebalance="broker", instance="two", pull_batch=1, concurrency=1) as second,
        ):
            await eventually(lambda: ids_of(first.consumer) == ids_of(second.consumer) == {-1})
            await send(cluster, numbered(60))
            await eventually(lambda: len(first.messages) + len(second.messages) == 60)
            await eventually(lambda: in_flight(cluster) == 0, "all are acknowledged")
            assert sorted(first.bodies + second.bodies) == numbered(60)
            assert first.messages
            assert second.messages


async def test_a_group_is_switched_to_pop_and_back_without_loss(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create(cluster)
        async with Inbox(cluster, "g", rebalance="broker", rebalance_s=3_600.0) as inbox:
            await eventually(lambda: ids_of(inbox.consumer) == {0, 1, 2, 3})
            await send(cluster, numbered(20))
            await eventually(lambda: len(set(inbox.bodies)) == 20)
            await set_mode(cluster, "POP")
            await eventually(lambda: ids_of(inbox.consumer) == {-1})
            await send(cluster, numbered(20, 20))
            await eventually(lambda: len(set(inbox.bodies)) == 40)
            await set_mode(cluster, "PULL")
            await eventually(lambda: ids_of(inbox.consumer) == {0, 1, 2, 3})
            await send(cluster, numbered(20, 40))
            await eventually(lambda: len(set(inbox.bodies)) == 60)
        assert set(inbox.bodies) == set(numbered(60))


async def test_a_message_that_fails_comes_again_and_then_is_a_dead_letter(tmp_path: Path) -> None:
    tries: list[int] = []
    async with running_cluster(tmp_path) as cluster:
        await create(cluster, queues=1)
        await set_mode(cluster, "POP")
        consumer = PushConsumer(
            "g", config=cluster.config(), consume_from="first", rebalance="broker", max_reconsume_times=1
        )
        consumer.subscribe("T")

        @consumer.listener
        async def fail(messages: list[StoredMessage]) -> None:
            tries.append(messages[0].reconsume_times)
            assert messages[0].topic == "T"
            raise ConsumeLater(delay_level=1)

        async with consumer:
            await send(cluster, [b"bad"])
            reader = cluster.broker.store.reader
            await eventually(lambda: reader.max_offset("%DLQ%g", 0) == 1, "it is a dead letter")
            await eventually(lambda: in_flight(cluster) == 0, "it is acknowledged")
        assert tries == [0, 1]


async def test_what_a_stopped_consumer_did_not_finish_comes_to_another_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create(cluster, queues=1)
        await set_mode(cluster, "POP")
        begun = asyncio.Event()
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", rebalance="broker", concurrency=1)
        consumer.subscribe("T")

        @consumer.listener
        async def hang(_messages: list[StoredMessage]) -> None:
            begun.set()
            await asyncio.sleep(3_600)

        await consumer.start()
        await send(cluster, numbered(10))
        await begun.wait()
        await eventually(lambda: in_flight(cluster) == 10)
        await consumer.shutdown(0)
        async with Inbox(cluster, "g", rebalance="broker") as inbox:
            await eventually(lambda: len(inbox.messages) == 10, "they come within 60 s of invisible time")
        assert sorted(inbox.bodies) == numbered(10)


async def test_ordered_listeners_do_not_pop(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create(cluster)
        await set_mode(cluster, "POP")
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", rebalance="broker")
        consumer.subscribe("T")
        got: list[bytes] = []

        @consumer.listener(ordered=True)
        async def listen(messages: list[StoredMessage]) -> None:
            got.extend(message.body for message in messages)

        async with consumer:
            await send(cluster, numbered(8))
            await eventually(lambda: len(got) == 8)
            assert ids_of(consumer) == {0, 1, 2, 3}


def test_the_pause_before_the_next_try_is_that_of_java_or_of_the_level() -> None:
    assert [again_ms(tries, 0) for tries in (0, 1, 15, 99)] == [10_000, 30_000, 7_200_000, 7_200_000]
    assert len(AGAIN_S) == 16
    assert [again_ms(5, level) for level in (1, 3, 18, 99)] == [1_000, 10_000, 7_200_000, 7_200_000]


async def test_what_brokers_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='"client" or "broker"'):
        PushConsumer("g", rebalance="java")
    async with running_cluster(tmp_path) as cluster:
        await create(cluster)
        consumer = PushConsumer("g", config=cluster.config(), rebalance="broker", allocate=ConsistentHash())
        consumer.subscribe("T")
        consumer.listener(print)
        with pytest.raises(ConfigError, match="averagely and by_circle"):
            await consumer.start()
