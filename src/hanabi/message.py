"""Values shared by all parts: a queue, a message before sending, a stored message.

They are plain data. Only `wire/` encodes them.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from hanabi.errors import InvalidMessage

__all__ = ["Address", "Message", "MessageQueue", "StoredMessage"]

_ORDERING_KEY: Final = "__SHARDINGKEY"  # the property that carries it: `wire.message.property_names.SHARDING_KEY`
_MILLISECOND: Final = timedelta(milliseconds=1)


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of one topic on one broker.

    The field order is the sort order, and is that of Java's MessageQueue.compareTo: every client of a group sorts
    the queues before it divides them, so clients that sort differently would divide differently.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic} queue {self.queue_id} of {self.broker_name}"


class Address(NamedTuple):
    """A host and a port, as messages carry them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Message(msgspec.Struct):
    """A message before it is sent.

    `keys` find the message again later. They travel in one text with spaces between them, so one text with
    spaces may be given as well, and no key of a sequence can have a space in it.
    Messages with one `ordering_key` go to one queue, the one that `hanabi.by_hash` selects for it, unless the send
    names a queue or a selector. An ordered listener receives them in the order in which they were sent.

    At most one of four fields delays the delivery. `delay` is a timedelta, counted by the broker from the moment it
    stores the message. `deliver_at` is a datetime; one without a time zone is local time. `deliver_time_ms` is the same
    in milliseconds since 1970. `delay_level` counts the broker's delay levels from 1 (one second by default). Brokers
    of RocketMQ before 5.0 know only levels and deliver the others at once.

    With `wait_stored` off, the broker answers without waiting for its disk and its slaves.

        Message("Orders", b"paid", tags="paid", keys=["43"], ordering_key="order 43")
        Message("Reminders", b"pay, please", delay=timedelta(hours=2))
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_stored: bool = True
    deliver_time_ms: int = 0
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    ordering_key: str | None = None

    def __post_init__(self) -> None:
        given = self.keys
        try:
            if isinstance(given, str):
                self.keys = given.split()
            elif not isinstance(given, list | tuple):
                self.keys = tuple(given)  # for example a generator, which can be read once
            for key in self.keys:
                if not key or " " in key:
                    raise InvalidMessage(
                        f"keys: {key!r} is none: a key is text with at least one character and no space"
                    )
        except TypeError as error:  # not a sequence, or a key that is no text
            raise InvalidMessage(f"keys must be texts in a sequence, or one text, not {given!r}") from error

    @property
    def is_delayed(self) -> bool:
        """Return True if the broker is to deliver it later."""
        return bool(self.delay_level or self.deliver_time_ms or self.delay or self.deliver_at)

    @property
    def delay_ms(self) -> int:
        """Return `delay` in milliseconds, rounded up so that no message is early; 0 without one."""
        return -(-self.delay // _MILLISECOND) if self.delay else 0

    @property
    def deliver_ms(self) -> int:
        """Return the moment of delivery in milliseconds since 1970, rounded up; 0 without one."""
        return math.ceil(self.deliver_at.timestamp() * 1000) if self.deliver_at else self.deliver_time_ms


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a broker has stored, with its metadata.

    `queue_offset` counts messages in their queue, `log_offset` bytes in the broker's commit log. `body` is ready to
    use; `size` and `body_crc` are those of the record, where the body may have been compressed.
    """

    topic: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    flag: int
    queue_id: int
    queue_offset: int
    message_id: str  # made by the producer, else by the broker
    offset_message_id: str  # made by the broker: its address and log offset
    born_timestamp_ms: int
    born_host: Address
    store_timestamp_ms: int
    store_host: Address
    reconsume_times: int
    prepared_offset: int
    sys_flag: int
    log_offset: int
    size: int
    body_crc: int
    broker_name: str = ""  # not in the record: set by the client that pulled it

    @property
    def queue(self) -> MessageQueue:
        """Return the queue that it is stored in."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def ordering_key(self) -> str | None:
        """Return the `ordering_key` that it was sent with; None without one."""
        return self.properties.get(_ORDERING_KEY)
