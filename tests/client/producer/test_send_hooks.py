"""Hooks hear of every send, once, before and after it."""

import asyncio
from pathlib import Path

import pytest

from hanabi.client.hooks import EndTransactionContext, MessageKind, SendContext
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.transaction_producer import TransactionProducer
from hanabi.client.send_result import TransactionState
from hanabi.errors import SendFailed
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import ResponseCode
from tests.client.producer.scripted import look_up, refusing, scripted_broker, until_it_has


class Recorder:
    """Remembers what it heard, and adds a property."""

    def __init__(self) -> None:
        self.before: list[SendContext] = []
        self.after: list[SendContext] = []
        self.ends: list[EndTransactionContext] = []

    def before_send(self, context: SendContext) -> None:
        assert context.result is None
        context.properties["traceparent"] = "00-abc"
        self.before.append(context)

    def after_send(self, context: SendContext) -> None:
        self.after.append(context)

    def end_transaction(self, context: EndTransactionContext) -> None:
        self.ends.append(context)


class Broken:
    def before_send(self, context: SendContext) -> None:
        raise RuntimeError("before")

    def after_send(self, context: SendContext) -> None:
        raise RuntimeError("after")


async def test_a_hook_hears_of_each_send_and_adds_properties(tmp_path: Path) -> None:
    hook = Recorder()
    async with (
        running_cluster(tmp_path) as cluster,
        Producer("g", namesrv=cluster.namesrv, hooks=[Broken(), hook]) as producer,
    ):
        await cluster.create_topic("T", queues=1)
        message = Message("T", b"x")
        result = await producer.send(message)
        (heard,) = hook.after
        assert (heard.group, heard.messages, heard.kind) == ("g", (message,), MessageKind.NORMAL)
        assert (heard.result, heard.error) == (result, None)
        assert (heard.message_id, heard.body_bytes) == (result.message_id, 1)
        assert heard.broker_address == cluster.broker.address
        assert heard.client_id == producer.client_id
        assert (await look_up(cluster.broker.address, result)).properties["traceparent"] == "00-abc"
        await producer.send(Message("T", b"x", delay_level=1))
        assert hook.after[1].kind is MessageKind.DELAY
        results = await producer.send_batch([message, message])
        assert hook.after[2].message_id == ",".join(result.message_id for result in results)
        assert hook.after[2].result == results[0]
        await producer.send_oneway(message)
        assert hook.after[3].result is None
        assert hook.before == hook.after
        assert message.properties == {}


async def test_a_hook_hears_of_failures(tmp_path: Path) -> None:
    hook = Recorder()
    no = refusing(ResponseCode.MESSAGE_ILLEGAL, "no")
    async with running_cluster(tmp_path) as cluster, scripted_broker(no) as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config, hooks=[hook]) as producer:
            with pytest.raises(SendFailed) as raised:
                await producer.send(Message("T", b"x"))
            (heard,) = hook.after
            assert heard.error is raised.value
            assert heard.broker_address == scripted.address


async def test_a_hook_hears_of_the_ends_of_transactions(tmp_path: Path) -> None:
    hook = Recorder()

    def check(message: StoredMessage) -> TransactionState:
        return TransactionState.ROLLBACK

    async with running_cluster(tmp_path, transaction_timeout_ms=50, transaction_check_interval_ms=50) as cluster:
        await cluster.create_topic("T", queues=1)
        async with TransactionProducer("g", namesrv=cluster.namesrv, check=check, hooks=[hook]) as producer:
            queue = MessageQueue("T", "broker-a", 0)
            result = await producer.send_in_transaction(Message("T", b"x"), lambda message, sent: None)
            assert hook.after[0].kind is MessageKind.TRANSACTION_HALF
            assert (hook.ends[0].state, hook.ends[0].from_check) == (TransactionState.UNKNOWN, False)
            assert hook.ends[0].message_id == result.send.message_id
            assert result.send.queue.broker_name == queue.broker_name
            await eventually(lambda: len(hook.ends) > 1)
            assert (hook.ends[1].state, hook.ends[1].from_check) == (TransactionState.ROLLBACK, True)
            assert hook.ends[1].transaction_id == result.send.transaction_id


async def test_a_traced_producer_tells_the_trace_topic_of_its_messages(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        trace_queue = MessageQueue("Traces", "broker-a", 0)
        await cluster.create_topic("Traces", queues=1)
        async with Producer("g", namesrv=cluster.namesrv, trace="Traces") as producer:
            await producer.send_many([Message("T", b"x")] * 20)
        await until_it_has(cluster.broker.address, trace_queue, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}
