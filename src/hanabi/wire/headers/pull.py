"""Headers of pulling: a consumer reads a queue from an offset that it knows itself. Numbers are request codes."""

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class PullMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """11, and 361 (the same from a lite pull consumer of 5.x): messages of one queue, from an offset on."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32  # bits of Java's PullSysFlag: the other fields that count
    commit_offset: Int64  # everything below it is consumed, where sys_flag says so
    suspend_timeout_millis: Int64  # how long to hold the request when nothing is there, where sys_flag says so
    sub_version: Int64  # of the subscription known from the heartbeat
    subscription: str | None = None
    expression_type: str | None = None  # absent: TAG
    max_msg_bytes: Int32 | None = None  # 5.x
    request_source: Int32 | None = None  # 5.x: a proxy asks for its client
    proxy_froward_client_id: str | None = None  # 5.x, Java's spelling


class PullMessageReplyHeader(Header, frozen=True, kw_only=True):
    """The next offset to pull, and the first and last offset of the queue."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None  # 5.x, here and below
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
