"""Several consumers of one group. As GroupScenarios.java."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.message import Message, StoredMessage
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.offsets import ResetOffset
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.offset import ResetOffsetHeader
from tests.interop.python_clients.stage import PATIENCE_S, WAIT_S, Inbox, Stage, now_ms, numbered, send, sent

Start: TypeAlias = Callable[[Stage, str, str, Inbox], Awaitable[PushConsumer]]


async def _member(stage: Stage, topic: str, name: str, inbox: Inbox, *, ordered: bool = False) -> PushConsumer:
    consumer = stage.consumer()
    consumer.subscribe(topic)

    @consumer.listener(ordered=ordered)
    def keep(messages: list[StoredMessage]) -> None:
        inbox.add(messages, name)

    return await stage.started(consumer)


async def _ordered_member(stage: Stage, topic: str, name: str, inbox: Inbox) -> PushConsumer:
    return await _member(stage, topic, name, inbox, ordered=True)


async def _shared(topic: str, queues: int, *consumers: PushConsumer) -> None:
    def equal_shares() -> bool:
        own = [{queue for queue in consumer.queues if queue.topic == topic} for consumer in consumers]
        return all(len(each) == queues // len(consumers) for each in own) and len(set().union(*own)) == queues

    await eventually(equal_shares, f"equal shares of {queues} queues for {len(consumers)}", seconds=WAIT_S)


async def clustering(stage: Stage) -> None:
    topic = await stage.topic(4)
    inbox = Inbox()
    members = [await _member(stage, topic, name, inbox) for name in ("first", "second")]
    await _shared(topic, 4, *members)
    producer = await stage.producer()
    bodies = numbered("shared ", 40)
    for body in bodies:
        await send(producer, topic, "A", body)
    await inbox.exactly(bodies)
    assert inbox.consumers == {"first", "second"}


async def broadcasting(stage: Stage) -> None:
    topic = await stage.topic(2)
    inboxes = []
    for _ in range(2):
        consumer = stage.consumer(broadcasting=True)
        consumer.subscribe(topic)
        inboxes.append(await stage.inbox_of(consumer))
    producer = await stage.producer()
    bodies = numbered("to all ", 20)
    for body in bodies:
        await send(producer, topic, "A", body)
    for inbox in inboxes:
        await inbox.exactly(bodies)


async def _come_and_go(stage: Stage, topic: str, queues: int, start: Start) -> Inbox:
    """Send slowly while a second member joins and the first leaves."""
    inbox = Inbox()
    producer = await stage.producer()
    targets = await producer.queues(topic)
    first = await start(stage, topic, "first", inbox)
    await _shared(topic, queues, first)
    second: PushConsumer | None = None
    bodies = []
    for part in range(4):
        for number in range(60):
            body = f"part {part} number {number:03}"
            sent(await producer.send(Message(topic, body.encode()), queue=targets[number % queues]))
            bodies.append(body)
            await asyncio.sleep(0.005)
        if part == 0:
            second = await start(stage, topic, "second", inbox)
            await _shared(topic, queues, first, second)
        elif part == 1:
            await first.shutdown()
        elif part == 2:
            assert second is not None
            await _shared(topic, queues, second)
    await inbox.bodies_came(bodies)
    assert inbox.consumers == {"first", "second"}
    return inbox


async def join_and_leave(stage: Stage) -> None:
    await _come_and_go(stage, await stage.topic(4), 4, _member)


async def join_and_leave_orderly(stage: Stage) -> None:
    inbox = await _come_and_go(stage, await stage.topic(4), 4, _ordered_member)
    last: dict[int, int] = {}
    for arrival in inbox.all:  # one may come twice when its queue changes hands, but none too early
        queue, offset = arrival.message.queue_id, arrival.message.queue_offset
        before = last.get(queue, -1)
        assert offset <= before + 1, f"queue {queue} goes from {before} to {offset}"
        last[queue] = max(offset, before)


async def reset_offset(stage: Stage) -> None:
    topic = await stage.topic(2)
    producer = await stage.producer()
    inbox = Inbox()
    consumer = await _member(stage, topic, "only", inbox)
    old, recent = numbered("old ", 10), numbered("recent ", 10)
    for body in old:
        await send(producer, topic, "A", body)
    await inbox.exactly(old)
    await asyncio.sleep(2)  # 4.9 takes the message that is nearest to the time, be it before or after
    since = now_ms()
    for body in recent:
        await send(producer, topic, "A", body)
    await inbox.bodies_came(recent)
    header = ResetOffsetHeader(topic=topic, group=consumer.group, timestamp=since, is_force=True)
    core = await stage.core()
    reply = await core.api.ask(
        await stage.broker(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout=PATIENCE_S
    )
    assert sum(decode_body(reply.body, ResetOffset).offset_table.values()) == 10
    await eventually(
        lambda: all(inbox.bodies.count(body) == 2 for body in recent),
        lambda: f"each recent message twice, found {inbox.bodies}",
        seconds=WAIT_S,
    )
    assert all(inbox.bodies.count(body) == 1 for body in old)
