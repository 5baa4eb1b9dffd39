"""Push consumers: at once and in order, with filters. As PushScenarios.java."""

import time
from collections import Counter

import pytest

from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.pull_request import HOLD_S
from hanabi.client.consumer.subscription import sql
from hanabi.errors import SubscriptionParseFailed
from hanabi.message import Message, StoredMessage
from tests.interop.python_clients.stage import Inbox, Stage, numbered, send, sent


async def push_concurrently(stage: Stage) -> None:
    topic = await stage.topic(4)
    producer = await stage.producer()
    before, after = numbered("before ", 100), numbered("after ", 100)
    for body in before:
        await send(producer, topic, "A", body)
    consumer = stage.consumer(consume_batch=8)
    consumer.subscribe(topic)
    inbox = Inbox()

    @consumer.listener
    def keep(messages: list[StoredMessage]) -> None:  # in threads
        assert len(messages) <= 8
        inbox.add(messages)

    await stage.started(consumer)
    for body in after:
        await send(producer, topic, "A", body)
    await inbox.exactly(before + after)
    began = time.monotonic()
    await send(producer, topic, "A", "last")
    await inbox.bodies_came(["last"])
    assert time.monotonic() - began < HOLD_S, "a waiting consumer got a message only when it asked again"


async def push_orderly(stage: Stage) -> None:
    queues = 3
    topic = await stage.topic(queues)
    producer = await stage.producer()
    consumer = stage.consumer()
    consumer.subscribe(topic)
    inbox = Inbox()
    inside: Counter[int] = Counter()
    overlaps = 0
    failed_once: set[str] = set()

    @consumer.listener(ordered=True)
    def keep(messages: list[StoredMessage]) -> None:
        nonlocal overlaps
        queue_id = messages[0].queue_id
        inside[queue_id] += 1
        overlaps += inside[queue_id] > 1
        try:
            body = messages[0].body.decode()
            if body.endswith(" 5") and body not in failed_once:
                failed_once.add(body)
                raise ConsumeLater("once", suspend_s=0.2)
            inbox.add(messages)
        finally:
            inside[queue_id] -= 1

    await stage.started(consumer)
    everything = []
    targets = await producer.queues(topic)
    for number in range(30):
        for queue in targets:
            body = f"queue {queue.queue_id} {number}"
            sent(await producer.send(Message(topic, body.encode()), queue=queue))
            everything.append(body)
    await inbox.exactly(everything)
    for queue in targets:
        offsets = [arrival.message.queue_offset for arrival in inbox.all if arrival.message.queue == queue]
        assert offsets == list(range(30))
    assert len(failed_once) == queues
    assert overlaps == 0


async def filter_tags(stage: Stage) -> None:
    topic = await stage.topic(1)
    producer = await stage.producer()
    inbox = await stage.inbox(topic, "red || blue || end")
    # "Aa" and "BB" have one hash in Java: the client itself must tell them apart.
    twin = await stage.inbox(topic, "Aa || end", word="GH")
    for tag in ("red", "green", "blue", "Aa", "BB", "green", "end"):
        await send(producer, topic, tag, tag)
    await send(producer, topic, None, "no tag at all")
    await send(producer, topic, "end", "end again")
    await inbox.exactly(["red", "blue", "end", "end again"])
    await twin.exactly(["Aa", "end", "end again"])


async def filter_sql(stage: Stage) -> None:
    topic = await stage.topic(1)
    producer = await stage.producer()
    expression = sql("(size BETWEEN 3 AND 5 AND colour IN ('red', 'blue')) OR mark IS NOT NULL")
    inbox = await stage.inbox(topic, expression)
    for colour in ("red", "green", "blue"):
        for size in range(1, 7):
            properties = {"colour": colour, "size": str(size)}
            sent(await producer.send(Message(topic, f"{colour} {size}".encode(), properties=properties)))
    sent(await producer.send(Message(topic, b"mark", properties={"mark": "x"})))
    await inbox.exactly([*(f"{colour} {size}" for colour in ("red", "blue") for size in (3, 4, 5)), "mark"])


async def filter_sql_broken(stage: Stage) -> None:
    topic = await stage.topic(1)
    with pytest.raises(SubscriptionParseFailed):
        await stage.inbox(topic, sql("size BETWEEN 3 AND"))


async def consume_from_last(stage: Stage) -> None:
    """Check that a new group begins behind what was there, unless nothing was ever deleted from the queue."""
    topic = await stage.topic(1)
    producer = await stage.producer()
    await send(producer, topic, "A", "first")
    await (await stage.inbox(topic)).exactly(["first"])
    consumer = stage.consumer("GL", consume_from="last")
    consumer.subscribe(topic)
    inbox = await stage.inbox_of(consumer)
    await inbox.bodies_came(["first"])
    await send(producer, topic, "A", "second")
    await inbox.exactly(["first", "second"])
