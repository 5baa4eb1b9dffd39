"""The settings of consuming groups.

Agrees with Java's SubscriptionGroupConfig, SubscriptionGroupWrapper, SubscriptionGroupList, GroupList, ConsumeByWho,
QuerySubscriptionResponseBody and GroupForbidden.
"""

import msgspec

from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class ExponentialRetryPolicy(Body, frozen=True, kw_only=True, gc=False):
    """5.x: each delay a multiple of the one before; milliseconds."""

    initial: Int64 = always_written(5_000)
    max: Int64 = always_written(7_200_000)
    multiplier: Int64 = always_written(2)


class CustomizedRetryPolicy(Body, frozen=True, kw_only=True):
    """5.x: the delays one by one; milliseconds."""

    next: list[Int64] = always_written_new(list)


class GroupRetryPolicy(Body, frozen=True, kw_only=True):
    """5.x: how long a group waits before it gets a message again."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: str = always_written("CUSTOMIZED")


class SimpleSubscriptionData(Body, frozen=True, kw_only=True):
    """5.x: a subscription that belongs to the group's settings."""

    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always_written(0)


class SubscriptionGroupConfig(Body, frozen=True, kw_only=True):
    """The settings of one group on one broker. Fields of 5.x are left out while they have their default."""

    attributes: dict[str, str] | None = None  # 5.x
    broker_id: Int64 = always_written(0)
    consume_broadcast_enable: bool = always_written(True)
    consume_enable: bool = always_written(True)
    consume_from_min_enable: bool = always_written(True)
    consume_message_orderly: bool = False  # 5.x
    consume_timeout_minute: Int32 = 15  # 5.x
    group_name: str
    group_retry_policy: GroupRetryPolicy | None = None  # 5.x
    group_sys_flag: Int32 = 0  # 5.x
    notify_consumer_ids_changed_enable: bool = always_written(True)
    retry_max_times: Int32 = always_written(16)
    retry_queue_nums: Int32 = always_written(1)
    subscription_data_set: list[SimpleSubscriptionData] | None = None  # 5.x
    which_broker_when_consume_slowly: Int64 = always_written(1)


def with_fields_of_5(config: SubscriptionGroupConfig) -> dict[str, object]:
    """Return *config* as 5.x writes it: with all defaults, in the order of the names."""
    of_5 = {
        "attributes": {},
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
    }
    return dict(sorted({**of_5, **msgspec.to_builtins(config)}.items()))


class SubscriptionGroupTable(Body, frozen=True, kw_only=True):
    """All groups of one broker (Java's SubscriptionGroupWrapper)."""

    data_version: DataVersion = always_written_new(DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] | None = None  # 5.x
    subscription_group_table: dict[str, SubscriptionGroupConfig] = always_written_new(dict)


class SubscriptionGroupList(Body, frozen=True, kw_only=True):
    """5.x: groups to create at once."""

    group_config_list: list[SubscriptionGroupConfig] = always_written_new(list)


class GroupList(Body, frozen=True, kw_only=True):
    """Names of groups: those that consume a topic."""

    group_list: list[str] = always_written_new(list)


class ConsumeByWho(Body, frozen=True, kw_only=True):
    """The groups that have consumed a message, and those that have not."""

    consumed_group: list[str] = always_written_new(list)
    not_consumed_group: list[str] = always_written_new(list)
    offset: Int64 = always_written(0)
    queue_id: Int32 = always_written(0)
    topic: str | None = None


class GroupSubscription(Body, frozen=True, kw_only=True):
    """5.x: one group's subscription to one topic (Java's QuerySubscriptionResponseBody)."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class GroupForbidden(Body, frozen=True, kw_only=True):
    """5.x: whether a group may read a topic."""

    group: str | None = None
    readable: bool | None = None
    topic: str | None = None
