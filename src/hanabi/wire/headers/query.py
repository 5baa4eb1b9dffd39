"""Headers of queries for stored messages. Numbers are request codes."""

from msgspec import field

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class QueryMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """12: the messages of a topic with this key, stored between two points in time."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    by_unique_key: bool | None = field(default=None, name="_UNIQUE_KEY_QUERY")  # the key is a client-made message id


class QueryMessageReplyHeader(Header, frozen=True, kw_only=True):
    """The position up to which the index had come."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(Header, frozen=True, kw_only=True):
    """33: the message at this log offset."""

    offset: Int64
    topic: str | None = None  # 5.x


class QueryConsumeQueueHeader(AddressedHeader, frozen=True, kw_only=True):
    """321: entries of a consume queue, and which of them a group's filter would take."""

    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
