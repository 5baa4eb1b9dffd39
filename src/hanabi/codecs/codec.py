"""Base of all codecs: a body for each value, and a value for each body.

A codec has no state besides its compiled schema, so any number of threads may share it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final, Generic, TypedDict, TypeVar, Unpack

from hanabi.codecs.decoding import decoding_listener
from hanabi.codecs.received import Received
from hanabi.errors import BodyNotDecoded
from hanabi.message import Message, StoredMessage

CONTENT_TYPE: Final = "content-type"  # the property that names the codec

T = TypeVar("T")
R = TypeVar("R")


class MessageOptions(TypedDict, total=False):
    """Fields of `hanabi.Message` besides topic and body."""

    tags: str | None
    keys: Sequence[str]
    properties: dict[str, str]
    flag: int
    delay_level: int
    wait_stored: bool
    deliver_time_ms: int
    delay: timedelta | None
    deliver_at: datetime | None
    ordering_key: str | None


class Codec(ABC, Generic[T]):
    """Bodies of one kind. A subclass implements `encode` and `decode`, and names its `content_type`."""

    content_type: ClassVar[str]

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the body for *value*. Raise `InvalidMessage` if it has none."""

    @abstractmethod
    def decode(self, body: bytes) -> T:
        """Return the value in *body*. Any exception means that it has none."""

    def message(self, topic: str, value: T, **options: Unpack[MessageOptions]) -> Message:
        """Make the message that carries *value*. *options* are fields of `Message`. The property `content-type` names
        the codec for readers; decoding does not need it.
        """
        message = Message(topic, self.encode(value), **options)
        message.properties = {CONTENT_TYPE: self.content_type, **message.properties}
        return message

    def received(self, message: StoredMessage) -> Received[T]:
        """Decode *message*, for example one of `poll`. Raise `BodyNotDecoded` if its body is no value of this codec."""
        try:
            return Received(self.decode(message.body), message)
        except Exception as error:
            raise BodyNotDecoded(
                f"message {message.message_id} of {message.queue}, offset {message.queue_offset}, has no"
                f" {self.content_type} body: {error}"
            ) from error

    def listener(self, function: Callable[[list[Received[T]]], R]) -> Callable[[list[StoredMessage]], R]:
        """Decorate a listener, `def` or `async def`, that gets decoded messages. Put it below `@consumer.listener`.

        A message whose body does not decode is not passed on. It becomes a dead letter of the group at once (`hanabi
        dlq` shows it, with its original body), and a warning names it. The other messages of its batch are consumed.
        """
        return decoding_listener(self.received, function)
