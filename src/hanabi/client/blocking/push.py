"""The push consumer for programs without an event loop: same arguments, same results as the asyncio class.

No logic is here but that of signals: each call is carried to the loop thread of this process and waited for.
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
    """A member of a group of consumers.

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
        """The queues that are this member's now; those of the group's retry topic among them."""
        return self._life.call(lambda: self._aio.queues)

    def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Consume *topic*: everything, some tags ("a || b"), or what `hanabi.sql` says. Also while it runs.

        All members of a group must subscribe to the same: brokers keep one subscription of a group, the newest.
        """
        self._life.call(lambda: self._aio.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Consume *topic* no more."""
        self._life.call(lambda: self._aio.unsubscribe(topic))

    @overload
    def listener(self, listener: AnyListener, /, *, ordered: bool = False) -> AnyListener: ...

    @overload
    def listener(self, listener: None = None, /, *, ordered: bool = False) -> Callable[[AnyListener], AnyListener]: ...

    def listener(
        self, listener: AnyListener | None = None, /, *, ordered: bool = False
    ) -> AnyListener | Callable[[AnyListener], AnyListener]:
        """Decorates the one function that consumes: it gets a list of messages.

        `@consumer.listener(ordered=True)` gets the messages of each queue one after the other, in order.
        """
        register: Callable[[AnyListener], AnyListener] = self._aio.listener(ordered=ordered)
        return register if listener is None else register(listener)

    def start(self) -> None:
        """Join the group; messages come as soon as there are queues for this member.

        A cluster that cannot be reached yet is tried until it can be, and logged; what it refuses is raised.
        """
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Pull no more, let listeners finish within *timeout* seconds (default: `shutdown_timeout_s`), save the
        offsets, give the queues to others, and leave. In this consumer's own listener it returns at once, and the rest
        follows when the listener has returned."""
        if self._aio.in_own_listener:
            ending = threading.Thread(target=super().shutdown, args=(timeout,), name="hanabi shutdown", daemon=True)
            ending.start()
        else:
            super().shutdown(timeout)

    def run(self) -> None:
        """Start, consume until SIGINT or SIGTERM, or until another thread calls `shutdown`, and shut down.

        Only the main thread hears signals. A second one, while it shuts down, does what it always does.
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
        """Go on after `pause`."""
        self._life.call(self._aio.resume)
