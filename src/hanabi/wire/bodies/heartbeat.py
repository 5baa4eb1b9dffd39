"""The heartbeat of a client to its brokers: its producers, its consumers and their subscriptions.

Agrees with Java's HeartbeatData, ProducerData, ConsumerData, SubscriptionData and CheckClientRequestBody.
"""

from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64

E = TypeVar("E", bound=StrEnum)


TAG: Final = "TAG"  # expression types of a subscription
SQL92: Final = "SQL92"
RULE: Final = "RULE"  # Hanabi's: SQL92 with functions and values of the body


class ConsumeType(StrEnum):
    """The side that starts a pull: the consumer's code, or the client library for it."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The delivery of each message to every member of a group, or to one of them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """The starting point of a group in a queue for which it has no offset yet. In the order of Java's enum."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


def _named(value: E | int, kind: type[E]) -> E:
    """Return the member's name for its number: fastjson accepts both, and the C++ client sends numbers."""
    if isinstance(value, kind):
        return value
    members = list(kind)
    if isinstance(value, int) and 0 <= value < len(members):
        return members[value]
    raise ValueError(f"{value!r} is no {kind.__name__}")


class SubscriptionData(Body, frozen=True, kw_only=True):
    """A group's subscription to one topic."""

    class_filter_mode: bool = always_written(False)
    code_set: list[Int32] = always_written_new(list)  # Java's hash codes of the tags
    expression_type: str = always_written(TAG)
    sub_string: str | None = None
    sub_version: Int64 = always_written(0)
    tags_set: list[str] = always_written_new(list)
    topic: str


class ProducerData(Body, frozen=True, kw_only=True):
    """A group that produces."""

    group_name: str


class ConsumerData(Body, frozen=True, kw_only=True):
    """A group that consumes. The three enums are read by name or by number, and are members afterwards."""

    consume_from_where: ConsumeFromWhere | int = always_written(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
    consume_type: ConsumeType | int
    group_name: str
    message_model: MessageModel | int
    subscription_data_set: list[SubscriptionData] = always_written_new(list)
    unit_mode: bool = always_written(False)

    def __post_init__(self) -> None:
        set_field = msgspec.structs.force_setattr
        set_field(self, "consume_from_where", _named(self.consume_from_where, ConsumeFromWhere))
        set_field(self, "consume_type", _named(self.consume_type, ConsumeType))
        set_field(self, "message_model", _named(self.message_model, MessageModel))


class HeartbeatData(Body, frozen=True, kw_only=True):
    """One client and all its groups.

    A 5.x client that knows its broker sends the fingerprint of its subscriptions in place of them.
    """

    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = always_written_new(list)
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] = always_written_new(list)
    without_sub: bool = False


class CheckClientRequest(Body, frozen=True, kw_only=True):
    """A check that this broker accepts a subscription, sent before a consumer with an expression starts."""

    client_id: str
    group: str
    namespace: str | None = None  # 5.x only
    subscription_data: SubscriptionData
