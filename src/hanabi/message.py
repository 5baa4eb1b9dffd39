"""Values shared by all parts: a queue, a message before sending, a stored message.

They are plain data. Only `wire/` encodes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hanabi.errors import InvalidMessage

__all__ = ["Address", "Message", "MessageQueue", "StoredMessage"]


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of one topic on one broker.

    The field order is the sort order, and is that of Java's MessageQueue.compareTo: every client of a group sorts
    the queues before it divides them, so clients that sort differently would divide differently.
    """

    topic: str
    broker_name: str
    queue_id: int


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
    `delay_level` counts the broker's delay levels from 1 (one second by default); 0 delivers at once.
    `deliver_time_ms` is the moment of delivery instead, in milliseconds since 1970; 0 is none. Brokers of RocketMQ
    before 5.0 do not know it and deliver at once.
    With `wait_stored` off, the broker answers without waiting for its disk and its slaves.
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
        return MessageQueue(self.topic, self.broker_name, self.queue_id)
