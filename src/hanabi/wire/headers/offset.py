"""Headers of the requests about offsets: the first and last offsets of queues, and the offsets of groups.

Numbers are request codes.
"""

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class OffsetReplyHeader(Header, frozen=True, kw_only=True):
    """The reply to 14, 29, 30 and 31."""

    offset: Int64


class QueryConsumerOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """14: how far this group has come in this queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None  # 5.x


class UpdateConsumerOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """15: this group has consumed everything below this offset."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    increase_only: bool | None = None  # ours: a smaller one than is known changes nothing. Apache passes it over


class SearchOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """29: the offset of the message stored at this time."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None  # 5.x: lower or upper, in any case of letters


class GetMaxOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """30: the offset that the next message of this queue will get."""

    topic: str
    queue_id: Int32
    committed: bool | None = None  # 5.x: false counts messages that consumers cannot see yet


class GetMinOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """31: the oldest offset of this queue that is still kept."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeHeader(AddressedHeader, frozen=True, kw_only=True):
    """32: when the oldest message of this queue was stored."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeReplyHeader(Header, frozen=True, kw_only=True):
    timestamp: Int64


class ResetOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """222, admin to broker, and 220, broker to client: set a group back, or forward, to a point in time."""

    topic: str
    group: str
    timestamp: Int64  # -1: the end
    is_force: bool  # also forward
    queue_id: Int32 | None = None  # 5.x; absent or negative: all queues of the topic
    offset: Int64 | None = None  # 5.x, with a queue: this offset, and the time is ignored


class GetConsumerStatusHeader(AddressedHeader, frozen=True, kw_only=True):
    """223, admin to broker, and 221, broker to client: the offsets that the clients of a group hold in memory."""

    topic: str
    group: str
    client_addr: str | None = None  # only this client


class QueryCorrectionOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """308: the smallest offsets of all groups of a topic, compared with one group's."""

    compare_group: str
    topic: str
    filter_groups: str | None = None  # groups to leave out, separated by commas


class CloneGroupOffsetHeader(AddressedHeader, frozen=True, kw_only=True):
    """314: give one group the offsets of another."""

    src_group: str
    dest_group: str
    topic: str | None = None  # absent: all topics of the source group
    offline: bool = False
