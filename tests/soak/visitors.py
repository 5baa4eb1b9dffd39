"""Clients that come, do a little of everything, and go: each coroutine here is one visit.

What is left of a visit when it is over is what a soak looks for.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import hanabi
import hanabi.aio as aio
from hanabi.client.config import ClientConfig
from hanabi.errors import MQError
from hanabi.message import Message, StoredMessage

TOPIC: Final = "Soak"
OTHER_TOPIC: Final = "Visits"
GROUP: Final = "SoakGroup"
STAY_S: Final = 0.3

Arrived = Callable[[list[StoredMessage]], None]
Visit = Callable[[str, Arrived], Awaitable[None]]


def at(namesrv: str) -> ClientConfig:
    return ClientConfig(namesrv=namesrv, request_timeout_s=2.0)


async def a_member_joins_and_leaves(namesrv: str, arrived: Arrived) -> None:
    """Join and leave: queues are taken from the other members and given back."""
    consumer = aio.PushConsumer(GROUP, config=at(namesrv), consume_from="first")
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def count(messages: list[StoredMessage]) -> None:
        arrived(messages)

    async with consumer:
        await asyncio.sleep(STAY_S)


async def one_that_leaves_at_once(namesrv: str, arrived: Arrived) -> None:
    consumer = aio.PushConsumer(GROUP, config=at(namesrv), consume_from="first")
    consumer.subscribe(TOPIC)
    consumer.listener(lambda messages: arrived(messages))
    async with consumer:
        pass


async def one_that_gives_up_while_it_starts(namesrv: str, arrived: Arrived) -> None:
    consumer = aio.PushConsumer(GROUP, config=at(namesrv), consume_from="first")
    consumer.subscribe(TOPIC)
    consumer.listener(lambda messages: arrived(messages))
    starting = asyncio.ensure_future(consumer.start())
    await asyncio.sleep(0)
    await consumer.shutdown()
    with contextlib.suppress(MQError):
        await starting
    await consumer.shutdown()


async def an_ordered_one(namesrv: str, arrived: Arrived) -> None:
    del arrived
    consumer = aio.PushConsumer("SoakOrdered", config=at(namesrv), consume_from="first")
    consumer.subscribe(OTHER_TOPIC)

    @consumer.listener(ordered=True)
    async def nothing(messages: list[StoredMessage]) -> None:
        await asyncio.sleep(0)

    async with consumer:
        await asyncio.sleep(STAY_S)


async def one_that_broadcasts(namesrv: str, arrived: Arrived) -> None:
    del arrived
    consumer = aio.PushConsumer("SoakBroadcast", config=at(namesrv), broadcasting=True, client_id="soak")
    consumer.subscribe(OTHER_TOPIC)
    consumer.listener(lambda messages: None)
    async with consumer:
        await asyncio.sleep(STAY_S)


async def one_that_polls(namesrv: str, arrived: Arrived) -> None:
    del arrived
    consumer = aio.LitePullConsumer("SoakLite", config=at(namesrv), consume_from="first")
    consumer.subscribe(OTHER_TOPIC)
    async with consumer:
        for _ in range(3):
            await consumer.poll(timeout=STAY_S / 3)


async def a_producer(namesrv: str, arrived: Arrived) -> None:
    del arrived
    async with aio.Producer("SoakVisitors", config=at(namesrv), trace=True) as producer:
        await producer.send(Message(OTHER_TOPIC, b"x" * 5_000, keys=["k"]))
        await producer.send_batch([Message(OTHER_TOPIC, b"y")] * 10)
        await producer.send_oneway(Message(OTHER_TOPIC, b"z"))


async def transactions(namesrv: str, arrived: Arrived) -> None:
    del arrived
    state = hanabi.TransactionState
    producer = aio.TransactionProducer("SoakTransactions", config=at(namesrv), check=lambda _: state.COMMIT)
    async with producer:
        for answer in (state.COMMIT, state.ROLLBACK, None):  # about the last one the broker asks
            await producer.send_in_transaction(Message(OTHER_TOPIC, b"t"), lambda *_, answer=answer: answer)


async def blocking_ones(namesrv: str, arrived: Arrived) -> None:
    """Start and stop with the loop thread, which comes and goes with them."""
    del arrived

    def visit() -> None:
        consumer = hanabi.PushConsumer("SoakBlocking", config=at(namesrv))
        consumer.subscribe(OTHER_TOPIC)
        consumer.listener(lambda messages: None)
        with consumer, hanabi.Producer("SoakVisitors", config=at(namesrv)) as producer:
            producer.send(Message(OTHER_TOPIC, b"blocking"))
            producer.send_many([Message(OTHER_TOPIC, b"blocking")] * 20)

    await asyncio.to_thread(visit)


VISITS: Final[tuple[Visit, ...]] = (
    a_member_joins_and_leaves,
    one_that_leaves_at_once,
    one_that_gives_up_while_it_starts,
    an_ordered_one,
    one_that_broadcasts,
    one_that_polls,
    a_producer,
    transactions,
    blocking_ones,
)
