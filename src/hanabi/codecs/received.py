"""A decoded message, as the listener of a codec gets it."""

from typing import Generic, NamedTuple, TypeVar

from hanabi.message import StoredMessage

T = TypeVar("T")


class Received(NamedTuple, Generic[T]):
    """A decoded body, and the message that it came with."""

    value: T
    message: StoredMessage
