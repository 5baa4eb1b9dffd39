"""Requests that travel as messages, and the answers to them."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hanabi.client.cluster.api import Api
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.request_reply import PendingRequests, is_request, reply_properties
from hanabi.errors import (
    ConnectionLostError,
    InvalidMessage,
    MQError,
    RemoteProtocolError,
    RequestTimeoutError,
    SendFailed,
)
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.message.record import decode_records
from hanabi.wire.message.stored import to_message
from tests.client.producer.scripted import until_it_has

TOPIC = "Questions"


async def pull(api: Api, address: str, broker_name: str, queue_id: int, offset: int) -> list[StoredMessage]:
    header = PullMessageHeader(
        consumer_group="pullers",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    reply = await api.pull_message(address, header, 3)
    return [to_message(record, broker_name=broker_name) for record in decode_records(reply.body)]


@asynccontextmanager
async def answering(cluster: Cluster, answer: Callable[[Producer, StoredMessage], object]) -> AsyncIterator[Producer]:
    """Yield a consumer, as simple as can be, that gives every message of the topic to *answer*."""
    async with Producer("repliers", config=cluster.config(instance="repliers")) as replier:
        connector = Connector()
        api = Api(connector)

        async def work() -> None:
            offsets: dict[tuple[str, int], int] = {}
            while True:
                for broker in cluster.brokers:
                    name = broker.settings.broker.broker_name
                    for queue_id in range(2):
                        key = (name, queue_id)
                        for message in await pull(api, broker.address, name, queue_id, offsets.get(key, 0)):
                            offsets[key] = message.queue_offset + 1
                            result = answer(replier, message)
                            if asyncio.iscoroutine(result):
                                await result
                await asyncio.sleep(0.005)

        worker = asyncio.create_task(work())
        try:
            yield replier
        finally:
            worker.cancel()
            await asyncio.wait((worker,))
            await connector.close()
            if not worker.cancelled():
                worker.result()


async def test_a_request_is_answered(tmp_path: Path) -> None:
    async def answer(replier: Producer, message: StoredMessage) -> None:
        assert is_request(message)
        await replier.reply(message, b"re: " + message.body, properties={"mood": "good"})

    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=2)
        async with answering(cluster, answer), Producer("asking", namesrv=cluster.namesrv) as producer:
            reply = await within(producer.request(Message(TOPIC, b"what?")))
            assert reply.body == b"re: what?"
            assert reply.properties["mood"] == "good"
            replies = await within(
                asyncio.gather(*(producer.request(Message(TOPIC, b"%d" % number)) for number in range(20)))
            )
            assert [reply.body for reply in replies] == [b"re: %d" % number for number in range(20)]
            assert len(producer._requests) == 0


async def test_large_answers_travel_compressed(tmp_path: Path) -> None:
    async def answer(replier: Producer, message: StoredMessage) -> None:
        await replier.reply(message, b"x" * 100_000)

    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=2)
        async with answering(cluster, answer), Producer("asking", namesrv=cluster.namesrv) as producer:
            assert (await within(producer.request(Message(TOPIC, b"more")))).body == b"x" * 100_000


async def test_answers_come_back_also_with_several_brokers(tmp_path: Path) -> None:
    async def answer(replier: Producer, message: StoredMessage) -> None:
        result = await replier.reply(message, message.body)
        assert result.queue.broker_name == message.broker_name  # it knows who asked

    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster:
        await cluster.create_topic(TOPIC, queues=2)
        async with answering(cluster, answer), Producer("asking", namesrv=cluster.namesrv) as producer:
            for number in range(8):
                body = b"%d" % number
                assert (await within(producer.request(Message(TOPIC, body)))).body == body


async def test_no_answer_is_an_error_that_says_where_the_request_lies(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("asking", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic(TOPIC, queues=2)
        with pytest.raises(RequestTimeoutError, match=r"no answer within 1 s.*topic Questions.*broker-a.*reply"):
            await producer.request(Message(TOPIC, b"?"), timeout=1.0)
        assert len(producer._requests) == 0


async def test_who_asked_is_gone_and_the_replier_learns_it(tmp_path: Path) -> None:
    failures: list[SendFailed] = []

    async def answer(replier: Producer, message: StoredMessage) -> None:
        try:
            await replier.reply(message, b"too late", timeout=10)
        except SendFailed as error:
            failures.append(error)

    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=2)
        async with Producer("asking", namesrv=cluster.namesrv) as producer:
            with pytest.raises(RequestTimeoutError):
                await producer.request(Message(TOPIC, b"?"), timeout=1.0)
        async with answering(cluster, answer):
            await eventually(lambda: failures)
            assert "not found" in str(failures[0])


async def test_shutdown_ends_the_waiting(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        producer = Producer("asking", namesrv=cluster.namesrv)
        await producer.start()
        running = producer._running
        assert running is not None
        asking = asyncio.create_task(producer.request(Message(TOPIC, b"?"), timeout=60))
        await until_it_has(cluster.broker.address, MessageQueue(TOPIC, "broker-a", 0), 1)
        await eventually(lambda: not running.gate.sends)
        await within(producer.shutdown())
        with pytest.raises(ConnectionLostError, match="asking is shut down"):
            await within(asking)


async def test_a_request_that_meets_the_shutdown_half_way_fails_and_does_not_hang(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        for turns in range(12):
            producer = Producer("asking", namesrv=cluster.namesrv)
            await producer.start()
            asking = asyncio.create_task(producer.request(Message(TOPIC, b"?"), timeout=2))
            for _ in range(turns):
                await asyncio.sleep(0)
            await within(producer.shutdown())
            with pytest.raises(MQError):
                await within(asking)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def stored_message(**properties: str) -> StoredMessage:
    record = dict.fromkeys(StoredMessage.__struct_fields__, 0) | {
        "topic": TOPIC,
        "body": b"?",
        "tags": None,
        "keys": (),
        "message_id": "ID",
        "offset_message_id": "",
        "born_host": ("", 0),
        "store_host": ("", 0),
        "broker_name": "",
        "properties": properties,
    }
    return msgspec.convert(record, StoredMessage)


def test_what_was_not_asked_cannot_be_answered() -> None:
    with pytest.raises(InvalidMessage, match=r"cannot be replied to.*CLUSTER, REPLY_TO_CLIENT, CORRELATION_ID"):
        reply_properties(stored_message())
    assert not is_request(stored_message())
    request = stored_message(CLUSTER="c1", REPLY_TO_CLIENT="me", CORRELATION_ID="7", TTL="3000")
    assert reply_properties(request) == (
        "c1_REPLY_TOPIC",
        {"MSG_TYPE": "reply", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me", "TTL": "3000"},
    )


def reply_header(correlation_id: str, sys_flag: int = 0) -> ReplyMessageHeader:
    return ReplyMessageHeader(
        producer_group="g",
        topic="c1_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1,
        flag=0,
        born_host="/10.0.0.1:77",
        store_host="nonsense",
        store_timestamp=2,
        properties=f"CORRELATION_ID\x01{correlation_id}\x02UNIQ_KEY\x01U",
    )


async def test_an_answer_that_nobody_waits_for_is_not_ours() -> None:
    pending = PendingRequests()
    assert not pending.arrived(reply_header("nobody"), b"x", 5)
    correlation_id, future = pending.begin()
    assert pending.arrived(reply_header(correlation_id), b"x", 5)
    assert not pending.arrived(reply_header(correlation_id), b"twice", 5)
    reply = await future
    assert (reply.body, reply.message_id) == (b"x", "U")
    assert reply.properties["ARRIVE_TIME"] == "5"
    assert (reply.born_host.host, reply.store_host.host) == ("10.0.0.1", "")
    pending.end(correlation_id)
    correlation_id, future = pending.begin()
    assert pending.arrived(reply_header(correlation_id, sys_flag=1), b"not compressed at all", 5)
    with pytest.raises(RemoteProtocolError, match="zlib"):
        await future
    pending.end(correlation_id)
    assert len(pending) == 0


async def test_nobody_complains_of_an_error_that_came_after_the_asker_had_gone() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    pending = PendingRequests()
    correlation_id, future = pending.begin()
    pending.fail_all(ConnectionLostError("over"))
    pending.end(correlation_id)
    correlation_id, future = pending.begin()
    pending.end(correlation_id)
    assert future.cancelled()
    del future
    gc.collect()
    assert complaints == []
