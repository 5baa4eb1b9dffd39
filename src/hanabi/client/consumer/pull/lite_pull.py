"""Lite pull consumer for asyncio. `hanabi.LitePullConsumer` is the same for blocking programs.

The program polls for messages; they are prefetched meanwhile. Behaves as Java's DefaultLitePullConsumer. The running
consumer, between start and shutdown, is in `lite_session`.
"""

import asyncio
import logging
import operator
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import TypeAlias, Unpack

import msgspec

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import milliseconds
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.consumer.config.pull_config import LitePullConfig, split_options
from hanabi.client.consumer.offsets.offset_store import ReadFrom
from hanabi.client.consumer.pull.lite_session import LiteSession
from hanabi.client.consumer.pull_request import restored
from hanabi.client.consumer.subscription import ALL, Expression, subscription_data
from hanabi.client.hooks import ConsumeHooks, report_pulled
from hanabi.client.namespace import unwrap, wrap
from hanabi.client.observe.tracing import Tracing, tracing
from hanabi.client.options import LitePullOptions
from hanabi.client.participant import Participant
from hanabi.client.producer.producer import trace_producer
from hanabi.client.validation import check_group
from hanabi.clock import wall_ms
from hanabi.errors import ConfigError, MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData

logger = logging.getLogger(__name__)

Rebalanced: TypeAlias = Callable[[str, set[MessageQueue], set[MessageQueue]], object]
QueuesChanged: TypeAlias = Callable[[str, set[MessageQueue]], object]


class LitePullConsumer(Participant):
    """A group member that polls for its messages.

        consumer = LitePullConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")     # the members of the group share the queues; or
        consumer.assign(queues)                             # these queues, regardless of the other members
        async with consumer:
            async for message in consumer:                  # counts as consumed when the next one is requested
                ...
            messages = await consumer.poll(timeout=5)       # or several at a time

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `LitePullConfig` (how to consume); both may
    be given whole, as *config* and *settings*. Everything but the constructor belongs to one event loop, and one task
    at a time polls. With `auto_commit=False` nothing is consumed before `commit()`. Otherwise an `async with` that ends
    without an exception commits everything handed out; one that ends with an exception commits the messages handed out
    before the last `poll`.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: LitePullConfig | None = None,
        **options: Unpack[LitePullOptions],
    ) -> None:
        check_group(group)
        self.settings, others = split_options(settings or LitePullConfig(), options)
        super().__init__("consumer", group, client_config(config, others, self.settings.__struct_fields__))
        self._namespace = self.config.namespace
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._filters: dict[str, SubscriptionData] = {}
        # None: queues are shared, or neither subscribe nor assign was called yet
        self._assigned: set[MessageQueue] | None = None
        self._rebalanced: dict[str, Rebalanced] = {}
        self._watchers: list[tuple[str, QueuesChanged]] = []
        self._core: Core | None = None
        self._session: LiteSession | None = None
        self._tracing: Tracing | None = None
        self._hooks = ConsumeHooks()
        self._asking = False

    # Subscription and assignment

    def subscribe(self, topic: str, expression: Expression = ALL, *, rebalanced: Rebalanced | None = None) -> None:
        """Consume *topic*, with its queues shared among the group: all messages, some tags ("a || b"), or a
        `hanabi.sql` filter. Also allowed while running.

        *rebalanced* is called with the topic, all its queues, and those that are now this member's.
        """
        if self._assigned is not None:
            raise ConfigError(f"{self.what} has queues assigned: use either subscribe() or assign()")
        if not topic or topic.isspace():
            raise ConfigError(f"topic {topic!r}: a topic must have a name")
        wire_topic = self._wire(topic)
        self._subscriptions[wire_topic] = subscription_data(wire_topic, expression, wall_ms())
        if rebalanced is None:
            self._rebalanced.pop(wire_topic, None)
        else:
            self._rebalanced[wire_topic] = rebalanced
        if self._session is not None:
            self._session.subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*."""
        wire_topic = self._wire(topic)
        self._rebalanced.pop(wire_topic, None)
        if self._subscriptions.pop(wire_topic, None) is not None and self._session is not None:
            self._session.subscriptions_changed()

    def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Consume exactly these queues, regardless of the other members of the group. Also allowed while running.

        Queues that were assigned before continue at their position.
        """
        if self._subscriptions:
            raise ConfigError(f"{self.what} has subscriptions: use either subscribe() or assign()")
        wire_queues = {self._wire_queue(queue) for queue in queues}
        self._filters.clear()
        for topic in {queue.topic for queue in wire_queues}:
            self._filters[topic] = subscription_data(topic, expression, wall_ms())
        self._assigned = wire_queues
        if self._session is not None:
            self._session.assign(wire_queues)

    def on_queues_changed(self, topic: str, callback: QueuesChanged) -> None:
        """Call *callback* with the topic and its queues whenever brokers or queues come or go.

        It is called in the event loop and must not block. Typically it calls `assign`.
        """
        self._watchers.append((topic, callback))
        if self._session is not None:
            self._watch(self._session, topic, callback)

    def _watch(self, session: LiteSession, topic: str, callback: QueuesChanged) -> None:
        def changed(_: str, queues: set[MessageQueue]) -> None:
            callback(topic, {self._own(queue) for queue in queues})

        session.watch(self._wire(topic), changed)

    def _was_rebalanced(self, topic: str, everything: set[MessageQueue], ours: set[MessageQueue]) -> None:
        callback = self._rebalanced.get(topic)
        if callback is None:
            return
        try:
            callback(
                unwrap(self._namespace, topic),
                {self._own(each) for each in everything},
                {self._own(each) for each in ours},
            )
        except Exception:
            logger.exception("group %s: the listener for the queues of %s failed", self.group, topic)

    # Start and shutdown

    async def start(self) -> None:
        """Join the group, and start to fetch.

        An unreachable cluster is logged and retried until it answers; a refusal is raised.
        """
        await super().start()

    async def _join(self, undo: AsyncExitStack) -> None:
        core = await Core.acquire(self.config, consumer_group=self._wire_group)
        undo.push_async_callback(core.release, consumer_group=self._wire_group)
        self._tracing = await tracing(self.settings.trace, self.config, self.group, trace_producer)
        undo.push_async_callback(self._end_trace)
        await self._open(core)
        logger.info("consumer %s of group %s is started", core.client_id, self.group)

    async def _open(self, core: Core) -> None:
        session = LiteSession(
            core,
            self._wire_group,
            self.settings,
            subscriptions=self._subscriptions,
            filters=self._filters,
            rebalanced=self._was_rebalanced,
        )
        try:
            await session.open()
        except BaseException:
            await session.close()
            raise
        self._hooks = ConsumeHooks((*self.settings.hooks, *([self._tracing] if self._tracing else [])))
        self._core, self._session = core, session
        for topic, callback in self._watchers:
            self._watch(session, topic, callback)
        if self._assigned is not None:
            session.assign(self._assigned)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Save offsets, release the queues, and leave the group. Messages of the last `poll` do not count as consumed:
        call `commit()` first, or use `async with`. Pending trace data gets *timeout* seconds to be sent.
        """
        await super().shutdown(timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down. With automatic commits, a block that ends without an exception has consumed everything handed
        out.
        """
        if kind is None:
            self.settle()
        await super().__aexit__(kind, error, traceback)

    async def _leave(self, seconds: float | None) -> None:
        session = self._started()
        try:
            await session.close()
        finally:
            self._session = self._core = None
            await self._end_trace(seconds)
        logger.info("a consumer of group %s has left", self.group)

    def _drop(self) -> None:
        self._session = self._core = self._tracing = None
        self._asking = False

    async def _end_trace(self, seconds: float | None = None) -> None:
        traced, self._tracing = self._tracing, None
        if traced is not None:
            await traced.close(seconds)

    # Messages

    async def poll(self, timeout: float | None = None, *, count: int | None = None) -> list[StoredMessage]:  # noqa: ASYNC109
        """Return the next messages, at most *count* (default: `poll_batch`); none if there are none within *timeout*
        seconds (default: `poll_timeout_s`). Messages of one queue come in order.
        """
        seconds = self.settings.poll_timeout_s if timeout is None else timeout
        wanted = self.settings.poll_batch if count is None else count
        if wanted < 1:
            raise ConfigError(f"poll: count must be at least 1, not {wanted}")
        session = self._started()
        messages = session.take(wanted)
        if not messages and seconds > 0:
            messages = await self._wait(session, wanted, seconds)
        return self._handed_out(messages)

    async def _wait(self, session: LiteSession, count: int, seconds: float | None) -> list[StoredMessage]:
        if self._asking:
            raise MQError(f"{self.what}: one task at a time can poll for messages")
        self._asking = True
        try:
            async with asyncio.timeout(seconds):
                while not session.ended:
                    await session.fetching.arrival()
                    if messages := session.fetching.take(count):
                        return messages
        except TimeoutError:
            pass
        finally:
            self._asking = False
        return []

    def _handed_out(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        if self._namespace:
            messages = [restored(message, self._namespace) for message in messages]
        if self._hooks and messages:
            report_pulled(self._hooks, self.group, self.client_id, messages)
        return messages

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        return self

    async def __anext__(self) -> StoredMessage:
        """Wait for the next message. Iteration ends at `shutdown`."""
        session = self._session
        if session is None or session.ended:
            raise StopAsyncIteration
        messages = session.take(1) or await self._wait(session, 1, None)
        if not messages:
            raise StopAsyncIteration
        return self._handed_out(messages)[0]

    async def take_ahead(self) -> tuple[list[StoredMessage], int]:
        """Return the next messages, at most `poll_batch`, and `queues_state`; for the blocking iteration. Wait for the
        first one; return none after `shutdown`.
        """
        session, count = self._session, self.settings.poll_batch
        if session is None or session.ended:
            return [], -1
        messages = session.take(count) or await self._wait(session, count, None)
        return self._handed_out(messages), self.queues_state

    @property
    def queues_state(self) -> int:
        """Return a number that changes whenever taken messages may have become invalid; -1 when not running."""
        session = self._session
        return -1 if session is None or session.ended else session.fetching.state

    def settle(self) -> None:
        """Count everything handed out as consumed, if commits are automatic."""
        if self._session is not None and self.settings.auto_commit:
            self._session.settle()

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """Return unprocessed messages of the last `poll`; the next `poll` returns them again. Messages of a queue that
        is no longer this member's, or in which `seek` was called since, are dropped.
        """
        if self._session is not None:
            self._session.fetching.give_back(
                {(self._wire_queue(message.queue), message.queue_offset) for message in messages}
            )

    # Position

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset* in *queue*. Raise if the queue is not this member's, or has no such offset."""
        offset = operator.index(offset)  # a fractional offset would be requested forever
        session, wire_queue = self._session_with(queue)
        first, last = await asyncio.gather(session.ask.first_offset(wire_queue), session.ask.end_offset(wire_queue))
        if not first <= offset <= last:
            raise MQError(f"{queue} has offsets {first} to {last}, but not {offset}")
        self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest stored message."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.first_offset(wire_queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with new messages only."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.end_offset(wire_queue))

    async def seek_to_time(self, queue: MessageQueue, when: datetime | float) -> None:
        """Continue at the first message stored at that time or later; a number is seconds since 1970."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.offset_at(wire_queue, milliseconds(when)))

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        session, wire_queue = self._session_with(queue)  # the queue may have moved to another member meanwhile
        session.fetching.seek(wire_queue, offset)

    async def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """Return the offset of the first message stored at that time or later."""
        return await self._started().ask.offset_at(self._wire_queue(queue), milliseconds(when))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest stored message."""
        return await self._started().ask.first_offset(self._wire_queue(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        return await self._started().ask.end_offset(self._wire_queue(queue))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset that `poll` continues at in *queue*; None until it is known."""
        session, wire_queue = self._session_with(queue)
        return session.fetching.queues[wire_queue].position

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until `resume`. They stay this member's."""
        wire_queues = [self._session_with(queue)[1] for queue in queues]
        self._started().fetching.pause(wire_queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue after `pause`."""
        wire_queues = [self._session_with(queue)[1] for queue in queues]
        self._started().fetching.resume(wire_queues)

    # Commits

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit everything that `poll` has returned, or up to *offsets*. Returns when the brokers have confirmed
        it.
        """
        session = self._started()
        if offsets is None:
            session.settle()
            queues = list(session.fetching.queues)
        else:
            queues = [self._session_with(queue)[1] for queue in offsets]
            for queue, offset in zip(queues, offsets.values(), strict=True):
                session.fetching.queues[queue].done = offset
                session.offsets.update(queue, offset, increase_only=False)
                session.offsets.force_next_commit(queue)
        await session.offsets.persist(queues, confirmed=True)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in *queue*; None if the broker has none."""
        return await self._started().offsets.read(self._wire_queue(queue), ReadFrom.STORE)

    # Queues and identity

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of *topic*."""
        return [self._own(queue) for queue in await self._started().queues_of(self._wire(topic))]

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the queues that are this member's now."""
        return sorted(self._own(queue) for queue in self._started().fetching.queues)

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this member."""
        if self._core is None:
            raise self._not_running("start() it, or use `async with`")
        return self._core.client_id

    def _started(self) -> LiteSession:
        if self._session is None:
            raise self._not_running("start() it, or use `async with`")
        return self._session

    def _session_with(self, queue: MessageQueue) -> tuple[LiteSession, MessageQueue]:
        session, wire_queue = self._started(), self._wire_queue(queue)
        if wire_queue not in session.fetching.queues:
            raise MQError(f"{queue} is not a queue of this member of group {self.group} now")
        return session, wire_queue

    def _wire(self, topic: str) -> str:
        return wrap(self._namespace, topic)

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        return msgspec.structs.replace(queue, topic=self._wire(queue.topic)) if self._namespace else queue

    def _own(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return msgspec.structs.replace(queue, topic=unwrap(self._namespace, queue.topic))
