"""Simple consumer for blocking programs: same arguments and results as the asyncio class.

Contains no logic: each call is passed to the loop thread of this process and waited for.
"""

from collections.abc import Iterable
from typing import Unpack, cast

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.simple_config import SimpleConfig
from hanabi.client.consumer.simple.consumer import SimpleConsumer as AsyncSimpleConsumer
from hanabi.client.consumer.subscription import ALL, Expression
from hanabi.client.options import SimpleOptions
from hanabi.message import StoredMessage


class SimpleConsumer(BlockingParticipant[AsyncSimpleConsumer]):
    """A group member that receives messages and acknowledges each of them.

        consumer = SimpleConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("Orders", "created || paid")
        with consumer:
            for message in consumer.receive():              # hidden from the other members for 60 s
                ...
                consumer.ack(message)                       # or change_invisible(message, 10): try again in 10 s

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `SimpleConfig` (how to receive); both may
    be given whole, as *config* and *settings*. All threads may use one consumer at once. A message that is not
    acknowledged in time is delivered again.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: SimpleConfig | None = None,
        **options: Unpack[SimpleOptions],
    ) -> None:
        super().__init__(AsyncSimpleConsumer(group, config=config, settings=settings, **options))

    @property
    def settings(self) -> SimpleConfig:
        return self._aio.settings

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Receive messages of *topic*: all, some tags ("a || b"), or a `hanabi.sql` filter. Also allowed while
        running."""
        self._life.call(lambda: self._aio.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Stop receiving messages of *topic*."""
        self._life.call(lambda: self._aio.unsubscribe(topic))

    def receive(
        self, count: int | None = None, *, invisible_s: float | None = None, wait_s: float | None = None
    ) -> list[StoredMessage]:
        """Return the next messages, at most *count*; none if there are none within *wait_s* seconds. They are hidden
        from the other members for *invisible_s* seconds. Defaults are in the settings.

        `reconsume_times` of a message says how often it was delivered before.
        """
        asking = self._aio.receive(count, invisible_s=invisible_s, wait_s=wait_s)
        return cast(list[StoredMessage], self._life.run(asking))

    def ack(self, message: StoredMessage) -> None:
        """Acknowledge a received message: it is not delivered again. An expired one is, in spite of this call."""
        self._life.run(self._aio.ack(message))

    def ack_all(self, messages: Iterable[StoredMessage]) -> None:
        """Acknowledge several received messages."""
        self._life.run(self._aio.ack_all(list(messages)))

    def change_invisible(self, message: StoredMessage, invisible_s: float) -> StoredMessage:
        """Hide a received message for *invisible_s* seconds from now on: longer, to finish it, or shortly, to have it
        delivered again. Return it with its new receipt. An expired message raises."""
        return cast(StoredMessage, self._life.run(self._aio.change_invisible(message, invisible_s)))
