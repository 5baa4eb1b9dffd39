"""Headers of the requests by which brokers know their clients, and reach them. Numbers are request codes.

34 (heartbeat), 41 and 42 (lock and unlock queues) and 46 (check a subscription) have a body only.
"""

from msgspec import field

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class HeartbeatReplyHeader(Header, frozen=True, kw_only=True):
    """34, 5.x: next time a fingerprint of the subscriptions is enough, unless the broker has other ones."""

    supports_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientHeader(AddressedHeader, frozen=True, kw_only=True):
    """35: a client leaves these groups."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupHeader(AddressedHeader, frozen=True, kw_only=True):
    """38: the ids of a group's members, which share the queues among themselves."""

    consumer_group: str


class NotifyConsumerIdsChangedHeader(AddressedHeader, frozen=True, kw_only=True):
    """40, broker to client: a member came or went; rebalance the queues."""

    consumer_group: str


class GetConsumerConnectionListHeader(AddressedHeader, frozen=True, kw_only=True):
    """203: the members of a group, their addresses and subscriptions."""

    consumer_group: str


class GetProducerConnectionListHeader(AddressedHeader, frozen=True, kw_only=True):
    """204: the members of a producer group, and where they are."""

    producer_group: str


class RegisterFilterServerHeader(Header, frozen=True, kw_only=True):
    """301: a filter server offers itself to a broker. 4.9.8 has none any more, but still the header."""

    filter_server_addr: str


class RegisterFilterServerReplyHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    broker_id: Int64


class RegisterMessageFilterClassHeader(Header, frozen=True, kw_only=True):
    """302: a class that a filter server shall run; its Java source is the body."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = field(name="classCRC")


class GetConsumerRunningInfoHeader(AddressedHeader, frozen=True, kw_only=True):
    """307, admin to broker to client: the running state of this consumer."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False  # with the stacks of its threads


class ConsumeMessageDirectlyHeader(AddressedHeader, frozen=True, kw_only=True):
    """309, admin to broker, which passes it on to the client with the message: consume it now and say how it went."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None  # filled in by the broker, as are the 5.x flags
    topic: str | None = None  # 5.x, here and below
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
