"""Every way to send. As SendScenarios.java."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import by_hash
from hanabi.errors import InvalidMessage, MQError, SendFailed, UnknownReplyError
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.query import QueryMessageHeader
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_record
from hanabi.wire.message.stored import to_message
from tests.interop.python_clients.stage import PATIENCE_S, WAIT_S, Stage, now_ms, numbered, send, sent


async def send_sync(stage: Stage) -> None:
    topic = await stage.topic(4)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    results = {}
    for number, body in enumerate(numbered("sync ", 20)):
        message = Message(
            topic,
            body.encode(),
            tags="TagA",
            keys=[f"key-{number}", "common"],
            properties={"colour": "grün 緑"},
            flag=7,
        )
        results[body] = sent(await producer.send(message))
    assert len({result.queue for result in results.values()}) == 4
    await inbox.exactly(results)
    for arrival in inbox.all:
        stored, result = arrival.message, results[arrival.body]
        assert stored.message_id == result.message_id
        assert stored.offset_message_id == result.offset_message_id
        assert (stored.queue, stored.queue_offset) == (result.queue, result.queue_offset)
        assert (stored.tags, stored.flag) == ("TagA", 7)
        assert stored.keys == (f"key-{arrival.body[5:]}", "common")
        assert stored.properties["colour"] == "grün 緑"
    core, broker = await stage.core(), await stage.broker()
    _, log_offset = decode_offset_id(results["sync 3"].offset_message_id)
    record = await core.api.view_message(broker, log_offset, PATIENCE_S, topic=topic)
    assert to_message(decode_record(record)).body == b"sync 3"
    for key, unique, bodies in (
        (results["sync 3"].message_id, True, {"sync 3"}),
        ("key-3", None, {"sync 3"}),
        ("common", None, set(results)),
    ):
        header = QueryMessageHeader(
            topic=topic, key=key, max_num=64, begin_timestamp=0, end_timestamp=now_ms() + 60_000, by_unique_key=unique
        )
        found = _messages(await core.api.query_message(broker, header, PATIENCE_S))
        assert {message.body.decode() for message in found} == bodies


def _messages(records: bytes) -> list[StoredMessage]:
    found, position = [], 0
    while position < len(records):
        record = decode_record(records, position)
        found.append(to_message(record))
        position += record.size
    return found


async def send_async(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    bodies = numbered("async ", 50)
    results = await asyncio.gather(*(send(producer, topic, None, body) for body in bodies))
    assert len({result.message_id for result in results}) == 50
    more = numbered("many ", 500)
    results = await producer.send_many([Message(topic, body.encode()) for body in more])
    assert len({result.message_id for result in results}) == 500
    await inbox.exactly(bodies + more)


async def send_oneway(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    bodies = numbered("oneway ", 20)
    for body in bodies:
        await producer.send_oneway(Message(topic, body.encode()))
    await inbox.exactly(bodies)


async def send_batch(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    bodies = numbered("batch ", 30)
    messages = [
        Message(topic, body.encode(), tags="TagB", keys=[f"k{body[6:]}"], properties={"number": body[6:]})
        for body in bodies
    ]
    results = await producer.send_batch(messages)
    assert len({sent(result).message_id for result in results}) == 30
    assert len({result.queue for result in results}) == 1
    await inbox.exactly(bodies)
    by_body = {arrival.body: arrival.message for arrival in inbox.all}
    for body, result in zip(bodies, results, strict=True):
        message = by_body[body]
        assert (message.message_id, message.queue, message.queue_offset) == (
            result.message_id,
            result.queue,
            result.queue_offset,
        )
        assert message.offset_message_id == result.offset_message_id
        assert (message.tags, message.keys, message.properties["number"]) == ("TagB", (f"k{body[6:]}",), body[6:])


async def send_compressed(stage: Stage) -> None:
    topic = await stage.topic(1)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    dice = random.Random(7)
    long = ["hanabi " * 20_000, "".join(chr(dice.randrange(32, 127)) for _ in range(60_000))]
    for body in long:
        await send(producer, topic, "A", body)
    await inbox.exactly(long)
    for arrival in inbox.all:
        assert arrival.message.size < len(arrival.message.body), "it was stored as it was"


async def send_selector(stage: Stage) -> None:
    topic = await stage.topic(4)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()

    def by_number(queues: Sequence[MessageQueue], message: Message, number: int) -> MessageQueue:
        return queues[number % len(queues)]

    queues = {}
    for number, body in enumerate(numbered("selected ", 40)):
        result = sent(await producer.send(Message(topic, body.encode()), selector=by_number, arg=number))
        assert (result.queue.queue_id, result.queue_offset) == (number % 4, number // 4)
        queues[body] = result.queue
    hashed = sent(await producer.send(Message(topic, b"hashed"), selector=by_hash, arg="order-17"))
    queues["hashed"] = hashed.queue
    fixed = (await producer.queues(topic))[2]
    assert sent(await producer.send(Message(topic, b"fixed"), queue=fixed)).queue == fixed
    queues["fixed"] = fixed
    await inbox.exactly(queues)
    assert {arrival.body: arrival.message.queue for arrival in inbox.all} == queues


async def send_refused(stage: Stage) -> None:
    """Send what a broker does not take; our own limits must not be reached first, where they can be moved."""
    topic = await stage.topic(1)
    huge = 64 << 20
    producer = await stage.producer(message_bytes_max=huge, compress_over_bytes=huge, retries=0)
    with pytest.raises(SendFailed) as refused:
        await producer.send(Message(topic, bytes((4 << 20) + 100_000)))
    reason = refused.value.attempts[-1].error
    assert isinstance(reason, UnknownReplyError)
    assert reason.reply_code == ResponseCode.MESSAGE_ILLEGAL
    assert not refused.value.maybe_stored
    with pytest.raises(InvalidMessage, match="32767"):
        await producer.send(Message(topic, b"wordy", properties={"novel": "x" * 33_000}))
    inbox = await stage.inbox(topic)
    await send(producer, topic, "A", "after")
    await inbox.exactly(["after"])


async def request_reply(stage: Stage) -> None:
    topic = await stage.topic(2)
    replier = await stage.producer("PR")
    consumer = stage.consumer()
    consumer.subscribe(topic)

    @consumer.listener
    async def answer(messages: list[StoredMessage]) -> None:
        for message in messages:
            await replier.reply(message, b"reply to " + message.body, timeout=10)

    await stage.started(consumer)
    requester = await stage.producer("PQ")
    async with Producer(stage.unique("PL"), config=stage.config):
        pass  # a producer of the same client that leaves: brokers must not forget how to reach the others
    for body in numbered("request ", 3):
        reply = await requester.request(Message(topic, body.encode()), timeout=30)
        assert reply.body.decode() == f"reply to {body}"
    together = numbered("together ", 20)
    replies = await asyncio.gather(*(requester.request(Message(topic, each.encode()), timeout=30) for each in together))
    assert [reply.body.decode() for reply in replies] == [f"reply to {body}" for body in together]
    with pytest.raises(MQError):
        await replier.reply(replies[0], b"to nobody")


async def trace(stage: Stage) -> None:
    topic = await stage.topic(1)
    traced = await stage.inbox("RMQ_SYS_TRACE_TOPIC", word="GT")
    producer = await stage.producer(trace=True)
    consumer = stage.consumer(trace=True)
    consumer.subscribe(topic)
    inbox = await stage.inbox_of(consumer)
    result = sent(await producer.send(Message(topic, b"hello", tags="A", keys=["traced"])))
    await inbox.exactly(["hello"])

    def is_traced(kind: str) -> bool:
        return any(f"{kind}\x01" in body and result.message_id in body for body in traced.bodies)

    for kind in ("Pub", "SubBefore", "SubAfter"):
        await eventually(partial(is_traced, kind), f"a trace of kind {kind}", seconds=WAIT_S)
