"""What a consumer wants of a topic, and the form in which brokers hear of it. Pure.

    "*"                  everything
    "created || paid"    messages with one of these tags
    sql("amount > 100")  messages whose properties fulfil the expression; brokers must allow it (enablePropertyFilter)

Agrees with Java's FilterAPI and, for the second look at the tags, PullAPIWrapper.processPullResult: a broker compares
hash codes, so what it lets through is compared again by text. Knows nothing of sockets; the version comes in.
"""

from typing import Final, TypeAlias

import msgspec

from hanabi.errors import ConfigError
from hanabi.wire.bodies.heartbeat import SQL92, SubscriptionData
from hanabi.wire.message.tags import subscribed_tags

ALL: Final = "*"


class Sql(msgspec.Struct, frozen=True):
    """A filter over the properties of messages, in SQL92."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigError('an SQL filter needs an expression, such as sql("amount > 100")')


def sql(text: str) -> Sql:
    """A filter over the properties of messages, in SQL92: `consumer.subscribe("Orders", sql("amount > 100"))`."""
    return Sql(text)


Expression: TypeAlias = str | Sql


def subscription_data(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """The subscription to *topic* (as brokers name it). *version* is a time in ms: brokers believe the newest."""
    if isinstance(expression, Sql):
        return SubscriptionData(
            topic=topic, sub_string=expression.text, expression_type=SQL92, sub_version=version, tags_set=[]
        )
    if not expression or expression == ALL:
        return SubscriptionData(topic=topic, sub_string=ALL, sub_version=version)
    tags, codes = subscribed_tags(expression)
    if not tags:
        raise ConfigError(f"subscription to {topic}: there is no tag in {expression!r}; for everything say {ALL!r}")
    return SubscriptionData(topic=topic, sub_string=expression, tags_set=tags, code_set=codes, sub_version=version)


def wants(subscription: SubscriptionData, tags: str | None) -> bool:
    """Whether a message with *tags* is one of those subscribed to, which a broker tells by hash code alone."""
    wanted = subscription.tags_set
    return not wanted or subscription.class_filter_mode or (tags is not None and tags in wanted)
