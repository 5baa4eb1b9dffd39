"""Headers of the requests that send a message to a broker, or send one back, and of their replies.

Numbers are request codes. Fields without a default must be sent; those marked 5.x are unknown to older peers.
"""

from typing import TypeAlias

from msgspec import field

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class SendMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """10: store this message; 324: pass this answer on to the client that asked. The body is the message's."""

    producer_group: str
    topic: str
    default_topic: str  # the template for a topic that does not exist yet
    default_topic_queue_nums: Int32
    queue_id: Int32  # negative: the broker picks one
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32  # the application's own, stored and never interpreted
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False  # the body is a sequence of messages
    max_reconsume_times: Int32 | None = None


class SendMessageV2Header(Header, frozen=True, kw_only=True):
    """310, 320 (a batch) and 325: the same attributes as `SendMessageHeader`, under shorter names on the wire."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int32 | None = field(default=None, name="j")
    unit_mode: bool = field(default=False, name="k")
    batch: bool = field(default=False, name="m")
    max_reconsume_times: Int32 | None = field(default=None, name="l")
    target_broker: str | None = field(default=None, name="n")


AnySendMessageHeader: TypeAlias = SendMessageHeader | SendMessageV2Header


class SendMessageReplyHeader(Header, frozen=True, kw_only=True):
    """The place of the stored message. Region and trace are in every reply to a send, also in a refusal."""

    msg_id: str  # of a batch: as many as it has messages, separated by commas
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None  # 5.x
    recall_handle: str | None = None  # 5.x: the handle to recall a delayed message
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: bool | None = field(default=None, name="TRACE_ON")


class ReplyMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """326, broker to client: the answer to a request that this client sent as a message."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class ConsumerSendMsgBackHeader(AddressedHeader, frozen=True, kw_only=True):
    """36: a consumer failed on the message at this log offset; deliver it to its group again later."""

    offset: Int64
    group: str
    delay_level: Int32  # 0: the broker's choice, by the number of tries; negative: straight to the dead letters
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """370, 5.x: take back a delayed message that is not yet due."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageReplyHeader(Header, frozen=True, kw_only=True):
    msg_id: str
    region: str | None = field(default=None, name="MSG_REGION")
