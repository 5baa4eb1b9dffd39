"""The lite pull consumer for programs without an event loop: same arguments, same results as the asyncio class.

No logic is here: each call is carried to the loop thread of this process and waited for.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Unpack, cast

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.pull_config import LitePullConfig
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from hanabi.client.consumer.pull.lite_pull import QueuesChanged, Rebalanced
from hanabi.client.consumer.subscription import ALL, Expression
from hanabi.client.options import LitePullOptions
from hanabi.message import MessageQueue, StoredMessage


class LitePullConsumer(BlockingParticipant[AsyncLitePullConsumer]):
    """A member of a group of consumers that asks for its messages.

        consumer = LitePullConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")     # the members of the group share the queues; or
        consumer.assign(queues)                             # these queues, whoever else consumes them
        with consumer:
            for message in consumer:                        # the last one counts as consumed when the next is asked for
                ...
            messages = consumer.poll(timeout=5)             # or several at a time, which is faster

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `LitePullConfig` (how to consume); both may
    be given whole, as *config* and *settings*. One thread at a time asks for messages. With `auto_commit=False`
    nothing is consumed before `commit()`; otherwise a `with` that ends without an exception commits everything that was
    handed out, and one that an exception ends commits what was handed out before the last `poll`.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: LitePullConfig | None = None,
        **options: Unpack[LitePullOptions],
    ) -> None:
        super().__init__(AsyncLitePullConsumer(group, config=config, settings=settings, **options))

    @property
    def settings(self) -> LitePullConfig:
        return self._aio.settings

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now."""
        return self._life.call(lambda: self._aio.queues)

    def subscribe(self, topic: str, expression: Expression = ALL, *, rebalanced: Rebalanced | None = None) -> None:
        """Consume *topic*, with the queues shared among the members of the group: everything, some tags ("a || b"), or
        what `hanabi.sql` says. Also while it runs.

        *rebalanced* is called with the topic, all its queues, and those that are now this member's; in the event
        loop's thread, where it must not wait.
        """
        self._life.call(lambda: self._aio.subscribe(topic, expression, rebalanced=rebalanced))

    def unsubscribe(self, topic: str) -> None:
        """Consume *topic* no more."""
        self._life.call(lambda: self._aio.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Consume these queues, and no others, whatever the other members of the group do. Also while it runs.

        Those that were assigned before go on where they are.
        """
        given = list(queues)
        self._life.call(lambda: self._aio.assign(given, expression))

    def on_queues_changed(self, topic: str, callback: QueuesChanged) -> None:
        """Call *callback* with the topic and its queues when these change: brokers or queues come and go.

        It is called in the event loop's thread, and must not wait. Typically it calls `assign`.
        """
        self._life.call(lambda: self._aio.on_queues_changed(topic, callback))

    def start(self) -> None:
        """Join the group, and begin to fetch.

        A cluster that cannot be reached yet is tried until it can be, and logged; what it refuses is raised.
        """
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Save what is consumed, give the queues to others, and leave. What the last `poll` gave is not counted: call
        `commit()` before, if you are done with it, or use `with`. Trace data that waits to be sent gets *timeout*
        seconds."""
        super().shutdown(timeout)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down. A block that ends without an exception has finished with what it was given: with automatic
        commits that is consumed."""
        self._life.shutdown(lambda: self._aio.__aexit__(kind, error, traceback))

    def poll(self, timeout: float | None = None, *, count: int | None = None) -> list[StoredMessage]:
        """The next messages, at most *count* (default: `poll_batch`); none if there are none within *timeout* seconds
        (default: `poll_timeout_s`). Messages of one queue come in order."""
        asking = self._aio.poll(timeout, count=count)
        return cast(list[StoredMessage], self._life.run(asking, self._aio.give_back))

    def __iter__(self) -> Iterator[StoredMessage]:
        return self

    def __next__(self) -> StoredMessage:
        """The next message, whenever it comes. Ends at `shutdown`."""
        if not self._life.is_running:
            raise StopIteration
        try:
            return cast(StoredMessage, self._life.run(self._aio.__anext__(), self._give_back_one))
        except StopAsyncIteration:
            raise StopIteration from None

    def _give_back_one(self, message: StoredMessage) -> None:
        self._aio.give_back([message])

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """These, of what the last `poll` gave, were not looked at: the next one gives them again."""
        given = list(messages)
        self._life.call(lambda: self._aio.give_back(given))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset* in *queue*. Raises if the queue is not this member's, or has no such offset."""
        self._life.run(self._aio.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that is still kept."""
        self._life.run(self._aio.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what comes from now on."""
        self._life.run(self._aio.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, when: datetime | float) -> None:
        """Go on at the first message that was stored at that moment or later; a number is seconds since 1970."""
        self._life.run(self._aio.seek_to_time(queue, when))

    def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """The offset of the first message that was stored at that moment or later."""
        return cast(int, self._life.run(self._aio.offset_for_time(queue, when)))

    def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that is still kept."""
        return cast(int, self._life.run(self._aio.begin_offset(queue)))

    def end_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return cast(int, self._life.run(self._aio.end_offset(queue)))

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the message of *queue* that `poll` gives next; None as long as that is being found out."""
        return self._life.call(lambda: self._aio.position(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give no messages of these queues until `resume`. They stay this member's."""
        given = list(queues)
        self._life.call(lambda: self._aio.pause(given))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after `pause`."""
        given = list(queues)
        self._life.call(lambda: self._aio.resume(given))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Everything that `poll` has given is consumed, or what is below *offsets*; returns when brokers know it."""
        self._life.run(self._aio.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """How far the group has come in *queue*, as the broker knows it; None if it knows nothing."""
        return cast(int | None, self._life.run(self._aio.committed(queue)))

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """All queues of *topic* that can be read."""
        return cast(list[MessageQueue], self._life.run(self._aio.queues_of(topic)))
