"""Consumers that ask for messages themselves. As PullScenarios.java."""

import asyncio
import time
from collections.abc import Callable

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.pull_request import PullStatus
from hanabi.message import Message
from tests.interop.python_clients.stage import WAIT_S, Stage, numbered, send, sent


async def _send_all(stage: Stage, topic: str, count: int) -> list[str]:
    producer = await stage.producer()
    bodies = numbered("message ", count)
    for number, body in enumerate(bodies):
        await send(producer, topic, "even" if number // 2 % 2 == 0 else "odd", body)
    return bodies


async def pull(stage: Stage) -> None:
    topic = await stage.topic(2)
    before_all = time.time()
    bodies = await _send_all(stage, topic, 60)
    consumer = await stage.started(PullConsumer(stage.unique("G"), config=stage.config))
    queues = await consumer.queues_of(topic)
    assert len(queues) == 2
    found = []
    for queue in queues:
        end = await consumer.end_offset(queue)
        assert await consumer.begin_offset(queue) == 0
        assert await consumer.offset_for_time(queue, before_all - 60) == 0
        assert await consumer.committed(queue) in (None, 0)  # a young queue: some brokers say 0 for an unknown group
        offset = 0
        while offset < end:
            result = await consumer.pull(queue, offset, count=7)
            assert (result.status, result.max_offset) == (PullStatus.FOUND, end)
            assert len(result.messages) <= 7
            found += [message.body.decode() for message in result.messages]
            offset = result.next_offset
        assert (await consumer.pull(queue, end, count=7)).status is PullStatus.NO_NEW_MESSAGE
        too_far = await consumer.pull(queue, end + 1000, count=7)
        assert (too_far.status, too_far.next_offset) == (PullStatus.OFFSET_ILLEGAL, end)
        assert (await consumer.pull(queue, 0, "neither", count=7)).status is PullStatus.NO_MATCHED_MESSAGE
        even = await consumer.pull(queue, 0, "even", count=32)
        assert [message.tags for message in even.messages] == ["even"] * 15
        await consumer.commit({queue: end})
        assert await consumer.committed(queue) == end
    assert sorted(found) == sorted(bodies)
    queue = queues[0]
    producer = await stage.producer("P2")
    held = asyncio.create_task(consumer.pull(queue, await consumer.end_offset(queue), hold_s=20))
    await asyncio.sleep(1)
    sent(await producer.send(Message(topic, b"late"), queue=queue))
    result = await held
    assert (result.status, [message.body for message in result.messages]) == (PullStatus.FOUND, [b"late"])


def _lite(stage: Stage) -> LitePullConsumer:
    return LitePullConsumer(stage.unique("G"), config=stage.config, consume_from="first", auto_commit=False)


async def _polled(consumer: LitePullConsumer, enough: Callable[[set[str]], bool]) -> set[str]:
    found: set[str] = set()
    deadline = time.monotonic() + WAIT_S
    while not enough(found):
        assert time.monotonic() < deadline, f"found only {len(found)} messages"
        found |= {message.body.decode() for message in await consumer.poll(0.5)}
    return found


async def lite_pull_subscribe(stage: Stage) -> None:
    topic = await stage.topic(4)
    bodies = await _send_all(stage, topic, 80)
    first = _lite(stage)
    first.subscribe(topic)
    async with first:
        assert await _polled(first, lambda found: len(found) >= 80) == set(bodies)
        await first.commit()
    second = _lite(stage)
    second.subscribe(topic, "even")
    await stage.started(second)
    producer = await stage.producer("P2")
    await send(producer, topic, "odd", "not wanted")
    await send(producer, topic, "even", "new")
    assert await _polled(second, bool) == {"new"}


async def lite_pull_assign(stage: Stage) -> None:
    topic = await stage.topic(2)
    bodies = await _send_all(stage, topic, 40)
    consumer = _lite(stage)
    await stage.started(consumer)
    queues = await consumer.queues_of(topic)
    assert len(queues) == 2
    consumer.assign(queues)
    for queue in queues:
        await consumer.seek(queue, 10)
    half = await _polled(consumer, lambda found: len(found) >= 20)
    assert len(half) == 20
    for queue in queues:
        await consumer.seek_to_begin(queue)
    assert await _polled(consumer, lambda found: len(found) >= 40) == set(bodies)
    assert await consumer.offset_for_time(queues[0], 1.0) == 0
    await consumer.commit()
    assert await consumer.committed(queues[0]) == 20
    consumer.pause(queues)
    consumer.resume(queues)
