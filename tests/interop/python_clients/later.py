"""Messages that come later: delayed, timed, and those that were not consumed. Level 1 is 1 s, level 2 is 3 s.

As LaterScenarios.java.
"""

import asyncio
import itertools
import time

import pytest

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.errors import MQError, SendFailed, UnknownReplyError
from hanabi.message import Message, StoredMessage
from hanabi.wire.codes import ResponseCode
from tests.interop.python_clients.stage import WAIT_S, Inbox, Stage, now_ms, send, sent


async def delay_level(stage: Stage) -> None:
    topic = await stage.topic(2)
    inbox = await stage.inbox(topic, "late || now")
    producer = await stage.producer()
    sent_at = now_ms()
    expected = []
    for level in (2, 1, 0):
        for number in range(5):
            body = f"{level} {number}"
            message = Message(
                topic,
                body.encode(),
                tags="late" if level else "now",
                keys=["key"],
                properties={"mine": "kept"},
                delay_level=level,
            )
            sent(await producer.send(message))
            expected.append(body)
    await inbox.exactly(expected)
    least_ms = (0, 1_000, 3_000)
    for arrival in inbox.all:
        waited = arrival.at_ms - sent_at
        assert waited >= least_ms[int(arrival.body[0])] - 50, f"{arrival.body} came after {waited} ms"
        stored = arrival.message
        assert (stored.topic, stored.keys, stored.properties["mine"]) == (topic, ("key",), "kept")


async def timer(stage: Stage) -> None:
    topic = await stage.topic(1)
    inbox = await stage.inbox(topic)
    producer = await stage.producer()
    sent_at = now_ms()
    sent(await producer.send(Message(topic, b"moment", deliver_time_ms=sent_at + 4_000)))
    await send(producer, topic, "A", "now")
    await inbox.exactly(["moment", "now"])
    for arrival in inbox.all:
        waited = arrival.message.store_timestamp_ms - sent_at  # when it came to its topic, by the broker's clock
        assert (arrival.body == "moment") == (waited > 2_900), f"{arrival.body} came after {waited} ms"
    with pytest.raises(SendFailed) as refused:
        await producer.send(Message(topic, b"too late", deliver_time_ms=sent_at + 30 * 24 * 3_600_000))
    reason = refused.value.attempts[-1].error
    assert isinstance(reason, UnknownReplyError)
    assert reason.reply_code == ResponseCode.MESSAGE_ILLEGAL


async def retry_and_dead_letter(stage: Stage) -> None:
    topic = await stage.topic(1)
    consumer = stage.consumer(max_reconsume_times=2)
    consumer.subscribe(topic)
    inbox = Inbox()

    @consumer.listener
    async def fail(messages: list[StoredMessage]) -> None:
        inbox.add(messages)
        (message,) = messages
        if message.body == b"bad" or (message.body == b"late" and message.reconsume_times != 1):
            raise RuntimeError("not now")

    await stage.started(consumer)
    producer = await stage.producer()
    bad = sent(await producer.send(Message(topic, b"bad", tags="A", keys=["key"])))
    await send(producer, topic, "A", "late")
    await send(producer, topic, "A", "good")
    await inbox.bodies_came(["bad", "late", "good"])
    (dead,) = await _dead_letters(stage, consumer.group)
    assert (dead.body, dead.message_id, dead.keys) == (b"bad", bad.message_id, ("key",))
    assert dead.properties["ORIGIN_MESSAGE_ID"] == bad.offset_message_id
    tries = [arrival for arrival in inbox.all if arrival.body == "bad"]
    assert [arrival.message.reconsume_times for arrival in tries] == [0, 1, 2]
    assert {(arrival.message.topic, arrival.message.message_id) for arrival in tries} == {(topic, bad.message_id)}
    for earlier, later in itertools.pairwise(tries):
        assert later.at_ms - earlier.at_ms >= 900, "a retry came too early"
    assert (inbox.bodies.count("late"), inbox.bodies.count("good")) == (2, 1)


async def _dead_letters(stage: Stage, group: str) -> list[StoredMessage]:
    puller = await stage.started(PullConsumer(stage.unique("GD"), config=stage.config))
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            queues = await puller.queues_of(f"%DLQ%{group}")
        except MQError:  # the topic is made with its first message
            queues = []
        for queue in queues:
            if messages := (await puller.pull(queue, 0)).messages:
                return messages
        await asyncio.sleep(0.2)
    raise AssertionError(f"no dead letter within {WAIT_S:.0f} s")
