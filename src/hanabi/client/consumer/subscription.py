"""Subscription of a consumer to a topic, and its form in requests. Pure.

    "*"                  everything
    "created || paid"    messages with one of these tags
    sql("amount > 100")  messages whose properties fulfil the expression; brokers must allow it (enablePropertyFilter)
    rule("BODY('$.amount') > 100")    the same with functions and values of a JSON body; brokers of Hanabi

Agrees with Java's FilterAPI and, for the client's tag filter, PullAPIWrapper.processPullResult: a broker compares hash
codes, so the client compares the text. Independent of sockets; the version is a parameter.
"""

from typing import Final, TypeAlias

import msgspec

from hanabi.errors import ConfigError
from hanabi.wire.bodies.heartbeat import RULE, SQL92, SubscriptionData
from hanabi.wire.message.tags import subscribed_tags

ALL: Final = "*"


class Sql(msgspec.Struct, frozen=True):
    """Filter over the properties of messages, in SQL92."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigError('an SQL filter needs an expression, such as sql("amount > 100")')


def sql(text: str) -> Sql:
    """Make a filter over the properties of messages, in SQL92: `consumer.subscribe("Orders", sql("amount > 100"))`."""
    return Sql(text)


class Rule(msgspec.Struct, frozen=True):
    """Filter over properties and the body of messages, evaluated by Hanabi's brokers."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigError("a rule needs an expression, such as rule(\"BODY('$.amount') > 100\")")


def rule(text: str) -> Rule:
    """Make a filter over properties and the body: `consumer.subscribe("Orders", rule("BODY('$.amount') > 100"))`."""
    return Rule(text)


Expression: TypeAlias = str | Sql | Rule


def subscription_data(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """Build the subscription to *topic* (as brokers name it). *version* is a time in ms: brokers keep the newest."""
    if isinstance(expression, Sql | Rule):
        kind = SQL92 if isinstance(expression, Sql) else RULE
        return SubscriptionData(
            topic=topic, sub_string=expression.text, expression_type=kind, sub_version=version, tags_set=[]
        )
    if not expression or expression == ALL:
        return SubscriptionData(topic=topic, sub_string=ALL, sub_version=version)
    tags, codes = subscribed_tags(expression)
    if not tags:
        raise ConfigError(f"subscription to {topic}: there is no tag in {expression!r}; for everything say {ALL!r}")
    return SubscriptionData(topic=topic, sub_string=expression, tags_set=tags, code_set=codes, sub_version=version)


def wants(subscription: SubscriptionData, tags: str | None) -> bool:
    """Return True if a message with *tags* is subscribed to; the broker compares only hash codes."""
    wanted = subscription.tags_set
    return not wanted or subscription.class_filter_mode or (tags is not None and tags in wanted)
