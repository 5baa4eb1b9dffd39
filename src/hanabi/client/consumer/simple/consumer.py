"""Simple consumer for asyncio. `hanabi.SimpleConsumer` is the same for blocking programs.

The program receives messages, acknowledges each of them, and may hide one for longer or for less. The broker
distributes messages, not queues (POP of 5.x): any number of members share a topic. Has the methods of SimpleConsumer in
Apache's clients of 5.x.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final, Unpack

import msgspec

from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.consumer.config.pull_config import split_options
from hanabi.client.consumer.config.simple_config import BATCH_MAX, SimpleConfig
from hanabi.client.consumer.pull.lite_member import LiteMember
from hanabi.client.consumer.pull_request import wanted
from hanabi.client.consumer.simple.popping import Place, Popping
from hanabi.client.consumer.subscription import ALL, Expression, subscription_data
from hanabi.client.namespace import unwrap, wrap
from hanabi.client.options import SimpleOptions
from hanabi.client.participant import Participant
from hanabi.client.validation import check_group
from hanabi.clock import wall_ms
from hanabi.errors import ConfigError, MQError
from hanabi.message import StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData

_POLL_S_MAX: Final = 20.0  # of one request; a longer wait takes several

logger = logging.getLogger(__name__)


class SimpleConsumer(Participant):
    """A group member that receives messages and acknowledges each of them.

        consumer = SimpleConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("Orders", "created || paid")
        async with consumer:
            for message in await consumer.receive():        # hidden from the other members for 60 s
                ...
                await consumer.ack(message)                 # or change_invisible(message, 10): try again in 10 s

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `SimpleConfig` (how to receive); both may
    be given whole, as *config* and *settings*. Everything but the constructor belongs to one event loop; any number of
    tasks may receive and acknowledge. A message that is not acknowledged in time is delivered again.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: SimpleConfig | None = None,
        **options: Unpack[SimpleOptions],
    ) -> None:
        check_group(group)
        self.settings, others = split_options(settings or SimpleConfig(), options)
        super().__init__("consumer", group, client_config(config, others, self.settings.__struct_fields__))
        self._namespace = self.config.namespace
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._core: Core | None = None
        self._popping: Popping | None = None
        self._turn = 0

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Receive messages of *topic*: all, some tags ("a || b"), or a `hanabi.sql` filter. Also allowed while
        running."""
        if not topic or topic.isspace():
            raise ConfigError(f"topic {topic!r}: a topic must have a name")
        wire_topic = wrap(self._namespace, topic)
        self._subscriptions[wire_topic] = subscription_data(wire_topic, expression, wall_ms())

    def unsubscribe(self, topic: str) -> None:
        """Stop receiving messages of *topic*."""
        self._subscriptions.pop(wrap(self._namespace, topic), None)

    # Start and shutdown

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        if self._core is None:
            raise self._not_running("call start() first")
        return self._core.client_id

    async def _join(self, undo: AsyncExitStack) -> None:
        core = await Core.acquire(self.config, consumer_group=self._wire_group)
        undo.push_async_callback(core.release, consumer_group=self._wire_group)
        member = LiteMember(
            self._wire_group,
            broadcasting=False,
            subscriptions=lambda: list(self._subscriptions.values()),
            queues=dict,
            persist=_nothing_to_save,
            rebalance_soon=lambda: None,
            reset=lambda _: None,
        )
        await core.add_consumer(self._wire_group, member)
        undo.push_async_callback(core.remove_consumer, self._wire_group)
        self._core = core
        self._popping = Popping(
            core,
            self._wire_group,
            ordered=self.settings.ordered,
            starts_at_oldest=self.settings.start_from == "first",
        )
        logger.info("consumer %s of group %s is started", core.client_id, self.group)

    async def _leave(self, _seconds: float | None) -> None:
        logger.info("consumer %s of group %s leaves", self.client_id, self.group)
        self._drop()

    def _drop(self) -> None:
        self._core = self._popping = None

    # Messages

    async def receive(
        self, count: int | None = None, *, invisible_s: float | None = None, wait_s: float | None = None
    ) -> list[StoredMessage]:
        """Return the next messages, at most *count*; none if there are none within *wait_s* seconds. They are hidden
        from the other members for *invisible_s* seconds. Defaults are in the settings.

        `reconsume_times` of a message says how often it was delivered before.
        """
        popping, settings = self._started(), self.settings
        count = settings.batch if count is None else count
        hidden_s = settings.invisible_s if invisible_s is None else invisible_s
        if not 1 <= count <= BATCH_MAX:
            raise ConfigError(f"receive: count must be between 1 and {BATCH_MAX}, not {count!r}")
        if not hidden_s > 0:
            raise ConfigError(f"receive: invisible_s must be more than 0, not {hidden_s!r}")
        if not self._subscriptions:
            raise ConfigError(f"{self.what} has no subscription: call subscribe() first")
        ends = time.monotonic() + (settings.wait_s if wait_s is None else wait_s)
        return await self._receive(popping, count, round(hidden_s * 1_000), ends)

    async def _receive(self, popping: Popping, count: int, invisible_ms: int, ends: float) -> list[StoredMessage]:
        while True:
            places = await self._places(popping)
            left_s = max(0.0, min(ends - time.monotonic(), _POLL_S_MAX))
            wait_ms = round(left_s * 1_000) if len(places) == 1 else 0
            found = await self._pop_first(popping, places, count, invisible_ms, wait_ms)
            left_s = max(0.0, min(ends - time.monotonic(), _POLL_S_MAX))
            if found or left_s == 0.0:
                return found
            if len(places) != 1:
                await _first_with_messages(popping, places, round(left_s * 1_000))

    async def _places(self, popping: Popping) -> list[Place]:
        """Return all topics at all brokers, each time from the next one on."""
        places = [place for topic in list(self._subscriptions) for place in await popping.places(topic)]
        self._turn += 1
        first = self._turn % len(places) if places else 0
        return places[first:] + places[:first]

    async def _pop_first(
        self, popping: Popping, places: list[Place], count: int, invisible_ms: int, wait_ms: int
    ) -> list[StoredMessage]:
        """Return messages of the first place that has some. A broker that fails does not hide the others."""
        failures: list[MQError] = []
        for place in places:
            subscription = self._subscriptions.get(place.topic)
            if subscription is None:
                continue
            try:
                found = await popping.pop(place, subscription, count=count, invisible_ms=invisible_ms, wait_ms=wait_ms)
            except MQError as error:
                failures.append(error)
                continue
            matching = await self._matching(popping, found, subscription)
            if matching:
                return [self._own(message) for message in matching]
        if failures and len(failures) == len(places):
            raise failures[0]
        for failure in failures:
            logger.warning("%s: %s", self.what, failure)
        return []

    async def _matching(
        self, popping: Popping, found: list[StoredMessage], subscription: SubscriptionData
    ) -> list[StoredMessage]:
        """Return the messages with a subscribed tag, and acknowledge the others: a broker compares only hash codes."""
        matching = wanted(found, subscription)
        if len(matching) != len(found):
            for message in found:
                if message not in matching:
                    await popping.acknowledge(message, subscription.topic)
        return matching

    async def ack(self, message: StoredMessage) -> None:
        """Acknowledge a received message: it is not delivered again. An expired one is, in spite of this call."""
        await self._started().acknowledge(message, wrap(self._namespace, message.topic))

    async def ack_all(self, messages: Iterable[StoredMessage]) -> None:
        """Acknowledge several received messages."""
        await asyncio.gather(*(self.ack(message) for message in messages))

    async def change_invisible(self, message: StoredMessage, invisible_s: float) -> StoredMessage:
        """Hide a received message for *invisible_s* seconds from now on: longer, to finish it, or shortly, to have it
        delivered again. Return it with its new receipt. An expired message raises."""
        if not invisible_s >= 0:
            raise ConfigError(f"change_invisible: invisible_s must not be negative, but is {invisible_s!r}")
        topic = wrap(self._namespace, message.topic)
        return await self._started().change(message, topic, round(invisible_s * 1_000))

    def _started(self) -> Popping:
        if self._popping is None:
            raise self._not_running("call start() first")
        return self._popping

    def _own(self, message: StoredMessage) -> StoredMessage:
        if not self._namespace:
            return message
        return msgspec.structs.replace(message, topic=unwrap(self._namespace, message.topic))


async def _first_with_messages(popping: Popping, places: list[Place], wait_ms: int) -> None:
    """Wait until a pop at one of *places* would find something. Nothing is lost when the others are given up."""
    tasks = [asyncio.create_task(popping.has_messages(place, wait_ms=wait_ms)) for place in places]
    try:
        for done in asyncio.as_completed(tasks):
            try:
                if await done:
                    return
            except MQError as error:
                logger.warning("a broker does not tell whether it has messages: %s", error)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing_to_save() -> None:
    """Do nothing: the brokers keep the offsets."""
