"""Avro bodies: one record without a header, by a schema that both sides know. Needs the extra `avro`."""

import io
from typing import Any, ClassVar, TypeVar, cast, overload

import msgspec

from hanabi.codecs.codec import Codec
from hanabi.errors import ConfigError, InvalidMessage

T = TypeVar("T")


class Avro(Codec[T]):
    """Codec of Avro bodies. *schema* is Avro's, as parsed JSON or as its text; values are dicts.

        orders = Avro(schema)                               # dicts
        orders = Avro(schema, Order)                        # a msgspec Struct, dataclass or TypedDict
        orders = Avro(new, Order, writer_schema=old)        # reads bodies of an older producer

    Raise `ConfigError` for a schema that Avro refuses.
    """

    content_type: ClassVar[str] = "avro/binary"

    @overload
    def __init__(self: "Avro[dict[str, Any]]", schema: Any, *, writer_schema: Any = None) -> None: ...

    @overload
    def __init__(self, schema: Any, kind: type[T], *, writer_schema: Any = None) -> None: ...

    def __init__(self, schema: Any, kind: Any = Any, *, writer_schema: Any = None) -> None:
        try:
            import fastavro
        except ImportError as error:
            raise ConfigError("fastavro is not installed; it comes with: pip install 'hanabi-mq[avro]'") from error
        self._avro, self._kind = fastavro, kind
        self._schema = self._parsed(schema)
        self._writer_schema = self._schema if writer_schema is None else self._parsed(writer_schema)

    def _parsed(self, schema: Any) -> Any:
        try:
            return self._avro.parse_schema(msgspec.json.decode(schema) if isinstance(schema, str | bytes) else schema)
        except Exception as error:
            raise ConfigError(f"Avro refuses the schema: {error}") from error

    def encode(self, value: T) -> bytes:
        """Return *value* as Avro. Raise `InvalidMessage` if it does not match the schema."""
        target = io.BytesIO()
        try:
            self._avro.schemaless_writer(target, self._schema, msgspec.to_builtins(value, builtin_types=(bytes,)))
        except Exception as error:
            raise InvalidMessage(f"{value!r} does not match the Avro schema: {error}") from error
        return target.getvalue()

    def decode(self, body: bytes) -> T:
        """Return the value in *body*. Raise if it does not match the schema, or if bytes are left over."""
        source = io.BytesIO(body)
        value = self._avro.schemaless_reader(source, self._writer_schema, self._schema)
        if source.tell() != len(body):
            raise ValueError(f"{len(body) - source.tell()} bytes are left behind the record")
        return cast(T, value if self._kind is Any else msgspec.convert(value, self._kind, builtin_types=(bytes,)))
