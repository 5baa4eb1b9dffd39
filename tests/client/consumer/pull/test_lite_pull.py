"""The lite pull consumer against a broker of ours on a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConfigError, MQError
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.cluster import Cluster, running_broker, running_cluster
from hanabi.testing.waiting import eventually, within

TOPIC = "Orders"


@contextlib.asynccontextmanager
async def in_world(home: Path, *, queues: int = 4, **settings: Any) -> AsyncIterator[Cluster]:
    """Yield a cluster with a topic, for at most a minute."""
    async with running_cluster(home, **settings) as cluster:
        await cluster.create_topic(TOPIC, queues=queues)
        async with asyncio.timeout(60):
            yield cluster


def lite(cluster: Cluster, group: str = "readers", **options: Any) -> LitePullConsumer:
    options = {"consume_from": "first", "hold_s": 1.0, **options}
    return LitePullConsumer(group, config=cluster.config(), **options)


async def send(cluster: Cluster, count: int, *, queue: MessageQueue | None = None, **fields: Any) -> list[str]:
    """Send so many messages; their bodies."""
    bodies = [f"message {number}" for number in range(count)]
    async with Producer("writers", config=cluster.config()) as producer:
        if queue is None:
            await producer.send_many([Message(TOPIC, body.encode(), **fields) for body in bodies])
        else:
            for body in bodies:
                await producer.send(Message(TOPIC, body.encode(), **fields), queue=queue)
    return bodies


def queue_of(number: int) -> MessageQueue:
    return MessageQueue(TOPIC, "broker-a", number)


def texts(messages: list[StoredMessage]) -> list[str]:
    return [message.body.decode() for message in messages]


async def poll_all(consumer: LitePullConsumer, count: int) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    while len(messages) < count:
        messages += await consumer.poll(15)
    return messages


async def test_a_subscriber_gets_every_message_of_all_queues(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        sent = await send(cluster, 100)
        consumer = lite(cluster)
        consumer.subscribe(TOPIC)
        async with consumer:
            messages = await poll_all(consumer, 100)
            assert sorted(texts(messages)) == sorted(sent)
            assert consumer.queues == [queue_of(number) for number in range(4)]
            assert {message.broker_name for message in messages} == {"broker-a"}
            assert await consumer.poll(0.05) == []


async def test_only_the_tags_subscribed_to_arrive_and_the_others_count_as_consumed(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        await send(cluster, 5, queue=queue_of(0), tags="paid")
        await send(cluster, 5, queue=queue_of(0), tags="created")
        consumer = lite(cluster)
        consumer.subscribe(TOPIC, "paid || refunded")
        async with consumer:
            messages = await poll_all(consumer, 5)
            assert {message.tags for message in messages} == {"paid"}
            await eventually(lambda: consumer.position(queue_of(0)) == 10)
            await consumer.commit()
            assert await consumer.committed(queue_of(0)) == 10


async def test_assigned_queues_are_read_and_no_others(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        sent = await send(cluster, 6, queue=queue_of(1))
        await send(cluster, 6, queue=queue_of(2))
        consumer = lite(cluster)
        consumer.assign([queue_of(1)])
        async with consumer:
            assert texts(await poll_all(consumer, 6)) == sent
            assert await consumer.poll(0.05) == []
            consumer.assign([queue_of(2)])
            assert consumer.queues == [queue_of(2)]
            assert {message.queue_id for message in await poll_all(consumer, 6)} == {2}


async def test_a_queue_that_is_assigned_again_goes_on_where_it_was(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        await send(cluster, 6, queue=queue_of(1))
        consumer = lite(cluster)
        consumer.assign([queue_of(1)])
        async with consumer:
            assert len(await consumer.poll(15, count=2)) == 2
            assert len(await consumer.poll(15, count=1)) == 1  # so the first two are consumed, and the third is not
            consumer.assign([])
            consumer.assign([queue_of(1)])  # before what was consumed could be saved
            assert [message.queue_offset for message in await poll_all(consumer, 4)] == [2, 3, 4, 5]


def test_subscribing_and_assigning_exclude_each_other(tmp_path: Path) -> None:
    consumer = LitePullConsumer("readers", namesrv="127.0.0.1:1")
    consumer.subscribe(TOPIC)
    with pytest.raises(ConfigError, match="has subscriptions"):
        consumer.assign([queue_of(0)])
    other = LitePullConsumer("readers", namesrv="127.0.0.1:1")
    other.assign([queue_of(0)])
    with pytest.raises(ConfigError, match="queues assigned"):
        other.subscribe(TOPIC)


async def test_seeking_goes_to_an_offset_the_begin_the_end_and_a_moment(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        queue = queue_of(0)
        await send(cluster, 10, queue=queue)
        consumer = lite(cluster, hold_s=20.0)
        consumer.assign([queue])
        async with consumer:
            everything = await poll_all(consumer, 10)
            await consumer.seek(queue, 7)
            assert [message.queue_offset for message in await poll_all(consumer, 3)] == [7, 8, 9]
            await consumer.seek_to_begin(queue)
            assert (await consumer.poll(15, count=1))[0].queue_offset == 0
            await consumer.seek_to_end(queue)
            assert consumer.position(queue) == 10
            assert await consumer.poll(0.1) == []
            moment = everything[4].store_timestamp_ms / 1_000
            expected = await consumer.offset_for_time(queue, moment)
            await consumer.seek_to_time(queue, moment)
            assert (await consumer.poll(15, count=1))[0].queue_offset == expected <= 4
            assert everything[expected].store_timestamp_ms == everything[4].store_timestamp_ms
            with pytest.raises(MQError, match="offsets 0 to 10, but not 11"):
                await consumer.seek(queue, 11)
            with pytest.raises(MQError, match="not a queue of this member"):
                await consumer.seek(queue_of(3), 0)
            with pytest.raises(TypeError, match="float"):
                await consumer.seek(queue, 1.5)  # type: ignore[arg-type]


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        queue = queue_of(0)
        sent = await send(cluster, 4, queue=queue)
        consumer = lite(cluster)
        consumer.assign([queue, queue_of(1)])
        async with consumer:
            consumer.pause([queue])
            assert await consumer.poll(0.2) == []
            consumer.resume([queue])
            assert texts(await poll_all(consumer, 4)) == sent
            consumer.pause([queue])
            later = await send(cluster, 2, queue=queue_of(1))
            await send(cluster, 2, queue=queue)
            assert texts(await poll_all(consumer, 2)) == later
            assert await consumer.poll(0.2) == []


async def test_what_poll_gave_is_consumed_when_poll_is_called_again_and_not_before(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        queue = queue_of(0)
        await send(cluster, 6, queue=queue)
        consumer = lite(cluster)
        consumer.assign([queue])
        async with consumer:
            assert len(await consumer.poll(15, count=2)) == 2
            assert len(await consumer.poll(15, count=3)) == 3
            await consumer.shutdown()
        second = lite(cluster)
        second.assign([queue])
        async with second:
            assert await second.committed(queue) == 2
            assert [message.queue_offset for message in await poll_all(second, 4)] == [2, 3, 4, 5]


async def test_without_automatic_commits_nothing_is_consumed_before_commit(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        queue = queue_of(0)
        await send(cluster, 4, queue=queue)
        consumer = lite(cluster, auto_commit=False)
        consumer.assign([queue])
        async with consumer:
            await poll_all(consumer, 4)
            await consumer.poll(0.05)
            assert await consumer.committed(queue) in (None, 0)
            await consumer.commit({queue: 3})
            assert await consumer.committed(queue) == 3
            await consumer.commit()
            assert await consumer.committed(queue) == 4


async def test_offsets_are_saved_by_themselves_while_it_runs(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        queue = queue_of(0)
        await send(cluster, 4, queue=queue)
        consumer = LitePullConsumer("readers", config=cluster.config(persist_offsets_s=0.05), consume_from="first")
        consumer.assign([queue])
        async with consumer:
            await poll_all(consumer, 4)
            await consumer.poll(0)
            saved = cluster.broker.tables.offsets
            await eventually(lambda: saved.find("readers", TOPIC, 0) == 4)


async def test_iterating_gives_one_message_after_the_other_and_ends_at_shutdown(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        sent = await send(cluster, 20)
        consumer = lite(cluster)
        consumer.subscribe(TOPIC)
        await consumer.start()
        seen: list[str] = []

        async def read() -> None:
            async for message in consumer:
                text = message.body.decode()
                seen.append(text)

        reading = asyncio.create_task(read())
        await eventually(lambda: len(seen) == 20)
        await consumer.shutdown()
        await within(reading)
        assert sorted(seen) == sorted(sent)


async def offset_after(
    cluster: Cluster, work: Callable[[LitePullConsumer], Awaitable[object]], **options: Any
) -> int | None:
    """Send five messages to a queue, let *work* have a consumer of it in `async with`; the offset at the broker."""
    await send(cluster, 5, queue=queue_of(0))
    consumer = lite(cluster, **options)
    consumer.assign([queue_of(0)])
    with contextlib.suppress(ZeroDivisionError):
        async with consumer:
            await work(consumer)
    return cluster.broker.tables.offsets.find("readers", TOPIC, 0)


async def offsets_after(
    home: Path, work: Callable[[LitePullConsumer], Awaitable[object]], **options: Any
) -> int | None:
    async with in_world(home) as cluster:
        return await offset_after(cluster, work, **options)


async def poll_five(consumer: LitePullConsumer) -> None:
    assert len(await poll_all(consumer, 5)) == 5


async def poll_two_and_fail(consumer: LitePullConsumer) -> None:
    for _ in range(2):
        assert len(await consumer.poll(15, count=1)) == 1
    raise ZeroDivisionError


async def leave_at_three(consumer: LitePullConsumer) -> None:
    async for message in consumer:
        if message.queue_offset == 3:
            break


async def give_back_the_last(consumer: LitePullConsumer) -> None:
    async for message in consumer:
        if message.queue_offset == 3:
            consumer.give_back([message])
            break


async def test_a_block_that_ends_well_commits_what_poll_gave(tmp_path: Path) -> None:
    assert await offsets_after(tmp_path, poll_five) == 5


async def test_a_block_that_an_exception_ends_commits_nothing_of_the_last_poll(tmp_path: Path) -> None:
    assert await offsets_after(tmp_path, poll_two_and_fail) == 1


async def test_a_loop_that_was_left_has_consumed_its_last_message_unless_it_gives_it_back(tmp_path: Path) -> None:
    assert await offsets_after(tmp_path / "left", leave_at_three) == 4
    assert await offsets_after(tmp_path / "given back", give_back_the_last) == 3


async def test_a_block_without_automatic_commits_commits_nothing_by_itself(tmp_path: Path) -> None:
    assert await offsets_after(tmp_path, poll_five, auto_commit=False) == 0


async def test_shutdown_by_itself_does_not_count_what_the_last_poll_gave(tmp_path: Path) -> None:
    async def poll_and_shut_down(consumer: LitePullConsumer) -> None:
        assert len(await consumer.poll(15, count=1)) == 1
        await consumer.shutdown()

    assert await offsets_after(tmp_path, poll_and_shut_down) == 0


async def test_members_share_the_queues_and_hear_of_it(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        told: list[tuple[str, int, int]] = []
        first, second = lite(cluster), lite(cluster)
        first.subscribe(TOPIC, rebalanced=lambda topic, every, ours: told.append((topic, len(every), len(ours))))
        second.subscribe(TOPIC)
        async with first:
            await eventually(lambda: len(first.queues) == 4)
            async with second:
                await eventually(lambda: len(first.queues) == len(second.queues) == 2)
                assert sorted(first.queues + second.queues) == [queue_of(number) for number in range(4)]
                await send(cluster, 40)
                some = await poll_all(first, 1), await poll_all(second, 1)
                assert {message.queue for message in some[0]}.isdisjoint({message.queue for message in some[1]})
            await eventually(lambda: len(first.queues) == 4)
        assert told == [(TOPIC, 4, 4), (TOPIC, 4, 2), (TOPIC, 4, 4)]


async def test_a_broadcasting_consumer_keeps_its_offsets_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "offsets"))

    async with in_world(tmp_path) as cluster:
        await send(cluster, 8, queue=queue_of(0))
        for expected in ([0, 1, 2], [3, 4, 5, 6, 7]):
            consumer = LitePullConsumer(
                "readers", config=cluster.config(client_id="me"), broadcasting=True, consume_from="first"
            )
            consumer.subscribe(TOPIC)
            async with consumer:
                messages = await consumer.poll(15, count=len(expected))
                assert [message.queue_offset for message in messages] == expected
                await consumer.commit()
        assert (tmp_path / "offsets" / "me" / "readers" / "offsets.json").exists()


async def test_no_more_is_fetched_than_the_limits_allow(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        await send(cluster, 300, queue=queue_of(0))
        consumer = lite(cluster, queue_messages_max=50, pull_batch=20)
        consumer.assign([queue_of(0)])
        async with consumer:
            await consumer.poll(15, count=1)
            session = consumer._started()
            await eventually(lambda: session.fetching.queues[queue_of(0)].count > 50)
            await asyncio.sleep(0.1)
            assert session.fetching.queues[queue_of(0)].count <= 70
            assert len(await poll_all(consumer, 299)) == 299


async def test_a_listener_hears_of_queues_that_come_and_go(tmp_path: Path) -> None:
    async def known_queues(cluster: Cluster) -> list[MessageQueue]:
        async with LitePullConsumer("others", config=cluster.config()) as other:
            return await other.queues_of(TOPIC)

    async with in_world(tmp_path) as cluster:
        changes: list[tuple[str, int]] = []
        consumer = LitePullConsumer("readers", config=cluster.config(route_refresh_s=0.05))
        consumer.on_queues_changed(TOPIC, lambda topic, queues: changes.append((topic, len(queues))))
        consumer.assign(await known_queues(cluster))
        async with consumer:
            assert changes == []
            await cluster.create_topic(TOPIC, queues=6)
            await eventually(lambda: changes == [(TOPIC, 6)])


async def test_names_carry_the_namespace_on_the_wire_alone(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        await cluster.create_topic(f"shop%{TOPIC}", queues=1)
        config = cluster.config(namespace="shop")
        async with Producer("writers", config=config) as producer:
            await producer.send(Message(TOPIC, b"x"))
        consumer = LitePullConsumer("readers", config=config, consume_from="first")
        consumer.subscribe(TOPIC)
        async with consumer:
            (message,) = await consumer.poll(15)
            assert (message.topic, consumer.queues) == (TOPIC, [queue_of(0)])
            await consumer.commit()
            assert await consumer.committed(queue_of(0)) == 1
            await consumer.seek_to_begin(queue_of(0))
            assert [again.queue for again in await consumer.poll(15)] == [queue_of(0)]


async def test_it_goes_on_when_the_broker_comes_back_at_another_address(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=()) as cluster:
        consumer = LitePullConsumer(
            "readers", config=cluster.config(route_refresh_s=0.1), consume_from="first", hold_s=1.0
        )
        consumer.assign([queue_of(0)])
        settings = BrokerConfig(broker_name="broker-a", namesrv_addr=cluster.namesrv)
        async with AsyncExitStack() as stack:
            async with running_broker(tmp_path / "store", settings) as broker:
                await broker.registration.until_registered()
                await cluster.create_topic(TOPIC, queues=1, brokers=[broker])
                await send(cluster, 2)
                await stack.enter_async_context(consumer)
                assert len(await poll_all(consumer, 2)) == 2
            async with running_broker(tmp_path / "store", settings) as broker:
                await broker.registration.until_registered()
                await send(cluster, 3)
                offsets = [message.queue_offset for message in await within(poll_all(consumer, 3))]
                assert offsets == [2, 3, 4]


async def test_a_consumer_that_is_not_started_says_so(tmp_path: Path) -> None:
    consumer = LitePullConsumer("readers", namesrv="127.0.0.1:1")
    with pytest.raises(MQError, match="is not running"):
        await consumer.poll()
    with pytest.raises(ConfigError, match=r"unknown option 'pull_bach': did you mean pull_batch\?"):
        LitePullConsumer("readers", namesrv="127.0.0.1:1", pull_bach=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="pull_batch must be between 1 and 1024"):
        LitePullConsumer("readers", namesrv="127.0.0.1:1", pull_batch=0)


async def test_only_one_task_waits_for_messages(tmp_path: Path) -> None:
    async with in_world(tmp_path) as cluster:
        consumer = lite(cluster)
        consumer.subscribe(TOPIC)
        async with consumer:
            waiting = asyncio.create_task(consumer.poll(20))
            await asyncio.sleep(0)
            with pytest.raises(MQError, match="one task at a time"):
                await consumer.poll(1)
            waiting.cancel()
            await asyncio.wait([waiting])
            sent = await send(cluster, 3)
            assert sorted(texts(await poll_all(consumer, 3))) == sorted(sent)
