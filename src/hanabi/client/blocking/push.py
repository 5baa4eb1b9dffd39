"""Push consumer for blocking programs: same arguments and results as the asyncio class.

Contains no logic except for signals: each call is passed to the loop thread of this process and waited for.
"""

import threading
from collections.abc import Callable
from typing import Unpack, overload

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.blocking.stop_signals import Stopping
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.listening.listener import AnyListener
from hanabi.client.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from hanabi.client.consumer.subscription import ALL, Expression
from hanabi.client.options import PushOptions
from hanabi.message import MessageQueue


class PushConsumer(BlockingParticipant[AsyncPushConsumer]):
    """A group member that gets its messages by a listener.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")

        @consumer.listener
        def bill(messages):                 # a def runs in a thread, an async def as a task
            ...                             # returning = consumed, raising = again later

        consumer.run()                      # until SIGTERM; or start() and shutdown(), or `with consumer`

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `PushConfig` (how to consume); both may be
    given whole, as *config* and *settings*.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: PushConfig | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        super().__init__(AsyncPushConsumer(group, config=config, settings=settings, **options))

    @property
    def settings(self) -> PushConfig:
        return self._aio.settings

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the queues that are this member's now, including those of the group's retry topic."""
        return self._life.call(lambda: self._aio.queues)

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consume *topic*: all messages, some tags ("a || b"), or a `hanabi.sql` filter. Also allowed while running.

        All members of a group must have the same subscriptions: brokers keep one per group, the newest.
        """
        self._life.call(lambda: self._aio.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*."""
        self._life.call(lambda: self._aio.unsubscribe(topic))

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
        register: Callable[[AnyListener], AnyListener] = self._aio.listener(ordered=ordered)
        return register if listener is None else register(listener)

    def start(self) -> None:
        """Join the group; messages come as soon as this member has queues.

        An unreachable cluster is logged and retried until it answers; a refusal is raised.
        """
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop pulling, let listeners finish within *timeout* seconds (default: `shutdown_timeout_s`), save the
        offsets, release the queues, and leave the group. In this consumer's own listener it returns at once, and the
        rest follows when the listener has returned.
        """
        if self._aio.in_own_listener:
            ending = threading.Thread(target=super().shutdown, args=(timeout,), name="hanabi shutdown", daemon=True)
            ending.start()
        else:
            super().shutdown(timeout)

    def run(self) -> None:
        """Start, consume until SIGINT or SIGTERM, or until another thread calls `shutdown`, and shut down.

        Only the main thread gets signals. A second one, during the shutdown, has its usual effect.
        """
        stopping = Stopping()
        self._life.on_end = stopping.stop
        with stopping.on_signals():
            self.start()
            stopping.wait()
        self.shutdown()

    def pause(self) -> None:
        """Consume nothing until `resume`. The queues stay this member's."""
        self._life.call(self._aio.pause)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._life.call(self._aio.resume)
