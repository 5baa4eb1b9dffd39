"""Pull consumer for asyncio: pulls messages of a queue from an offset; the program keeps track of offsets.

`LitePullConsumer` tracks offsets itself. Agrees with Java's DefaultMQPullConsumer.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Unpack

import msgspec

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess, milliseconds
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.consumer.config.pull_config import PullConfig, split_options
from hanabi.client.consumer.listening.send_back import SendBack
from hanabi.client.consumer.offsets.offset_store import LocalOffsets, OffsetStore, ReadFrom, RemoteOffsets
from hanabi.client.consumer.pull.lite_member import LiteMember
from hanabi.client.consumer.pull_request import COUNT, Pulling, PullResult, restored
from hanabi.client.consumer.subscription import ALL, Expression, subscription_data
from hanabi.client.hooks import ConsumeHooks, report_pulled
from hanabi.client.namespace import retry_topic, unwrap, wrap
from hanabi.client.observe.tracing import Tracing, tracing
from hanabi.client.options import PullOptions
from hanabi.client.participant import Participant
from hanabi.client.producer.producer import trace_producer
from hanabi.client.validation import check_group
from hanabi.clock import wall_ms
from hanabi.errors import ConfigError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData

logger = logging.getLogger(__name__)


class PullConsumer(Participant):
    """Pulls messages for a group, from queues and offsets that the program chooses.

        async with PullConsumer("reports", namesrv="127.0.0.1:9876") as consumer:
            for queue in await consumer.queues_of("Orders"):
                offset = await consumer.committed(queue) or await consumer.begin_offset(queue)
                result = await consumer.pull(queue, offset)
                ...                                         # result.messages
                await consumer.commit({queue: result.next_offset})

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `PullConfig` (how to pull); both may be
    given whole, as *config* and *settings*. Everything but the constructor belongs to one event loop.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: PullConfig | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        check_group(group)
        self.settings, others = split_options(settings or PullConfig(), options)
        super().__init__("consumer", group, client_config(config, others, self.settings.__struct_fields__))
        self._namespace = self.config.namespace
        self._subscriptions: dict[tuple[str, Expression], SubscriptionData] = {}
        self._parts: _Parts | None = None

    # Start and shutdown

    async def start(self) -> None:
        """Join the group. Needs no name server yet: the first pull does."""
        await super().start()

    async def _join(self, undo: AsyncExitStack) -> None:
        core = await Core.acquire(self.config, consumer_group=self._wire_group)
        undo.push_async_callback(core.release, consumer_group=self._wire_group)
        traced = await tracing(self.settings.trace, self.config, self.group, trace_producer)
        if traced is not None:
            undo.push_async_callback(traced.close)
        parts = _Parts(core, self._wire_group, self.settings, traced, self._pulled_topics)
        undo.callback(parts.offsets.close)
        await parts.offsets.load()
        await core.add_consumer(self._wire_group, parts.member)
        undo.push_async_callback(core.remove_consumer, self._wire_group)
        self._parts = parts
        logger.info("consumer %s of group %s is started", core.client_id, self.group)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Leave the group. Pending trace data gets *timeout* seconds to be sent."""
        await super().shutdown(timeout)

    async def _leave(self, seconds: float | None) -> None:
        parts, self._parts = self._started(), None
        if parts.tracing is not None:
            await parts.tracing.close(seconds)
        logger.info("consumer %s of group %s leaves", parts.core.client_id, self.group)

    def _drop(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.offsets.close()

    # Messages

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of *topic*."""
        route = await self._started().core.routes.find(wrap(self._namespace, topic), fresh=True)
        return [self._own(queue) for queue in route.read_queues]

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: Expression = ALL,
        *,
        count: int = COUNT,
        hold_s: float = 0.0,
        timeout: float | None = None,  # noqa: ASYNC109 - it is the request's own
    ) -> PullResult:
        """Pull messages of *queue* from *offset* on, at most *count*: all messages, some tags ("a || b"), or a
        `hanabi.sql` filter. The result's `next_offset` says where to continue.

        Without messages the broker holds the request for up to *hold_s* seconds. *timeout* is that of the request.
        """
        parts = self._started()
        if offset < 0 or count < 1:
            raise ConfigError(f"pull: offset {offset} must not be negative and count {count} must be at least 1")
        wire_queue = self._wire_queue(queue)
        subscription = self._subscription(wire_queue.topic, expression)
        if timeout is None and hold_s <= 0:
            timeout = self.settings.pull_timeout_s
        result = await parts.pulling.pull(wire_queue, offset, subscription, count=count, hold_s=hold_s, timeout=timeout)
        if self._namespace:
            messages = [restored(message, self._namespace) for message in result.messages]
            result = msgspec.structs.replace(result, messages=messages)
        if parts.hooks and result.messages:
            report_pulled(parts.hooks, self.group, parts.core.client_id, result.messages)
        return result

    def _subscription(self, topic: str, expression: Expression) -> SubscriptionData:
        known = self._subscriptions.get((topic, expression))
        if known is None:
            known = self._subscriptions[topic, expression] = subscription_data(topic, expression, wall_ms())
        return known

    def _pulled_topics(self) -> list[SubscriptionData]:
        """Return the subscriptions for heartbeats: as in Java, the pulled topics without their filters."""
        return [subscription_data(topic, ALL, 0) for topic in {topic for topic, _ in self._subscriptions}]

    async def send_back(self, message: StoredMessage, delay_level: int = 3) -> None:
        """Have *message* redelivered to the subscribing members of the group, after the delay of this level.

        They get it from the retry topic of the group. After `max_reconsume_times` it becomes a dead letter.
        """
        parts = self._started()
        back = SendBack(
            parts.core,
            self._wire_group,
            retry_topic(self._namespace, self.group),
            reconsume_times_max=self.settings.max_reconsume_times,
            unit_mode=False,
        )
        topic = wrap(self._namespace, message.topic)
        await parts.core.routes.find(topic)
        await back.send_back(message, topic, message.broker_name, delay_level)

    # Offsets

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest stored message."""
        return await self._started().ask.first_offset(self._wire_queue(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        return await self._started().ask.end_offset(self._wire_queue(queue))

    async def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """Return the offset of the first message stored at that time or later; a number is seconds since 1970."""
        return await self._started().ask.offset_at(self._wire_queue(queue), milliseconds(when))

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """Return the store time of the oldest stored message, in milliseconds since 1970."""
        return await self._started().ask.earliest_store_time_ms(self._wire_queue(queue))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in *queue*; None if there is none."""
        return await self._started().offsets.read(self._wire_queue(queue), ReadFrom.STORE)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets: everything below is consumed. Returns when the brokers have confirmed it."""
        store = self._started().offsets
        for queue, offset in offsets.items():
            store.update(self._wire_queue(queue), offset, increase_only=False)
            store.force_next_commit(self._wire_queue(queue))
        await store.persist([self._wire_queue(queue) for queue in offsets], confirmed=True)

    # Identity and state

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this consumer."""
        return self._started().core.client_id

    def _started(self) -> "_Parts":
        if self._parts is None:
            raise self._not_running("start() it, or use `async with`")
        return self._parts

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return msgspec.structs.replace(queue, topic=wrap(self._namespace, queue.topic))

    def _own(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return msgspec.structs.replace(queue, topic=unwrap(self._namespace, queue.topic))


class _Parts:
    """Parts that exist between start and shutdown."""

    def __init__(
        self,
        core: Core,
        group: str,
        settings: PullConfig,
        traced: Tracing | None,
        told: Callable[[], list[SubscriptionData]],
    ) -> None:
        self.core, self.tracing = core, traced
        self.ask = QueueAccess(core)
        self.offsets: OffsetStore = (
            LocalOffsets.of(core.config, group) if settings.broadcasting else RemoteOffsets(core, group)
        )
        self.pulling = Pulling(core, group, tells_subscription=True)
        self.hooks = ConsumeHooks((*settings.hooks, *([traced] if traced else [])))
        self.member = LiteMember(
            group,
            broadcasting=settings.broadcasting,
            subscriptions=told,
            queues=dict,
            persist=_nothing_to_save,
            rebalance_soon=lambda: None,
            reset=lambda _: None,
        )


async def _nothing_to_save() -> None:
    """Do nothing: commits are saved at once."""
