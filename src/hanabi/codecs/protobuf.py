"""Protobuf bodies, of classes that protoc generated. Needs the extra `protobuf`."""

from typing import ClassVar, Protocol, Self, TypeVar

from hanabi.codecs.codec import Codec
from hanabi.errors import InvalidMessage


class ProtobufMessage(Protocol):
    """The part of a generated class that the codec uses."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name

    @classmethod
    def FromString(cls, s: bytes) -> Self: ...  # noqa: N802


M = TypeVar("M", bound=ProtobufMessage)


class Protobuf(Codec[M]):
    """Codec of Protobuf bodies. *kind* is a generated class.

    orders = Protobuf(orders_pb2.Order)
    """

    content_type: ClassVar[str] = "application/protobuf"

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind

    def encode(self, value: M) -> bytes:
        """Return *value* serialized. Raise `InvalidMessage` if it lacks a required field, or is empty: no message has
        an empty body.
        """
        try:
            body = value.SerializeToString()
        except Exception as error:
            raise InvalidMessage(f"{value!r} cannot be serialized: {error}") from error
        if not body:
            raise InvalidMessage(f"{self._kind.__name__} with default values only has no bytes, and a body needs one")
        return body

    def decode(self, body: bytes) -> M:
        """Return the value in *body*. Raise if it was not written by this type."""
        return self._kind.FromString(body)
