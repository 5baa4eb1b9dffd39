"""Connected clients, and a client's report about itself.

Agrees with Java's GetConsumerListByGroupResponseBody, Connection, ConsumerConnection, ProducerConnection, ProducerInfo,
ProducerTableInfo, ConsumerRunningInfo, ProcessQueueInfo, PopProcessQueueInfo, ConsumeStatus, CMResult and
ConsumeMessageDirectlyResult.
"""

from enum import StrEnum

import msgspec

from hanabi.message import MessageQueue
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class ConsumerList(Body, frozen=True, kw_only=True):
    """The client ids of a group's members, by which each member divides the queues."""

    consumer_id_list: list[str] = always_written_new(list)


class Connection(Body, frozen=True, kw_only=True, gc=False):
    """One client of a group. The language is the name of a `wire.codes.Language`."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: Int32 = always_written(0)


class SubscriptionOpinion(Body, frozen=True, kw_only=True):
    """Ours, not RocketMQ's: a subscription in words, and the members of the group that have it."""

    client_ids: list[str] = always_written_new(list)
    subscribes: str


class ConsumerConnection(Body, frozen=True, kw_only=True):
    """The members of a consuming group and their subscriptions. The enums are those of `heartbeat`, by name."""

    connection_set: list[Connection] = always_written_new(list)
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_opinions: list[SubscriptionOpinion] | None = None  # ours: only if the members do not agree
    subscription_table: dict[str, SubscriptionData] = always_written_new(dict)


class ProducerConnection(Body, frozen=True, kw_only=True):
    """The members of a producing group."""

    connection_set: list[Connection] = always_written_new(list)


class ProducerInfo(Body, frozen=True, kw_only=True, gc=False):
    """One producer and when it was last heard of."""

    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: Int64 = always_written(0)
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    version: Int32 = always_written(0)


class ProducerTable(Body, frozen=True, kw_only=True):
    """All producers of a broker, by group (Java's ProducerTableInfo)."""

    data: dict[str, list[ProducerInfo]] = always_written_new(dict)


class ProcessQueueInfo(Body, frozen=True, kw_only=True, gc=False):
    """The messages of one queue that a push consumer holds."""

    cached_msg_count: Int32 = always_written(0)
    cached_msg_max_offset: Int64 = always_written(0)
    cached_msg_min_offset: Int64 = always_written(0)
    cached_msg_size_in_mib: Int32 = always_written(0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = always_written(0)
    droped: bool = always_written(False)  # Java's spelling
    last_consume_timestamp: Int64 = always_written(0)
    last_lock_timestamp: Int64 = always_written(0)
    last_pull_timestamp: Int64 = always_written(0)
    locked: bool = always_written(False)
    transaction_msg_count: Int32 = always_written(0)
    transaction_msg_max_offset: Int64 = always_written(0)
    transaction_msg_min_offset: Int64 = always_written(0)
    try_unlock_times: Int64 = always_written(0)


class PopProcessQueueInfo(Body, frozen=True, kw_only=True, gc=False):
    """5.x: the messages of one queue that a POP consumer holds."""

    droped: bool = always_written(False)
    last_pop_timestamp: Int64 = always_written(0)
    wait_ack_count: Int32 = always_written(0)


class ConsumeStatus(Body, frozen=True, kw_only=True, gc=False):
    """A consumer's speed in one topic: milliseconds and messages a second."""

    consume_failed_msgs: Int64 = always_written(0)
    consume_failed_tps: float = always_written(0.0, name="consumeFailedTPS")
    consume_ok_tps: float = always_written(0.0, name="consumeOKTPS")
    consume_rt: float = always_written(0.0, name="consumeRT")
    pull_rt: float = always_written(0.0, name="pullRT")
    pull_tps: float = always_written(0.0, name="pullTPS")


class ConsumerRunningInfo(Body, frozen=True, kw_only=True):
    """Everything an operator may ask a running consumer."""

    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] | None = None  # 5.x only
    mq_table: dict[MessageQueue, ProcessQueueInfo] = always_written_new(dict)
    properties: dict[str, str] = always_written_new(dict)
    status_table: dict[str, ConsumeStatus] = always_written_new(dict)
    subscription_set: list[SubscriptionData] = always_written_new(list)
    user_consumer_info: dict[str, str] | None = None  # 5.x only


class ConsumeResult(StrEnum):
    """A listener's result for a message that an operator had sent straight to it (Java's CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, frozen=True, kw_only=True):
    """The outcome of a message that an operator had sent straight to a consumer."""

    auto_commit: bool = always_written(True)
    consume_result: str | None = None
    order: bool = always_written(False)
    remark: str | None = None
    spent_time_mills: Int64 = always_written(0)
