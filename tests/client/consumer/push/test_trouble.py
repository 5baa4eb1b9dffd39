"""A push consumer when things go wrong around it: it goes on as soon as it can, and loses nothing."""

import asyncio
import contextvars
import logging
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.hooks import ConsumeContext, ConsumeOutcome
from hanabi.message import StoredMessage
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address, parse_address
from hanabi.testing.cluster import HOST, Cluster, running_cluster, small_store
from hanabi.testing.waiting import eventually, within
from tests.client.consumer.pushing import Inbox, committed, numbered, send
from tests.interop.processes import free_port


async def test_a_consumer_that_starts_before_its_cluster_consumes_when_that_is_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        namesrv = f"{HOST}:{free_port()}"  # where nobody listens yet
        seen: list[bytes] = []
        consumer = PushConsumer("g", namesrv=namesrv, consume_from="first", request_timeout_s=0.5)
        consumer.subscribe("T")
        consumer.listener(lambda messages: seen.extend(message.body for message in messages))
        await within(consumer.start())
        try:
            name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), tmp_path / "namesrv"))
            await name_server.start(*parse_address(namesrv))
            config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv)
            broker = await stack.enter_async_context(Broker(config, small_store(tmp_path / "store")))
            await broker.start(HOST, 0)
            await broker.registration.until_registered()
            cluster = Cluster(name_server, namesrv, [broker])
            await cluster.create_topic("T")
            await send(cluster, numbered(5))
            await eventually(lambda: sorted(seen) == numbered(5))
        finally:
            await within(consumer.shutdown())


async def test_a_broker_that_restarts_is_consumed_from_again_and_nothing_is_lost(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), tmp_path / "namesrv"))
        namesrv = format_address(await name_server.start(HOST, 0))
        config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv)
        first = Broker(config, small_store(tmp_path / "store"))
        async with first:
            port = free_port(beside=(-2, 1))  # one that no other process takes between the two starts
            await first.start(HOST, port)
            await first.registration.until_registered()
            cluster = Cluster(name_server, namesrv, [first])
            await cluster.create_topic("T", queues=2)
            await send(cluster, numbered(10))
            inbox = Inbox(cluster, "g", route_refresh_s=0.5)
            await inbox.consumer.start()
            await eventually(lambda: len(inbox.messages) == 10)
        async with Broker(config, small_store(tmp_path / "store")) as second:
            await second.start(HOST, port)
            await second.registration.until_registered()
            cluster = Cluster(name_server, namesrv, [second])
            await send(cluster, numbered(10, 10))
            await eventually(lambda: len(set(inbox.bodies)) == 20)
            await within(inbox.consumer.shutdown())
            assert sorted(set(inbox.bodies)) == numbered(20)
            assert len(inbox.bodies) <= 30  # what was not told before the stop comes again
            assert committed(cluster, "g") == {0: 10, 1: 10}


async def test_one_broker_of_two_that_is_down_keeps_nobody_from_the_other(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster:
        await cluster.create_topic("T", queues=2)
        async with Inbox(cluster, "g", request_timeout_s=0.5) as inbox:
            await eventually(lambda: len(inbox.consumer.queues) >= 4)
            await cluster.brokers[1].stop()
            await send(cluster, numbered(6), queue_id=0)
            await eventually(lambda: inbox.bodies == numbered(6))


@pytest.mark.parametrize("ordered", [False, True])
async def test_shutdown_with_all_brokers_down_ends_in_time(tmp_path: Path, ordered: bool) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        inbox = Inbox(cluster, "g", ordered=ordered, request_timeout_s=0.5)
        await inbox.consumer.start()
        await eventually(lambda: len(inbox.consumer.queues) >= 2)
        await cluster.broker.stop()
        await within(inbox.consumer.shutdown())


async def test_an_offset_that_the_broker_does_not_have_is_corrected_and_consumption_goes_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(5))
        cluster.broker.tables.offsets.reset("g", "T", 0, 1_000)
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: committed(cluster, "g") == {0: 5})
            await send(cluster, numbered(3, 5))
            await eventually(lambda: inbox.bodies == numbered(3, 5))


async def test_a_start_that_is_cancelled_or_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        inbox = Inbox(cluster, "g")
        task = asyncio.create_task(inbox.consumer.start())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) >= 1
        async with inbox:  # and it can be started again
            await send(cluster, numbered(2))
            await eventually(lambda: len(inbox.messages) == 2)
        async with inbox:
            await send(cluster, numbered(2, 2))
            await eventually(lambda: len(inbox.messages) == 4)


async def test_no_task_of_a_consumer_is_left_after_shutdown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        before = asyncio.all_tasks()
        for ordered in (False, True):
            async with Inbox(cluster, f"g-{ordered}", ordered=ordered) as inbox:
                await send(cluster, numbered(4))
                await eventually(lambda: len(inbox.messages) >= 4)
        await asyncio.sleep(0)
        left = [task.get_name() for task in asyncio.all_tasks() - before if "Connection" not in repr(task)]
        assert [name for name in left if "g-" in name] == []


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_shutdown_that_is_cancelled_leaves_no_task_and_no_thread_behind(tmp_path: Path, ordered: bool) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        await send(cluster, numbered(8))
        began, go_on = threading.Event(), threading.Event()
        consumer = PushConsumer("cancelled", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")

        @consumer.listener(ordered=ordered)
        def wait(messages: list[StoredMessage]) -> None:
            began.set()
            go_on.wait()

        await consumer.start()
        await eventually(began.is_set)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.shutdown(), 0.05)
        go_on.set()
        names = "listener of cancelled"
        await eventually(lambda: not any(names in thread.name for thread in threading.enumerate()))
        await eventually(lambda: not [task for task in asyncio.all_tasks() if "cancelled" in task.get_name()])


class Remembering:
    """A hook that keeps what it is told."""

    def __init__(self, variable: contextvars.ContextVar[str]) -> None:
        self.told: list[tuple[str, ConsumeOutcome, str]] = []
        self._variable = variable

    def before_consume(self, context: ConsumeContext) -> None:
        self._variable.set(context.messages[0].message_id)

    def after_consume(self, context: ConsumeContext) -> None:
        self.told.append((context.queue.topic, context.outcome, self._variable.get()))


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_hooks_hear_of_each_call_and_what_they_set_reaches_the_listener_alone(tmp_path: Path, kind: str) -> None:
    current = contextvars.ContextVar("current", default="nothing")
    async with running_cluster(tmp_path, message_delay_levels="1s 1s 1s 1s") as cluster:
        await cluster.create_topic("T", queues=1)
        hook = Remembering(current)
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first", hooks=[hook])
        consumer.subscribe("T")
        seen: list[tuple[str, str]] = []

        def consume(messages: list[StoredMessage]) -> None:
            seen.append((messages[0].message_id, current.get()))
            if len(seen) == 1:
                raise ConsumeLater("once more", delay_level=1)
            if len(seen) == 2:
                raise ValueError("and again")

        async def consume_async(messages: list[StoredMessage]) -> None:
            consume(messages)

        consumer.listener(consume if kind == "def" else consume_async)
        async with consumer:
            await send(cluster, numbered(1))
            await eventually(lambda: len(hook.told) == 3)
        assert all(message_id == told for message_id, told in seen)
        assert [outcome.name for _, outcome, _ in hook.told] == ["FAILED", "EXCEPTION", "SUCCESS"]
        assert {(topic, told) for topic, _, told in hook.told} == {("T", seen[0][0])}
        assert current.get() == "nothing"


async def test_a_traced_consumer_tells_the_trace_topic_of_what_it_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await cluster.create_topic("Traces", queues=1)
        async with Inbox(cluster, "g", trace="Traces") as inbox:
            await send(cluster, numbered(1))
            await eventually(lambda: len(inbox.messages) == 1)
        async with Inbox(cluster, "readers", "Traces") as traces:
            await eventually(lambda: b"SubAfter" in b"".join(traces.bodies))
        assert inbox.messages[0].message_id.encode() in b"".join(traces.bodies)


async def test_a_failure_is_logged_with_topic_queue_and_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running_cluster(tmp_path) as cluster:
            await cluster.create_topic("T", queues=1)
            consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
            consumer.subscribe("T")

            @consumer.listener
            async def listen(messages: list[StoredMessage]) -> None:
                raise ValueError("what went wrong")

            async with consumer:
                await send(cluster, numbered(1))
                await eventually(lambda: "what went wrong" in caplog.text)

    with caplog.at_level(logging.WARNING):
        await main()
    line = next(record.getMessage() for record in caplog.records if "what went wrong" in record.getMessage())
    assert "group g" in line
    assert "T queue 0 of broker-a" in line
    assert "offset 0" in line
