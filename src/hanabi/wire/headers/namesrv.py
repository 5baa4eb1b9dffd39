"""Headers of the requests that a name server answers, and of its replies. Numbers are request codes.

Fields with a default are nullable in Java's headers of 4.9.8, or came with 5.x, so that older peers do not send them.
"""

from hanabi.wire.header import Header, Int32, Int64


class PutKVConfigHeader(Header, frozen=True, kw_only=True):
    """100: keep a value under a namespace and a key."""

    namespace: str
    key: str
    value: str


class GetKVConfigHeader(Header, frozen=True, kw_only=True):
    """101: the value under a namespace and a key."""

    namespace: str
    key: str


class GetKVConfigReplyHeader(Header, frozen=True, kw_only=True):
    value: str | None = None


class DeleteKVConfigHeader(Header, frozen=True, kw_only=True):
    """102: forget a key of a namespace."""

    namespace: str
    key: str


class RegisterBrokerHeader(Header, frozen=True, kw_only=True):
    """103: here I am. The body has the broker's topics; its checksum is Java's UtilAll.crc32, 0 when not taken."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None  # 5.x: how long this broker may be silent
    enable_acting_master: bool | None = None  # 5.x: a slave may stand in for a lost master
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerReplyHeader(Header, frozen=True, kw_only=True):
    """The reply to a slave: its master's addresses for replication and for requests."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerHeader(Header, frozen=True, kw_only=True):
    """104: I am leaving."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class GetRouteHeader(Header, frozen=True, kw_only=True):
    """105: the route of this topic. The flag is for clients that do not read fastjson's bare integer keys."""

    topic: str
    accept_standard_json_only: bool | None = None


class WipeWritePermHeader(Header, frozen=True, kw_only=True):
    """205: no more writes to this broker."""

    broker_name: str


class WipeWritePermReplyHeader(Header, frozen=True, kw_only=True):
    wipe_topic_count: Int32


class DeleteTopicInNamesrvHeader(Header, frozen=True, kw_only=True):
    """216: forget a topic, in all clusters or only in one."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicHeader(Header, frozen=True, kw_only=True):
    """217, since 5.x: the body is the route of a topic whose brokers are already registered."""

    topic: str


class GetKVListHeader(Header, frozen=True, kw_only=True):
    """219: all keys and values of a namespace."""

    namespace: str


class GetTopicsByClusterHeader(Header, frozen=True, kw_only=True):
    """224: the topics on any broker of this cluster."""

    cluster: str


class QueryDataVersionHeader(Header, frozen=True, kw_only=True):
    """322: have you got this version of my topics? The body is the broker's DataVersion."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReplyHeader(Header, frozen=True, kw_only=True):
    changed: bool


class AddWritePermHeader(Header, frozen=True, kw_only=True):
    """327: writes to this broker are allowed again."""

    broker_name: str


class AddWritePermReplyHeader(Header, frozen=True, kw_only=True):
    add_topic_count: Int32


class GetBrokerMemberGroupHeader(Header, frozen=True, kw_only=True):
    """901, since 5.x: the addresses of all brokers under one name."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatHeader(Header, frozen=True, kw_only=True):
    """904, since 5.x: still here. The last fields are for a controller; a name server reads the first three."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None  # Java's spelling
    election_priority: Int32 | None = None
