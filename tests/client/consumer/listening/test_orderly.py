"""Consuming in order: one after the other, nothing skipped, and only under the lock."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.listening.consumption import Calls
from hanabi.client.consumer.listening.listener import ConsumeLater, suspend_seconds
from hanabi.client.consumer.listening.listener_runs import listener_runs
from hanabi.client.consumer.listening.orderly import Orderly
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from tests.client.consumer.pushing import Inbox, committed, numbered, send
from tests.client.consumer.stored import stored


def _ordered(cluster: Cluster, group: str = "g", **options: Any) -> PushConsumer:
    settings = {"consume_from": "first", "suspend_s": 0.02, **options}
    consumer = PushConsumer(group, config=cluster.config(), **settings)
    consumer.subscribe("T")
    return consumer


async def test_each_queue_is_consumed_one_by_one_in_order_and_failures_skip_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=3)
        for queue_id in range(3):
            await send(cluster, numbered(30), queue_id=queue_id)
        consumer = _ordered(cluster)
        done: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        tries: list[int] = []
        busy: set[int] = set()

        @consumer.listener(ordered=True)
        async def listen(messages: list[StoredMessage]) -> None:
            (message,) = messages
            assert message.queue_id not in busy
            busy.add(message.queue_id)
            await asyncio.sleep(0)
            busy.remove(message.queue_id)
            tries.append(message.reconsume_times)
            if message.body == b"0007" and message.reconsume_times < 3:
                raise ValueError("not yet")
            done[message.queue_id].append(message.body)

        async with consumer:
            await eventually(lambda: sum(map(len, done.values())) == 90)
        assert all(bodies == numbered(30) for bodies in done.values())
        assert sorted(tries)[-3:] == [3, 3, 3]
        assert committed(cluster, "g") == {0: 30, 1: 30, 2: 30}
        assert sum(committed(cluster, "g", "%RETRY%g").values()) == 0


async def test_a_plain_function_consumes_in_order_too_and_in_batches(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(50))
        consumer = _ordered(cluster, consume_batch=8)
        done: list[bytes] = []

        @consumer.listener(ordered=True)
        def listen(messages: list[StoredMessage]) -> None:
            done.extend(message.body for message in messages[:5])
            if len(messages) > 5:
                raise ConsumeLater("five at a time", succeeded=5, suspend_s=0.01)

        async with consumer:
            await eventually(lambda: len(done) == 50)
        assert done == numbered(50)
        assert committed(cluster, "g") == {0: 50}


async def test_where_tries_are_limited_the_last_one_makes_a_dead_letter_and_the_queue_goes_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(3))
        consumer = _ordered(cluster, max_reconsume_times=2)
        done: list[tuple[bytes, int]] = []

        @consumer.listener(ordered=True)
        async def listen(messages: list[StoredMessage]) -> None:
            done.append((messages[0].body, messages[0].reconsume_times))
            if messages[0].body == b"0001":
                raise ValueError("never")

        async with consumer:
            await eventually(lambda: len(done) == 5)
            await eventually(lambda: "%DLQ%g" in cluster.broker.tables.topics)
        assert done == [(b"0000", 0), (b"0001", 0), (b"0001", 1), (b"0001", 2), (b"0002", 0)]
        async with Inbox(cluster, "undertakers", "%DLQ%g") as inbox:
            await eventually(lambda: inbox.bodies == [b"0001"])


async def test_a_queue_changes_hands_when_its_listener_has_returned_and_at_once_then(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        for queue_id in range(2):
            await send(cluster, numbered(20), queue_id=queue_id)
        log: list[tuple[str, int, bytes]] = []
        busy: set[int] = set()
        hold = asyncio.Event()

        def member(name: str) -> PushConsumer:
            consumer = _ordered(cluster)

            @consumer.listener(ordered=True)
            async def listen(messages: list[StoredMessage]) -> None:
                queue_id = messages[0].queue_id
                assert queue_id not in busy, "two members consume one queue"
                busy.add(queue_id)
                if messages[0].body == b"0005":
                    await hold.wait()
                await asyncio.sleep(0.001)
                busy.remove(queue_id)
                log.append((name, queue_id, messages[0].body))

            return consumer

        first, second = member("first"), member("second")
        async with first:
            await eventually(lambda: busy == {0, 1} and len(log) == 10)
            async with second:
                await eventually(lambda: len(_topic_queues(first)) == 1)
                assert _topic_queues(second) == []  # the first one's listener still has the queue
                hold.set()
                await eventually(lambda: len(_topic_queues(second)) == 1)
                await eventually(lambda: len(log) == 40)
        for queue_id in range(2):
            assert [body for _, at, body in log if at == queue_id] == numbered(20)
        assert {name for name, _, _ in log} == {"first", "second"}


def _topic_queues(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.queues if queue.topic == "T"]


async def test_a_lost_lock_ends_consumption_and_the_offset_is_nobodys_any_more(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        consumer = _ordered(cluster)
        done: list[bytes] = []

        @consumer.listener(ordered=True)
        async def listen(messages: list[StoredMessage]) -> None:
            done.append(messages[0].body)

        async with consumer:
            await eventually(lambda: len(_topic_queues(consumer)) == 1)
            (queue,) = _topic_queues(consumer)
            locks = cluster.broker.tables.locks
            locks.unlock("g", consumer.client_id, [queue])
            assert locks.lock("g", "a-thief", [queue]) == [queue]
            session = consumer._session
            assert session is not None
            assert session._locks is not None
            await session._locks.renew()
            await eventually(lambda: _topic_queues(consumer) == [])
            await send(cluster, numbered(3))
            await asyncio.sleep(0.1)
            assert done == []
            locks.unlock("g", "a-thief", [queue])
            await eventually(lambda: done == numbered(3))


async def test_shutdown_unlocks_and_the_next_member_need_not_wait(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=4)
        async with Inbox(cluster, "g", ordered=True) as first:
            await eventually(lambda: len(_topic_queues(first.consumer)) == 4)
        async with Inbox(cluster, "g", ordered=True) as second:
            await eventually(lambda: len(_topic_queues(second.consumer)) == 4)


async def test_locks_are_given_back_before_the_member_leaves(tmp_path: Path) -> None:
    # A broker of Apache's does not free them for somebody who has left.
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        async with Inbox(cluster, "g", ordered=True) as inbox:
            await eventually(lambda: len(_topic_queues(inbox.consumer)) == 2)
            session = inbox.consumer._session
            assert session is not None
            locks = cluster.broker.tables.locks
            assert len(locks.of_group("g")) >= 2
            session._tasks[0].cancel()  # the rebalance: nobody takes them again
            await session._assigned.close(1)
            assert cluster.broker.tables.consumers.client_ids("g")
            assert not locks.of_group("g")


async def test_nothing_is_consumed_while_the_lock_is_not_ours() -> None:
    loop = asyncio.get_running_loop()
    done: list[int] = []

    async def listen(messages: list[StoredMessage]) -> None:
        done.append(messages[0].queue_offset)

    calls = Calls(listener_runs(listen, 1, "test"), ConsumeStats(), now=loop.time)
    orderly = Orderly(
        "g",
        PushConfig(suspend_s=0.01),
        calls,
        needs_lock=True,
        give_up=None,
        progressed=lambda _: None,
        now=loop.time,
    )
    owned = OwnedQueue(MessageQueue("T", "a", 0), 0, now_ms=0)
    orderly.take(owned)
    orderly.offer(owned, owned.progress.add([stored(0), stored(1)], 2))
    await asyncio.sleep(0.05)
    assert done == []
    owned.locked_at = loop.time()
    owned.changed()
    await eventually(lambda: done == [0, 1])
    assert await orderly.close(60)


async def test_a_message_that_is_never_consumed_does_not_keep_shutdown_waiting(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(2))
        consumer = _ordered(cluster, suspend_s=30.0)
        tried: list[bytes] = []

        @consumer.listener(ordered=True)
        async def listen(messages: list[StoredMessage]) -> None:
            tried.append(messages[0].body)
            raise ValueError("never")

        await consumer.start()
        await eventually(lambda: len(tried) == 1)
        await within(consumer.shutdown())
        assert tried == [b"0000"]
        assert committed(cluster, "g") == {0: 0}


async def test_broadcasting_in_order_needs_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(tmp_path / "offsets"))
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(10))
        options: dict[str, Any] = {"ordered": True, "broadcasting": True}
        async with Inbox(cluster, "g", **options) as one, Inbox(cluster, "g", **options) as two:
            await eventually(lambda: one.bodies == two.bodies == numbered(10))


async def test_a_lock_is_believed_for_half_as_long_as_the_broker_keeps_it() -> None:
    owned = OwnedQueue(MessageQueue("T", "a", 0), 0, now_ms=0)
    assert not owned.lock_is_valid(0.0)
    owned.locked_at = 100.0
    assert owned.lock_is_valid(129.9)
    assert not owned.lock_is_valid(130.0)
    assert not owned.lock_may_be_lost(159.9)
    assert owned.lock_may_be_lost(160.0)


def test_the_pause_after_a_failure_is_kept_within_bounds() -> None:
    assert suspend_seconds(ValueError(), 1.0) == 1.0
    assert suspend_seconds(ConsumeLater(suspend_s=5.0), 1.0) == 5.0
    assert suspend_seconds(ConsumeLater(suspend_s=0.0), 1.0) == 0.01
    assert suspend_seconds(ConsumeLater(suspend_s=500.0), 1.0) == 30.0
    with pytest.raises(MQError, match="succeeded"):
        ConsumeLater(succeeded=-1)
