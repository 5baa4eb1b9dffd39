"""Pull consumer for blocking programs: same arguments and results as the asyncio class.

Contains no logic: each call is passed to the loop thread of this process and waited for.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack, cast

from hanabi.client.blocking.participant import BlockingParticipant
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.config.pull_config import PullConfig
from hanabi.client.consumer.pull.consumer import PullConsumer as AsyncPullConsumer
from hanabi.client.consumer.pull_request import COUNT, PullResult
from hanabi.client.consumer.subscription import ALL, Expression
from hanabi.client.options import PullOptions
from hanabi.message import MessageQueue, StoredMessage


class PullConsumer(BlockingParticipant[AsyncPullConsumer]):
    """Pulls messages for a group, from queues and offsets that the program chooses.

        with PullConsumer("reports", namesrv="127.0.0.1:9876") as consumer:
            for queue in consumer.queues_of("Orders"):
                offset = consumer.committed(queue) or consumer.begin_offset(queue)
                result = consumer.pull(queue, offset)
                ...                                         # result.messages
                consumer.commit({queue: result.next_offset})

    *options* are fields of `ClientConfig` (how to reach the cluster) and of `PullConfig` (how to pull); both may be
    given whole, as *config* and *settings*. All threads may use one consumer at once.
    """

    def __init__(
        self,
        group: str,
        *,
        config: ClientConfig | None = None,
        settings: PullConfig | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        super().__init__(AsyncPullConsumer(group, config=config, settings=settings, **options))

    @property
    def settings(self) -> PullConfig:
        return self._aio.settings

    def start(self) -> None:
        """Join the group. Needs no name server yet: the first pull does."""
        super().start()

    def shutdown(self, timeout: float | None = None) -> None:
        """Leave the group. Pending trace data gets *timeout* seconds to be sent."""
        super().shutdown(timeout)

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of *topic*."""
        return cast(list[MessageQueue], self._life.run(self._aio.queues_of(topic)))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        expression: Expression = ALL,
        *,
        count: int = COUNT,
        hold_s: float = 0.0,
        timeout: float | None = None,
    ) -> PullResult:
        """Pull messages of *queue* from *offset* on, at most *count*: all messages, some tags ("a || b"), or a
        `hanabi.sql` filter. The result's `next_offset` says where to continue.

        Without messages the broker holds the request for up to *hold_s* seconds. *timeout* is that of the request.
        """
        pulling = self._aio.pull(queue, offset, expression, count=count, hold_s=hold_s, timeout=timeout)
        return cast(PullResult, self._life.run(pulling))

    def send_back(self, message: StoredMessage, delay_level: int = 3) -> None:
        """Have *message* redelivered to the subscribing members of the group, after the delay of this level.

        They get it from the retry topic of the group. After `max_reconsume_times` it becomes a dead letter.
        """
        self._life.run(self._aio.send_back(message, delay_level))

    def begin_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest stored message."""
        return cast(int, self._life.run(self._aio.begin_offset(queue)))

    def end_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        return cast(int, self._life.run(self._aio.end_offset(queue)))

    def offset_for_time(self, queue: MessageQueue, when: datetime | float) -> int:
        """Return the offset of the first message stored at that time or later; a number is seconds since 1970."""
        return cast(int, self._life.run(self._aio.offset_for_time(queue, when)))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """Return the store time of the oldest stored message, in milliseconds since 1970."""
        return cast(int, self._life.run(self._aio.earliest_store_time_ms(queue)))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in *queue*; None if there is none."""
        return cast(int | None, self._life.run(self._aio.committed(queue)))

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets: everything below is consumed. Returns when the brokers have confirmed it."""
        self._life.run(self._aio.commit(offsets))
