"""Lite pull consumer for blocking programs: same arguments and results as the asyncio class.

Each call is passed to the loop thread of this process and waited for. Iteration takes several messages in one call.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Unpack, cast

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.blocking.read_ahead import ReadAhead
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.pull_config import LitePullConfig
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from hanabi.client.consumer.pull.lite_pull import QueuesChanged, Rebalanced
from hanabi.client.consumer.subscription import ALL, Expression
from hanabi.client.options import LitePullOptions
from hanabi.message import MessageQueue, StoredMessage


class LitePullConsumer(BlockingParticipant[AsyncLitePullConsumer]):
    """A group member that polls for its messages.

        consumer = LitePullConsumer("billing", namesrv="127.0.0.1:9876", consume_from="first")
        consumer.subscribe("Orders", "created || paid")     # the members of the group share the queues; or
        consumer.assign(queues)                             # these queues, regardless of the other members
        with consumer:
            for message in consumer:                        # counts as consumed when the next one is requested
                ...
            messages = consumer.poll(timeout=5)             # or several at a time, which is faster

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `LitePullConfig` (how to consume); both may
    be given whole, as *config* and *settings*. One thread at a time polls. With `auto_commit=False` nothing is consumed
    before `commit()`. Otherwise a `with` that ends without an exception commits everything handed out; one that ends
    with an exception commits the messages handed out before the last `poll`.
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
        self._ahead = ReadAhead()

    @property
    def settings(self) -> LitePullConfig:
        return self._aio.settings

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the queues that are this member's now."""
        return self._life.call(lambda: self._aio.queues)

    def subscribe(self, topic: str, expression: Expression = ALL, *, rebalanced: Rebalanced | None = None) -> None:
        """Consume *topic*, with its queues shared among the group: all messages, some tags ("a || b"), or a
        `hanabi.sql` filter. Also allowed while running.

        *rebalanced* is called with the topic, all its queues, and those that are now this member's; in the event loop's
        thread, where it must not block.
        """
        self._life.call(lambda: self._aio.subscribe(topic, expression, rebalanced=rebalanced))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*."""
        self._life.call(lambda: self._aio.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Consume exactly these queues, regardless of the other members of the group. Also allowed while running.

        Queues that were assigned before continue at their position.
        """
        given = list(queues)
        self._life.call(lambda: self._aio.assign(given, expression))

    def on_queues_changed(self, topic: str, callback: QueuesChanged) -> None:
        """Call *callback* with the topic and its queues whenever brokers or queues come or go.

        It is called in the event loop's thread and must not block. Typically it calls `assign`.
        """
        self._life.call(lambda: self._aio.on_queues_changed(topic, callback))

    def start(self) -> None:
        """Join the group, and start to fetch.

        An unreachable cluster is logged and retried until it answers; a refusal is raised.
        """
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Save offsets, release the queues, and leave the group. Messages of the last `poll` do not count as consumed:
        call `commit()` first, or use `with`. Pending trace data gets *timeout* seconds to be sent.
        """

        async def leave() -> None:
            self._count_as_unread()
            await self._aio.shutdown(timeout)

        self._life.shutdown(leave)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down. With automatic commits, a block that ends without an exception has consumed everything handed
        out.
        """

        async def leave() -> None:
            if kind is None:
                self._aio.give_back(self._ahead.drop_unread())
            else:
                self._count_as_unread()
            await self._aio.__aexit__(kind, error, traceback)

        self._life.shutdown(leave)

    def _count_as_unread(self) -> None:
        """Count only messages as consumed after which the iteration went on. Runs in the loop's thread."""
        unfinished = self._ahead.unfinished
        self._ahead.clear()
        if unfinished:
            self._aio.give_back(unfinished)
            self._aio.settle()

    def _stop_reading_ahead(self, *, finished: bool = False) -> None:
        """Give unread messages back. *finished*: the message that the program has now counts as consumed."""
        if unread := self._ahead.drop_unread():
            self._life.call(lambda: self._aio.give_back(unread))
        if finished:
            self._ahead.clear()

    def poll(self, timeout: float | None = None, *, count: int | None = None) -> list[StoredMessage]:
        """Return the next messages, at most *count* (default: `poll_batch`); none if there are none within *timeout*
        seconds (default: `poll_timeout_s`). Messages of one queue come in order.
        """
        self._stop_reading_ahead(finished=True)
        asking = self._aio.poll(timeout, count=count)
        return cast(list[StoredMessage], self._life.run(asking, self._aio.give_back))

    def __iter__(self) -> Iterator[StoredMessage]:
        return self

    def __next__(self) -> StoredMessage:
        """Wait for the next message. Iteration ends at `shutdown`."""
        return self._ahead.next(self._aio.queues_state) or self._read_on()

    def _read_on(self) -> StoredMessage:
        if not self._life.is_running:
            raise StopIteration
        self._stop_reading_ahead()
        taken, state = self._life.run(self._aio.take_ahead(), lambda taken: self._aio.give_back(taken[0]))
        self._ahead.fill(taken, state)
        message = self._ahead.next(state)
        if message is None:
            raise StopIteration
        return message

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """Return unprocessed messages of the last `poll`; the next `poll` returns them again."""
        given = list(messages)
        self._stop_reading_ahead()
        self._life.call(lambda: self._aio.give_back(given))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset* in *queue*. Raise if the queue is not this member's, or has no such offset."""
        self._life.run(self._aio.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest stored message."""
        self._life.run(self._aio.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with new messages only."""
        self._life.run(self._aio.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, when: datetime | float) -> None:
        """Continue at the first message stored at that time or later; a number is seconds since 1970."""
        self._life.run(self._aio.seek_to_time(queue, when))

    def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """Return the offset of the first message stored at that time or later."""
        return cast(int, self._life.run(self._aio.offset_for_time(queue, when)))

    def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest stored message."""
        return cast(int, self._life.run(self._aio.begin_offset(queue)))

    def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        return cast(int, self._life.run(self._aio.end_offset(queue)))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset that `poll` continues at in *queue*; None until it is known."""
        self._stop_reading_ahead()
        return self._life.call(lambda: self._aio.position(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until `resume`. They stay this member's."""
        given = list(queues)
        self._life.call(lambda: self._aio.pause(given))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue after `pause`."""
        given = list(queues)
        self._life.call(lambda: self._aio.resume(given))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit everything that `poll` has returned, or up to *offsets*; returns when the brokers have confirmed
        it.
        """
        self._stop_reading_ahead(finished=True)
        self._life.run(self._aio.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in *queue*; None if the broker has none."""
        return cast(int | None, self._life.run(self._aio.committed(queue)))

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of *topic*."""
        return cast(list[MessageQueue], self._life.run(self._aio.queues_of(topic)))
