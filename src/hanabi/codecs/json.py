"""JSON bodies, of msgspec Structs, dataclasses, TypedDicts, plain values and pydantic models."""

from typing import Any, ClassVar, TypeVar, cast, overload

import msgspec

from hanabi.codecs.codec import Codec
from hanabi.codecs.models import is_pydantic
from hanabi.errors import InvalidMessage

T = TypeVar("T")


class Json(Codec[T]):
    """Codec of JSON bodies. *kind* is the type of the values: bodies that do not match it do not decode.

        orders = Json(Order)
        anything = Json()                                   # dicts, lists, texts, numbers

    *kind* is a msgspec Struct, a dataclass, a TypedDict, any other type that msgspec knows, or a pydantic model.
    """

    content_type: ClassVar[str] = "application/json"

    @overload
    def __init__(self: "Json[Any]") -> None: ...

    @overload
    def __init__(self, kind: type[T]) -> None: ...

    def __init__(self, kind: Any = Any) -> None:
        self._model = kind if is_pydantic(kind) else None
        self._decoder = None if self._model is not None else msgspec.json.Decoder(kind)

    def encode(self, value: T) -> bytes:
        """Return *value* as JSON. Raise `InvalidMessage` if it has a part that JSON does not know."""
        if self._model is not None:
            return cast(Any, value).model_dump_json().encode()  # type: ignore[no-any-return]
        try:
            return msgspec.json.encode(value)
        except (TypeError, msgspec.MsgspecError) as error:
            raise InvalidMessage(f"{value!r} cannot be encoded as JSON: {error}") from error

    def decode(self, body: bytes) -> T:
        """Return the value in *body*. Raise if it is no JSON, or does not match the type."""
        if self._decoder is not None:
            return cast(T, self._decoder.decode(body))
        return cast(T, cast(Any, self._model).model_validate_json(body))
