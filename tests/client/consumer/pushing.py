"""Parts that tests of the push consumer share: a consumer that remembers, and a way to send."""

from collections.abc import Iterable
from typing import Any

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, MessageQueue, StoredMessage
from hanabi.testing.cluster import Cluster


class Inbox:
    """A consumer whose listener keeps what it gets."""

    def __init__(self, cluster: Cluster, group: str, topic: str = "T", expression: Any = "*", **options: Any) -> None:
        self.messages: list[StoredMessage] = []
        self.batches: list[int] = []
        ordered = options.pop("ordered", False)
        settings = {"consume_from": "first", "shutdown_timeout_s": 5.0, **options}
        client = {name: settings.pop(name) for name in ClientConfig.__struct_fields__ if name in settings}
        self.consumer = PushConsumer(group, config=cluster.config(**client), **settings)
        self.consumer.subscribe(topic, expression)
        self.consumer.listener(ordered=ordered)(self.take)

    async def take(self, messages: list[StoredMessage]) -> None:
        self.batches.append(len(messages))
        self.messages += messages

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def __aenter__(self) -> "Inbox":
        await self.consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.shutdown()


async def send(
    cluster: Cluster, bodies: Iterable[bytes], topic: str = "T", *, queue_id: int | None = None, **fields: Any
) -> None:
    """Send messages with these bodies, to one queue or to all in turn."""
    queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
    async with Producer("senders", config=cluster.config()) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **fields), queue=queue)


def committed(cluster: Cluster, group: str, topic: str = "T") -> dict[int, int]:
    """Return the offsets that the broker keeps for *group*."""
    return dict(cluster.broker.tables.offsets.of(group, topic))


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [f"{number:04}".encode() for number in range(start, start + count)]
