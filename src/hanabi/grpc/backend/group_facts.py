"""Settings of topics and groups that the gRPC API reads from those of brokers."""

from typing import Final

from hanabi.grpc.rules.settings import GroupFacts
from hanabi.wire.bodies.groups import SubscriptionGroupConfig

MESSAGE_TYPE: Final = "message.type"  # the attribute of a topic


def group_facts(config: SubscriptionGroupConfig) -> GroupFacts:
    """Return the facts about a group with these settings."""
    policy = config.group_retry_policy
    custom = policy.customized_retry_policy if policy is not None and policy.type == "CUSTOMIZED" else None
    if custom is not None and custom.next:
        return GroupFacts(config.consume_message_orderly, config.retry_max_times, tuple(custom.next[:64]))
    return GroupFacts(config.consume_message_orderly, config.retry_max_times)
