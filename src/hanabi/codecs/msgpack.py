"""MessagePack bodies: as JSON in types and meaning, smaller and faster."""

from typing import Any, ClassVar, TypeVar, cast, overload

import msgspec

from hanabi.codecs.codec import Codec
from hanabi.codecs.models import is_pydantic
from hanabi.errors import InvalidMessage

T = TypeVar("T")


class MsgPack(Codec[T]):
    """Codec of MessagePack bodies. *kind* is the type of the values, as for `Json`. Needs no extra."""

    content_type: ClassVar[str] = "application/msgpack"

    @overload
    def __init__(self: "MsgPack[Any]") -> None: ...

    @overload
    def __init__(self, kind: type[T]) -> None: ...

    def __init__(self, kind: Any = Any) -> None:
        self._model = kind if is_pydantic(kind) else None
        self._decoder = msgspec.msgpack.Decoder(Any if self._model is not None else kind)

    def encode(self, value: T) -> bytes:
        """Return *value* as MessagePack. Raise `InvalidMessage` if it has a part that the format does not know."""
        plain = value if self._model is None else cast(Any, value).model_dump(mode="json")
        try:
            return msgspec.msgpack.encode(plain)
        except (TypeError, OverflowError, msgspec.MsgspecError) as error:
            raise InvalidMessage(f"{value!r} cannot be encoded as MessagePack: {error}") from error

    def decode(self, body: bytes) -> T:
        """Return the value in *body*. Raise if it is no MessagePack, or does not match the type."""
        value = self._decoder.decode(body)
        return cast(T, value if self._model is None else cast(Any, self._model).model_validate(value))
