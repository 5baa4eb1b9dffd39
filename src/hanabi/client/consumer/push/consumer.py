"""Push consumer for asyncio. `hanabi.PushConsumer` is the same for blocking programs.

The listener gets messages as soon as brokers have them. Same behaviour and defaults as Java's DefaultMQPushConsumer.
The running consumer, between start and shutdown, is in `session`.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from contextvars import Context
from typing import Final, Unpack, overload

from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.consumer.config.push_config import PushConfig, push_config
from hanabi.client.consumer.listening.listener import AnyListener, Listener
from hanabi.client.consumer.listening.listener_runs import IN_LISTENER
from hanabi.client.consumer.push.session import PushSession
from hanabi.client.consumer.subscription import ALL, Expression, subscription_data
from hanabi.client.hooks import ConsumeHooks
from hanabi.client.namespace import wrap
from hanabi.client.observe.tracing import tracing
from hanabi.client.options import PushOptions
from hanabi.client.participant import Participant
from hanabi.client.producer.producer import trace_producer
from hanabi.client.validation import check_group
from hanabi.clock import wall_ms
from hanabi.errors import ConfigError, MQError
from hanabi.message import MessageQueue
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.system_names import RETRY_PREFIX

DEFAULT_GROUP: Final = "DEFAULT_CONSUMER"  # Java's default, which is not allowed as a group name

logger = logging.getLogger(__name__)


class PushConsumer(Participant):
    """A group member that gets its messages by a listener.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")

        @consumer.listener
        async def bill(messages):           # a def runs in a thread, an async def as a task
            ...                             # returning = consumed, raising = again later

        await consumer.run()                # until SIGTERM; or start() and shutdown(), or `async with consumer`

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `PushConfig` (how to consume); both may be
    given whole, as *config* and *settings*. Everything but the constructor belongs to one event loop.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: PushConfig | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        check_group(group)
        if group == DEFAULT_GROUP:
            raise ConfigError(f"group {group} is reserved: choose a name for the members that share the messages")
        self.settings, others = push_config(settings, options)
        super().__init__("consumer", group, client_config(config, others, self.settings.__struct_fields__))
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._listener: Listener | None = None
        self._ordered = False
        self._core: Core | None = None
        self._session: PushSession | None = None
        self._announcing: set[asyncio.Task[None]] = set()
        self._own_shutdowns: set[asyncio.Task[None]] = set()  # shutdowns requested by the listener

    # Subscription and listener

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consume *topic*: all messages, some tags ("a || b"), or a `hanabi.sql` filter. Also allowed while running.

        All members of a group must have the same subscriptions: brokers keep one per group, the newest.
        """
        if not topic or topic.isspace():
            raise ConfigError(f"topic {topic!r}: a topic must have a name")
        wire_topic = wrap(self.config.namespace, topic)
        self._subscriptions[wire_topic] = subscription_data(wire_topic, expression, wall_ms())
        self._announce()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*."""
        if self._subscriptions.pop(wrap(self.config.namespace, topic), None) is not None:
            self._announce()

    def _announce(self) -> None:
        if self._session is not None:
            task = asyncio.get_running_loop().create_task(self._session.subscriptions_changed())
            self._announcing.add(task)
            task.add_done_callback(self._announcing.discard)

    @overload
    def listener(self, listener: AnyListener, /, *, ordered: bool = False) -> AnyListener: ...

    @overload
    def listener(self, listener: None = None, /, *, ordered: bool = False) -> Callable[[AnyListener], AnyListener]: ...

    def listener(
        self, listener: AnyListener | None = None, /, *, ordered: bool = False
    ) -> AnyListener | Callable[[AnyListener], AnyListener]:
        """Register the one function that consumes, as a decorator: it gets a list of messages.

        `@consumer.listener(ordered=True)` gets the messages of each queue one after the other, in order.
        """

        def register(function: AnyListener) -> AnyListener:
            if self._session is not None:
                raise MQError(f"{self.what} is started already, with its listener")
            if self._listener is not None and self._listener is not function:
                raise ConfigError(
                    f"{self.what} has a listener already, {self._listener!r}: it gets the messages of all topics, so"
                    " distinguish them there by message.topic, or make another consumer with a group of its own"
                )
            self._listener, self._ordered = function, ordered
            return function

        return register if listener is None else register(listener)

    # Start and shutdown

    async def start(self) -> None:
        """Join the group; messages come as soon as this member has queues.

        An unreachable cluster is logged and retried until it answers; a refusal is raised.
        """
        await super().start()

    async def _join(self, undo: AsyncExitStack) -> None:
        if self._listener is None:
            raise ConfigError(f"{self.what} has no listener: decorate one with @consumer.listener")
        if not self._subscriptions:
            raise ConfigError(f"{self.what} has no subscription: call subscribe(topic) first")
        self._subscribe_to_retries()
        core = await Core.acquire(self.config, consumer_group=self._wire_group)
        undo.push_async_callback(core.release, consumer_group=self._wire_group)
        self._session = await self._open(core, self._listener, undo)
        self._core = core
        logger.info("consumer %s of group %s is started", core.client_id, self.group)

    async def _open(self, core: Core, listener: Listener, undo: AsyncExitStack) -> PushSession:
        hooks = list(self.settings.hooks)
        trace = await tracing(self.settings.trace, self.config, self.group, trace_producer)
        if trace is not None:
            undo.push_async_callback(trace.close)
            hooks.insert(0, trace)
        session = PushSession(
            core,
            self._wire_group,
            self.settings,
            listener,
            ordered=self._ordered,
            subscriptions=self._subscriptions,
            hooks=ConsumeHooks(hooks),
        )
        try:
            await session.open()
        except BaseException:
            await session.close(0.0)
            raise
        return session

    def _subscribe_to_retries(self) -> None:
        """Subscribe to the group's retry topic, which carries failed messages; a broadcasting group has none."""
        topic = RETRY_PREFIX + self._wire_group
        if self.settings.broadcasting:
            self._subscriptions.pop(topic, None)
        else:
            self._subscriptions[topic] = subscription_data(topic, ALL, wall_ms())

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Stop pulling, let listeners finish within *timeout* seconds (default: `shutdown_timeout_s`), save the
        offsets, release the queues, and leave the group. In this consumer's own listener it returns at once, and the
        rest follows when the listener has returned.
        """
        if self.in_own_listener:
            task = asyncio.get_running_loop().create_task(super().shutdown(timeout), context=Context())
            self._own_shutdowns.add(task)
            task.add_done_callback(self._own_shutdowns.discard)
        else:
            await super().shutdown(timeout)

    @property
    def in_own_listener(self) -> bool:
        """Return True in a call of this consumer's listener."""
        return self._session is not None and IN_LISTENER.get() is self._session

    async def _leave(self, seconds: float | None) -> None:
        session = self._started()
        try:
            in_time = await self._close(session, self.settings.shutdown_timeout_s if seconds is None else seconds)
            if not in_time:
                logger.warning("group %s: listeners have not returned; their messages will be redelivered", self.group)
        finally:
            self._session = self._core = None
        logger.info("a consumer of group %s has left", self.group)

    def _drop(self) -> None:
        self._session = self._core = None
        self._announcing.clear()
        self._own_shutdowns.clear()

    async def _close(self, session: PushSession, seconds: float) -> bool:
        try:
            if announcing := list(self._announcing):
                await asyncio.wait(announcing)
        except asyncio.CancelledError:
            await session.close(0.0)
            raise
        return await session.close(seconds)

    async def run(self) -> None:
        """Start, consume until SIGINT, SIGTERM or cancellation, and shut down."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        caught: list[signal.Signals] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
                loop.add_signal_handler(number, stopped.set)
                caught.append(number)
        try:
            async with self:
                await stopped.wait()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    # While running

    def pause(self) -> None:
        """Consume nothing until `resume`. The queues stay this member's."""
        self._started().pause()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._started().resume()

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the queues that are this member's now, including those of the group's retry topic."""
        return self._started().queues

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this member."""
        if self._core is None:
            raise self._not_running("start() it, or use `async with`")
        return self._core.client_id

    def _started(self) -> PushSession:
        if self._session is None:
            raise self._not_running("start() it, or use `async with`")
        return self._session
