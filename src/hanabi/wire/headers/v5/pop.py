"""Headers of POP consumption, since 5.x: the broker keeps the offsets and each message is acknowledged by its receipt.

Numbers are request codes. 200151 (acknowledge many), 400 (query assignment) and 401 (pull or pop?) have a body only.
"""

from hanabi.wire.header import Header, Int32, Int64
from hanabi.wire.headers.addressed import AddressedHeader


class PopMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """200050: hand out messages and hide them from other consumers for a while."""

    consumer_group: str
    topic: str
    queue_id: Int32  # -1: any queue
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64 = 0  # 0: when it arrives
    init_mode: Int32  # where a group starts that has no offset: 0 at the oldest message, 1 at the newest
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None  # in order: distinguishes a retry from a second consumer


class PopMessageReplyHeader(Header, frozen=True, kw_only=True):
    """The reply to a POP and to a peek. The three texts hold each message's receipt; see Java's ExtraInfoUtil."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """200051: this message is consumed."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str  # the receipt
    offset: Int64


class PeekMessageHeader(AddressedHeader, frozen=True, kw_only=True):
    """200052: peek at messages without consuming them."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class ChangeInvisibleTimeHeader(AddressedHeader, frozen=True, kw_only=True):
    """200053: hide a message that was handed out for longer, or for less."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str  # the receipt, void from now on
    offset: Int64
    invisible_time: Int64


class ChangeInvisibleTimeReplyHeader(Header, frozen=True, kw_only=True):
    """The parts of the new receipt."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationHeader(AddressedHeader, frozen=True, kw_only=True):
    """200054: say when a pop would find something."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64 = 0  # 0: when it arrives
    order: bool = False
    attempt_id: str | None = None


class NotificationReplyHeader(Header, frozen=True, kw_only=True):
    has_msg: bool
    polling_full: bool = False


class PollingInfoHeader(AddressedHeader, frozen=True, kw_only=True):
    """200055: how many requests wait on this queue."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoReplyHeader(Header, frozen=True, kw_only=True):
    polling_num: Int32
