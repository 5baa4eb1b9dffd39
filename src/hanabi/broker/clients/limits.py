"""Limits on the state that clients can make a broker keep: any peer can send heartbeats.

The limits are far above what RocketMQ's clients send. Every refusal names its limit, so that the client's log says what
to change.
"""

from hanabi.errors import NoPermission
from hanabi.wire.bodies.heartbeat import HeartbeatData, SubscriptionData

GROUPS_PER_CONNECTION_MAX = 4_096  # of one kind; a process with a hundred is rare
SUBSCRIPTIONS_PER_GROUP_MAX = 4_096
NAME_CHARACTERS_MAX = 512  # of client ids, groups and topics; Java's longest is %RETRY% and a group of 255
EXPRESSION_CHARACTERS_MAX = 64 * 1024
HEARTBEAT_BYTES_MAX = 4 * 1024 * 1024
REMEMBERED_BYTES_MAX = 256 * 1024 * 1024  # about, of the subscriptions of all clients together

_SUBSCRIPTION_BYTES = 512  # the struct, its lists and its place in two dictionaries
_TAG_BYTES = 96  # its text and its hash code


def check_name(name: str, what: str) -> None:
    """Refuse an empty name or one longer than NAME_CHARACTERS_MAX."""
    if not name:
        raise NoPermission(f"an empty {what}")
    if len(name) > NAME_CHARACTERS_MAX:
        raise NoPermission(f"a {what} of {len(name)} characters, limit {NAME_CHARACTERS_MAX}")


def check_heartbeat(data: HeartbeatData) -> None:
    """Refuse an oversized heartbeat as a whole, before any of it is stored."""
    check_name(data.client_id, "client id")
    for producer in data.producer_data_set:
        check_name(producer.group_name, "producer group")
    for consumer in data.consumer_data_set:
        check_name(consumer.group_name, "consumer group")
        subscriptions = consumer.subscription_data_set
        if len(subscriptions) > SUBSCRIPTIONS_PER_GROUP_MAX:
            raise NoPermission(
                f"group {consumer.group_name} subscribes to {len(subscriptions)} topics,"
                f" limit {SUBSCRIPTIONS_PER_GROUP_MAX}"
            )
        for subscription in subscriptions:
            check_name(subscription.topic, "topic")
            expression = subscription.sub_string
            if expression is not None and len(expression) > EXPRESSION_CHARACTERS_MAX:
                raise NoPermission(
                    f"group {consumer.group_name} subscribes to {subscription.topic} by an expression of"
                    f" {len(expression)} characters, limit {EXPRESSION_CHARACTERS_MAX}"
                )


def remembered_bytes(subscriptions: list[SubscriptionData]) -> int:
    """Return roughly how much memory *subscriptions* take."""
    return sum(
        _SUBSCRIPTION_BYTES
        + 4 * (len(subscription.sub_string or "") + len(subscription.topic))
        + _TAG_BYTES * (len(subscription.tags_set) + len(subscription.code_set))
        for subscription in subscriptions
    )
