"""One scenario's place: names of its own, and everything that it started, to be ended after it. As Stage.java."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Protocol, TypeVar

from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.subscription import Expression
from hanabi.client.producer.producer import Producer
from hanabi.client.send_result import SendResult, SendStatus
from hanabi.errors import MQError
from hanabi.message import Message, StoredMessage
from hanabi.testing.topics import plain_topic
from hanabi.testing.waiting import eventually

PATIENCE_S = 20.0  # of requests: what is slow here is the machine
WAIT_S = 60.0  # for what must happen
BROKER = "broker-a"


class Client(Protocol):
    async def start(self) -> None: ...

    async def shutdown(self) -> None: ...


C = TypeVar("C", bound=Client)


class Arrival(NamedTuple):
    message: StoredMessage
    at_ms: int
    consumer: str

    @property
    def body(self) -> str:
        return self.message.body.decode()


class Inbox:
    """The messages that consumers got, in the order in which they got them. Threads may add to it."""

    def __init__(self) -> None:
        self.all: list[Arrival] = []

    def add(self, messages: Collection[StoredMessage], consumer: str = "") -> None:
        self.all += [Arrival(message, now_ms(), consumer) for message in messages]

    @property
    def bodies(self) -> list[str]:
        return [arrival.body for arrival in self.all]

    @property
    def consumers(self) -> set[str]:
        return {arrival.consumer for arrival in self.all}

    async def bodies_came(self, expected: Collection[str]) -> None:
        """Wait until each of these has come."""
        missing = set(expected)
        seen = 0

        def all_came() -> bool:
            nonlocal seen
            new, seen = self.all[seen:], len(self.all)
            missing.difference_update(arrival.body for arrival in new)
            return not missing

        await eventually(
            all_came,
            lambda: f"{len(missing)} of {len(expected)} messages, one of them {min(missing)[:80]!r}",
            seconds=WAIT_S,
        )

    async def exactly(self, expected: Collection[str]) -> None:
        """Wait until these have come; then no others must be there, nor one twice."""
        await self.bodies_came(expected)
        assert Counter(self.bodies) == Counter(list(expected))  # of a dict too


class Stage:
    """Parts that a scenario gets."""

    def __init__(self, namesrv: str, name: str, stack: AsyncExitStack) -> None:
        self.namesrv, self.name = namesrv, name
        self._stack = stack
        self._core: Core | None = None

    def unique(self, what: str) -> str:
        """Return a name that nothing else has on this broker."""
        return f"{what}_{self.name}"

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(namesrv=self.namesrv, request_timeout_s=PATIENCE_S)

    async def core(self) -> Core:
        """Return the administration, for questions that tools ask."""
        if self._core is None:
            self._core = await Core.acquire(self.config)
            self.at_end(self._core.release)
        return self._core

    def at_end(self, ending: Callable[[], Awaitable[object]]) -> None:
        self._stack.push_async_callback(ending)

    async def topic(self, queues: int, word: str = "T", *, attributes: str | None = None) -> str:
        """Return a new topic; clients can find it when this returns. *attributes* are 5.x's."""
        topic, core = self.unique(word), await self.core()
        header = plain_topic(topic, queues, attributes=attributes)
        await core.api.create_topic(await self.broker(), header, PATIENCE_S)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                await core.routes.find(topic, fresh=True)
                return topic
            except MQError:
                assert time.monotonic() < deadline, f"no route for {topic}"
                await asyncio.sleep(0.02)

    async def broker(self) -> str:
        """Return the address of the one broker."""
        core = await self.core()
        info = await core.api.cluster_info(core.config.namesrv_addresses[0], PATIENCE_S)
        return info.broker_addr_table[BROKER].broker_addrs[0]

    async def producer(self, word: str = "P", **options: Any) -> Producer:
        """Return a started one."""
        return await self.started(Producer(self.unique(word), config=self.config, **self.patient(options)))

    @staticmethod
    def patient(options: dict[str, Any]) -> dict[str, Any]:
        return {"send_timeout_s": PATIENCE_S, **options}

    async def started(self, client: C) -> C:
        """*client*, started, and shut down at the end."""
        await client.start()
        self.at_end(client.shutdown)
        return client

    def consumer(self, word: str = "G", **options: Any) -> PushConsumer:
        """Return one that is not started; begins with the oldest message."""
        chosen: dict[str, Any] = {"consume_from": "first", "concurrency": 4, **options}
        return PushConsumer(self.unique(word), config=self.config, **chosen)

    async def inbox(self, topic: str, expression: Expression = "*", word: str = "G_IN") -> Inbox:
        """Return a started consumer that keeps all it gets."""
        consumer = self.consumer(word)
        consumer.subscribe(topic, expression)
        return await self.inbox_of(consumer)

    async def inbox_of(self, consumer: PushConsumer) -> Inbox:
        inbox = Inbox()

        @consumer.listener
        async def keep(messages: list[StoredMessage]) -> None:
            inbox.add(messages)

        await self.started(consumer)
        return inbox


def numbered(word: str, count: int) -> list[str]:
    return [f"{word}{number}" for number in range(count)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def send(producer: Producer, topic: str, tags: str | None, body: str) -> SendResult:
    return sent(await producer.send(Message(topic, body.encode(), tags=tags)))


def sent(result: SendResult) -> SendResult:
    assert result.status is SendStatus.SEND_OK
    return result
