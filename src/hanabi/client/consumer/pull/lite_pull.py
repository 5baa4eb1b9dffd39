"""The lite pull consumer that programs use, for asyncio. `hanabi.LitePullConsumer` is the same for programs that block.

The program asks for messages when it wants some; they are fetched ahead meanwhile. Agrees with Java's
DefaultLitePullConsumer in behaviour; what happens between start and shutdown is in `lite_session`.
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
from hanabi.client.hooks import ConsumeHooks, tell_pulled
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
    """A member of a group of consumers that asks for its messages.

        consumer = LitePullConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")     # the members of the group share the queues; or
        consumer.assign(queues)                             # these queues, whoever else consumes them
        async with consumer:
            async for message in consumer:                  # the last one counts as consumed when the next is asked for
                ...
            messages = await consumer.poll(timeout=5)       # or several at a time

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `LitePullConfig` (how to consume); both may
    be given whole, as *config* and *settings*. Everything but making it belongs to one event loop, and one task at a
    time asks for messages. With `auto_commit=False` nothing is consumed before `commit()`; otherwise an `async with`
    that ends without an exception commits everything that was handed out, and one that an exception ends commits what
    was handed out before the last `poll`.
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
        self._assigned: set[MessageQueue] | None = None  # None: queues are shared, or nothing was said yet
        self._rebalanced: dict[str, Rebalanced] = {}
        self._watchers: list[tuple[str, QueuesChanged]] = []
        self._core: Core | None = None
        self._session: LiteSession | None = None
        self._tracing: Tracing | None = None
        self._hooks = ConsumeHooks()
        self._asking = False

    # What to consume

    def subscribe(self, topic: str, expression: Expression = ALL, *, rebalanced: Rebalanced | None = None) -> None:
        """Consume *topic*, with the queues shared among the members of the group: everything, some tags ("a || b"), or
        what `hanabi.sql` says. Also while it runs.

        *rebalanced* is called with the topic, all its queues, and those that are now this member's.
        """
        if self._assigned is not None:
            raise ConfigError(f"{self.what} has queues assigned: subscribing is for those that share")
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
        """Consume *topic* no more."""
        wire_topic = self._wire(topic)
        self._rebalanced.pop(wire_topic, None)
        if self._subscriptions.pop(wire_topic, None) is not None and self._session is not None:
            self._session.subscriptions_changed()

    def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Consume these queues, and no others, whatever the other members of the group do. Also while it runs.

        Those that were assigned before go on where they are.
        """
        if self._subscriptions:
            raise ConfigError(f"{self.what} has subscriptions: assigning is for those that do not share")
        wire_queues = {self._wire_queue(queue) for queue in queues}
        self._filters.clear()
        for topic in {queue.topic for queue in wire_queues}:
            self._filters[topic] = subscription_data(topic, expression, wall_ms())
        self._assigned = wire_queues
        if self._session is not None:
            self._session.assign(wire_queues)

    def on_queues_changed(self, topic: str, callback: QueuesChanged) -> None:
        """Call *callback* with the topic and its queues when these change: brokers or queues come and go.

        It is called in the event loop, and must not wait. Typically it calls `assign`.
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

    # Beginning and ending

    async def start(self) -> None:
        """Join the group, and begin to fetch.

        A cluster that cannot be reached yet is tried until it can be, and logged; what it refuses is raised.
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
        """Save what is consumed, give the queues to others, and leave. What the last `poll` gave is not counted: call
        `commit()` before, if you are done with it, or use `async with`. Trace data that waits to be sent gets *timeout*
        seconds."""
        await super().shutdown(timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down. A block that ends without an exception has finished with what it was given: with automatic
        commits that is consumed."""
        if kind is None and self.settings.auto_commit and self._session is not None:
            self._session.settle()
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
        """The next messages, at most *count* (default: `poll_batch`); none if there are none within *timeout* seconds
        (default: `poll_timeout_s`). Messages of one queue come in order."""
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
            raise MQError(f"{self.what}: one task at a time can ask for messages")
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
            tell_pulled(self._hooks, self.group, self.client_id, messages)
        return messages

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        return self

    async def __anext__(self) -> StoredMessage:
        """The next message, whenever it comes. Ends at `shutdown`."""
        session = self._session
        if session is None or session.ended:
            raise StopAsyncIteration
        messages = session.take(1) or await self._wait(session, 1, None)
        if not messages:
            raise StopAsyncIteration
        return self._handed_out(messages)[0]

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """These, of what the last `poll` gave, were not looked at: the next one gives them again. Those of a queue that
        is not this member's any more, or was sought in since, are forgotten."""
        if self._session is not None:
            self._session.fetching.give_back(
                {(self._wire_queue(message.queue), message.queue_offset) for message in messages}
            )

    # Where to go on

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset* in *queue*. Raises if the queue is not this member's, or has no such offset."""
        offset = operator.index(offset)  # half an offset would be asked for again and again
        session, wire_queue = self._session_with(queue)
        first, last = await asyncio.gather(session.ask.first_offset(wire_queue), session.ask.end_offset(wire_queue))
        if not first <= offset <= last:
            raise MQError(f"{queue} has the offsets from {first} to {last}: {offset} is none of them")
        self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that is still kept."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.first_offset(wire_queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what comes from now on."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.end_offset(wire_queue))

    async def seek_to_time(self, queue: MessageQueue, when: datetime | float) -> None:
        """Go on at the first message that was stored at that moment or later; a number is seconds since 1970."""
        session, wire_queue = self._session_with(queue)
        self._seek(queue, await session.ask.offset_at(wire_queue, milliseconds(when)))

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        session, wire_queue = self._session_with(queue)  # it may have become somebody else's while we asked
        session.fetching.seek(wire_queue, offset)

    async def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """The offset of the first message that was stored at that moment or later."""
        return await self._started().ask.offset_at(self._wire_queue(queue), milliseconds(when))

    async def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that is still kept."""
        return await self._started().ask.first_offset(self._wire_queue(queue))

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._started().ask.end_offset(self._wire_queue(queue))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the message of *queue* that `poll` gives next; None as long as that is being found out."""
        session, wire_queue = self._session_with(queue)
        return session.fetching.queues[wire_queue].position

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give no messages of these queues until `resume`. They stay this member's."""
        wire_queues = [self._session_with(queue)[1] for queue in queues]
        self._started().fetching.pause(wire_queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after `pause`."""
        wire_queues = [self._session_with(queue)[1] for queue in queues]
        self._started().fetching.resume(wire_queues)

    # How far we have come

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Everything that `poll` has given is consumed, or what is below *offsets*. Returns when the brokers know."""
        session = self._started()
        if offsets is None:
            session.settle()
            queues = list(session.fetching.queues)
        else:
            queues = [self._session_with(queue)[1] for queue in offsets]
            for queue, offset in zip(queues, offsets.values(), strict=True):
                session.fetching.queues[queue].done = offset
                session.offsets.update(queue, offset, increase_only=False)
                session.offsets.insist(queue)
        await session.offsets.persist(queues, confirmed=True)

    async def committed(self, queue: MessageQueue) -> int | None:
        """How far the group has come in *queue*, as the broker knows it; None if it knows nothing."""
        return await self._started().offsets.read(self._wire_queue(queue), ReadFrom.STORE)

    # Who and what

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """All queues of *topic* that can be read."""
        return [self._own(queue) for queue in await self._started().queues_of(self._wire(topic))]

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now."""
        return sorted(self._own(queue) for queue in self._started().fetching.queues)

    @property
    def client_id(self) -> str:
        """By which brokers know this member."""
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
