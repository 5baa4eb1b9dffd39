"""Answers of a push consumer to requests of brokers and the client core.

Agrees with Java's MQConsumerInner as DefaultMQPushConsumerImpl implements it, and with ClientRemotingProcessor for
operator requests (`mqadmin consumerStatus`, reset of offsets, direct consumption).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.listening.listener_runs import ListenerRuns
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.push.assigned_queues import AssignedQueues
from hanabi.client.consumer.queue_progress import MIB
from hanabi.clock import wall_ms
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumeResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData

ORDERLY_PROPERTY: Final = "PROP_CONSUMEORDERLY"
THREADS_PROPERTY: Final = "PROP_THREADPOOL_CORE_SIZE"
STARTED_PROPERTY: Final = "PROP_CONSUMER_START_TIMESTAMP"


def consume_from_where(settings: PushConfig) -> ConsumeFromWhere:
    """Return the start point in the form that heartbeats carry. Pure."""
    if settings.consume_from == "first":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    if settings.consume_from == "last":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


def process_queue_info(owned: OwnedQueue, *, ordered: bool) -> ProcessQueueInfo:
    """Describe one queue for the operator. Pure."""
    progress = owned.progress
    return ProcessQueueInfo(
        commit_offset=progress.committable,
        cached_msg_min_offset=progress.first or 0,
        cached_msg_max_offset=progress.last or 0,
        cached_msg_count=progress.count,
        cached_msg_size_in_mib=progress.body_bytes // MIB,
        locked=owned.locked_at is not None if ordered else True,  # as Java reports for every queue
        last_lock_timestamp=owned.last_lock_ms,
        droped=owned.dropped,
        last_pull_timestamp=owned.last_pull_ms,
        last_consume_timestamp=owned.last_consume_ms,
    )


class PushMember:
    """Push consumer as the core and the brokers see it."""

    def __init__(
        self,
        group: str,
        settings: PushConfig,
        *,
        ordered: bool,
        subscriptions: Callable[[], Collection[SubscriptionData]],
        assigned: AssignedQueues,
        stats: ConsumeStats,
        runs: ListenerRuns,
        restored: Callable[[StoredMessage], StoredMessage],
        rebalance_soon: Callable[[], None],
    ) -> None:
        self._group, self._settings, self._ordered = group, settings, ordered
        self._subscriptions, self._assigned, self._stats = subscriptions, assigned, stats
        self._runs, self._restored = runs, restored
        self._started_ms = wall_ms()
        self.rebalance_soon = rebalance_soon

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING if self._settings.broadcasting else MessageModel.CLUSTERING,
            consume_from_where=consume_from_where(self._settings),
            subscription_data_set=list(self._subscriptions()),
            unit_mode=self._settings.unit_mode,
        )

    async def persist_offsets(self) -> None:
        self._stats.sample(asyncio.get_running_loop().time())
        await self._assigned.persist()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self._assigned.reset({queue: offset for queue, offset in offsets.items() if queue.topic == topic})

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {
            queue: owned.progress.committable for queue, owned in self._assigned.owned.items() if queue.topic == topic
        }

    async def running_info(self) -> ConsumerRunningInfo:
        now = asyncio.get_running_loop().time()
        subscriptions = list(self._subscriptions())
        return ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=subscriptions,
            mq_table={
                queue: process_queue_info(owned, ordered=self._ordered) for queue, owned in self._assigned.owned.items()
            },
            status_table={
                subscription.topic: self._stats.of(subscription.topic, now).status(now)
                for subscription in subscriptions
            },
        )

    def _properties(self) -> dict[str, str]:
        """Return the settings under the names of Java's consumer."""
        settings = self._settings
        return {
            ORDERLY_PROPERTY: _java(self._ordered),
            THREADS_PROPERTY: str(settings.concurrency),
            STARTED_PROPERTY: str(self._started_ms),
            "consumerGroup": self._group,
            "messageModel": MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING,
            "consumeFromWhere": consume_from_where(settings),
            "consumeThreadMin": str(settings.concurrency),
            "consumeThreadMax": str(settings.concurrency),
            "consumeMessageBatchMaxSize": str(settings.consume_batch),
            "consumeConcurrentlyMaxSpan": str(settings.span_max),
            "consumeTimeout": str(round(settings.consume_timeout_s / 60)),
            "maxReconsumeTimes": str(-1 if settings.max_reconsume_times is None else settings.max_reconsume_times),
            "pullBatchSize": str(settings.pull_batch),
            "pullInterval": str(round(settings.pull_interval_s * 1_000)),
            "pullThresholdForQueue": str(settings.queue_messages_max),
            "pullThresholdSizeForQueue": str(settings.queue_bytes_max // MIB),
            "suspendCurrentQueueTimeMillis": str(round(settings.suspend_s * 1_000)),
            "unitMode": _java(settings.unit_mode),
        }

    async def consume_directly(self, message: StoredMessage) -> ConsumeMessageDirectlyResult:
        """Pass *message* to the listener for an operator and return the result. No offset changes."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def tell(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        began = loop.time()
        self._runs.start([self._restored(message)], tell)
        error = await ended
        return ConsumeMessageDirectlyResult(
            order=self._ordered,
            auto_commit=True,
            consume_result=_result(error),
            remark=None if error is None else f"{type(error).__name__}: {error}",
            spent_time_mills=round((loop.time() - began) * 1_000),
        )


def _result(error: BaseException | None) -> ConsumeResult:
    if error is None:
        return ConsumeResult.SUCCESS
    return ConsumeResult.LATER if isinstance(error, ConsumeLater) else ConsumeResult.THROW_EXCEPTION


def _java(value: bool) -> str:
    return "true" if value else "false"
