"""Answers of a lite pull or pull consumer to requests of brokers and the client core.

Agrees with Java's MQConsumerInner as DefaultLitePullConsumerImpl implements it; but an operator's offset reset is
obeyed here, while Java's pull consumers ignore it.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from hanabi.client.consumer.offsets.start_point import ConsumeFrom
from hanabi.client.consumer.pull.fetched_queue import FetchedQueue
from hanabi.client.consumer.queue_progress import MIB
from hanabi.clock import wall_ms
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo, ProcessQueueInfo
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData


def consume_from_where(consume_from: ConsumeFrom) -> ConsumeFromWhere:
    """Return the start point in the form that heartbeats carry. Pure."""
    if isinstance(consume_from, datetime):
        return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    if consume_from == "first":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


class LiteMember:
    """Pull consumer as the core and the brokers see it."""

    def __init__(
        self,
        group: str,
        *,
        broadcasting: bool,
        consume_from: ConsumeFrom = "last",
        unit_mode: bool = False,
        subscriptions: Callable[[], list[SubscriptionData]],
        queues: Callable[[], Mapping[MessageQueue, FetchedQueue]],
        persist: Callable[[], Awaitable[None]],
        rebalance_soon: Callable[[], None],
        reset: Callable[[Mapping[MessageQueue, int]], None],
    ) -> None:
        self._group, self._unit_mode = group, unit_mode
        self._model = MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING
        self._consume_from = consume_from_where(consume_from)
        self._subscriptions, self._queues, self._persist, self._reset = subscriptions, queues, persist, reset
        self._started_ms = wall_ms()
        self.rebalance_soon = rebalance_soon

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=self._model,
            consume_from_where=self._consume_from,
            subscription_data_set=self._subscriptions(),
            unit_mode=self._unit_mode,
        )

    async def persist_offsets(self) -> None:
        await self._persist()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self._reset({queue: offset for queue, offset in offsets.items() if queue.topic == topic})

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {
            queue: fetched.done
            for queue, fetched in self._queues().items()
            if queue.topic == topic and fetched.done is not None
        }

    async def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": "1",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "consumerGroup": self._group,
                "messageModel": self._model,
                "consumeFromWhere": self._consume_from,
            },
            subscription_set=self._subscriptions(),
            mq_table={queue: _info(fetched) for queue, fetched in self._queues().items()},
        )

    async def consume_directly(self, message: StoredMessage) -> ConsumeMessageDirectlyResult:
        raise MQError(f"group {self._group} pulls its messages: it has no listener for message {message.message_id}")


def _info(fetched: FetchedQueue) -> ProcessQueueInfo:
    """Describe one queue for the operator. Pure."""
    return ProcessQueueInfo(
        commit_offset=fetched.done or 0,
        cached_msg_min_offset=(fetched.position or 0) if fetched.count else 0,
        cached_msg_max_offset=(fetched.position or 0) + fetched.span if fetched.count else 0,
        cached_msg_count=fetched.count,
        cached_msg_size_in_mib=fetched.body_bytes // MIB,
        locked=True,  # as Java reports for every queue
        last_pull_timestamp=fetched.last_pull_ms,
    )
