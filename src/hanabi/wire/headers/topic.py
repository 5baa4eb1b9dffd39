"""Headers of the requests to a broker about its topics. Numbers are request codes."""

from hanabi.wire.header import Int32
from hanabi.wire.headers.addressed import AddressedHeader


class CreateTopicHeader(AddressedHeader, frozen=True, kw_only=True):
    """17: make or change a topic; 513, 5.x: the same for one whose queues are mapped to brokers (in the body)."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None  # 5.x: +name=value or -name, separated by commas
    force: bool | None = None  # 5.x


class DeleteTopicHeader(AddressedHeader, frozen=True, kw_only=True):
    """215: forget a topic and, in time, its messages."""

    topic: str


class GetTopicStatsInfoHeader(AddressedHeader, frozen=True, kw_only=True):
    """202: first and last offset and last change of each queue."""

    topic: str


class QueryTopicConsumeByWhoHeader(AddressedHeader, frozen=True, kw_only=True):
    """300: the groups that consume a topic."""

    topic: str


class GetTopicConfigHeader(AddressedHeader, frozen=True, kw_only=True):
    """351, 5.x: the settings of one topic."""

    topic: str
