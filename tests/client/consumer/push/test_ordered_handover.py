"""Two ordered members never work on one queue at once: when a broker forgets their locks, when one of them is paused,
waits for a thread, or is shut down while its listener still runs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST, Cluster, running_cluster, small_store
from hanabi.testing.proxy import Proxy
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.topics import TopicConfig
from tests.client.consumer.pushing import numbered, send
from tests.interop.processes import free_port


def topic_queues(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.queues if queue.topic == "T"]


def ordered(config: ClientConfig, listener: Callable[[list[StoredMessage]], Any], **options: Any) -> PushConsumer:
    consumer = PushConsumer("g", config=config, consume_from="first", **options)
    consumer.subscribe("T")
    consumer.listener(ordered=True)(listener)
    return consumer


class RestartableBroker:
    """A broker that can be stopped and started again, at the same address and with the same files."""

    def __init__(self, home: Path, namesrv: str) -> None:
        self._home, self._port = home, free_port(beside=(-2, 1))
        self._config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv)

    async def start(self) -> Broker:
        self.broker = Broker(self._config, small_store(self._home))
        await self.broker.start(HOST, self._port)
        await self.broker.registration.until_registered()
        return self.broker

    async def restart(self) -> None:
        await self.broker.stop()
        await self.start()


@asynccontextmanager
async def restartable(home: Path) -> AsyncIterator[tuple[str, RestartableBroker]]:
    async with NameServer(NamesrvConfig(), home / "namesrv") as name_server:
        namesrv = format_address(await name_server.start(HOST, 0))
        running = RestartableBroker(home / "broker", namesrv)
        await running.start()
        try:
            yield namesrv, running
        finally:
            await running.broker.stop()


async def test_after_a_broker_restart_a_member_begins_nothing_new_before_its_lock_is_renewed(tmp_path: Path) -> None:
    async with restartable(tmp_path) as (namesrv, running):
        broker = running.broker
        await broker.tables.topics.update(
            TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=6),
        )
        await broker.registration.settled()
        async with Producer("senders", namesrv=namesrv) as producer:
            await producer.send_many([Message("T", body) for body in numbered(2_000)])
        async with Proxy(broker.bound) as proxy:
            calls: list[tuple[str, int]] = []

            def listener(name: str) -> Callable[[list[StoredMessage]], Any]:
                async def listen(messages: list[StoredMessage]) -> None:
                    calls.append((name, messages[0].queue_id))
                    await asyncio.sleep(0.02)

                return listen

            cut_off = ClientConfig(namesrv=namesrv, address_map={broker.address: proxy.address}, instance="a")
            first = ordered(cut_off, listener("first"))
            second = ordered(ClientConfig(namesrv=namesrv, instance="b"), listener("second"))
            async with first, second:
                await eventually(lambda: len(topic_queues(first)) == len(topic_queues(second)) == 1)
                (queue,) = topic_queues(first)
                seen = len(calls)
                await eventually(lambda: ("first", queue.queue_id) in calls[seen:])
                proxy.refusing = True
                await running.restart()  # its locks are gone; only the second member reaches it
                await eventually(lambda: ("second", queue.queue_id) in calls)
                taken = calls.index(("second", queue.queue_id))
                await eventually(lambda: calls[taken:].count(("second", queue.queue_id)) > 30)
                assert calls[taken:].count(("first", queue.queue_id)) == 0
                proxy.refusing = False
                await eventually(lambda: ("first", queue.queue_id) in calls[taken:], seconds=40.0)


async def test_a_member_goes_on_soon_after_its_connection_was_cut_as_its_lock_is_renewed_at_once(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        async with Proxy(cluster.broker.bound) as proxy:
            done: list[bytes] = []

            async def listen(messages: list[StoredMessage]) -> None:
                done.extend(message.body for message in messages)

            config = cluster.config(address_map={cluster.broker.address: proxy.address})
            async with ordered(config, listen) as consumer:
                await eventually(lambda: len(topic_queues(consumer)) == 1)
                proxy.cut()
                await send(cluster, numbered(10))
                await eventually(lambda: done == numbered(10))


async def test_a_paused_member_hands_its_queues_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        for queue_id in range(2):
            await send(cluster, numbered(20), queue_id=queue_id)
        done: list[bytes] = []

        async def slow(messages: list[StoredMessage]) -> None:
            await asyncio.sleep(0.005)

        async def listen(messages: list[StoredMessage]) -> None:
            done.extend(message.body for message in messages)

        async with ordered(cluster.config(), slow) as first:
            await eventually(lambda: _holds_messages(first))
            first.pause()
            async with ordered(cluster.config(), listen) as second:
                await eventually(lambda: len(topic_queues(second)) == 1, "a queue for the second member")
                await eventually(lambda: b"0019" in done)


def _holds_messages(consumer: PushConsumer) -> bool:
    """Return whether messages of both queues wait for the listener."""
    session = consumer._session
    assert session is not None
    owned = [held for queue, held in session._assigned.owned.items() if queue.topic == "T"]
    return len(owned) == 2 and all(held.progress.count for held in owned)


async def test_a_queue_that_waits_for_room_among_the_listeners_is_handed_over_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=4)
        for queue_id in range(4):
            await send(cluster, numbered(5), queue_id=queue_id)
        never = asyncio.Event()

        async def stuck(messages: list[StoredMessage]) -> None:
            await never.wait()

        async def listen(messages: list[StoredMessage]) -> None:
            pass

        async with ordered(cluster.config(), stuck, concurrency=1, shutdown_timeout_s=0.1) as first:
            await eventually(lambda: len(topic_queues(first)) == 4)
            async with ordered(cluster.config(), listen) as second:
                await eventually(lambda: len(topic_queues(second)) >= 1, "a queue for the second member")


async def test_the_lock_of_a_queue_whose_listener_still_runs_is_kept_at_the_shutdown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        await send(cluster, numbered(1), queue_id=0)
        running, let_go = threading.Event(), threading.Event()

        def listen(messages: list[StoredMessage]) -> None:
            running.set()
            let_go.wait(60)

        consumer = ordered(cluster.config(), listen)
        try:
            await consumer.start()
            await eventually(lambda: len(topic_queues(consumer)) == 2)
            await eventually(running.is_set)
            await consumer.shutdown(0.1)
            assert [queue.queue_id for queue in locked_queues(cluster)] == [0]
        finally:
            let_go.set()


def locked_queues(cluster: Cluster) -> list[MessageQueue]:
    return [queue for queue in cluster.broker.tables.locks.of_group("g") if queue.topic == "T"]
