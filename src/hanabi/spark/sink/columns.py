"""Columns of the sink, and the conversion of rows to messages. All checks come before the first send."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message
from hanabi.spark.shared.suggestions import did_you_mean
from hanabi.spark.sink.row_ids import ROW_ID_PROPERTY, RowIds
from hanabi.wire.message import property_names as names

_TEXT: Final = ("string",)
_BODY: Final = ("binary", "string")
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": _BODY,
    "value": _BODY,  # as Kafka's connector names it
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "orderingKey": ("string", "int", "bigint"),  # rows with the same key go to the same queue, in order
    "rowKey": ("string", "int", "bigint"),  # identifies the row in its batch, for its stamp
    "delayLevel": ("int", "bigint"),
    "deliverTime": ("timestamp", "bigint"),  # bigint: milliseconds since 1970
}


class SinkRow(NamedTuple):
    """One message, with its row number and ordering key."""

    number: int
    message: Message
    ordering_key: str | int | None

    @property
    def is_delayed(self) -> bool:
        return self.message.is_delayed


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise unless messages can be made of rows of *schema*. *topic* is the option."""
    for field in schema.fields:
        kinds = COLUMNS.get(field.name)
        if kinds is None:
            raise ConfigError(
                f"the sink has no column {field.name!r}{did_you_mean(field.name, COLUMNS)}; it has {', '.join(COLUMNS)}"
            )
        if field.dataType.simpleString() not in kinds:
            raise ConfigError(
                f"column {field.name!r} is of type {field.dataType.simpleString()}, must be {' or '.join(kinds)}"
            )
    given = set(schema.names)
    if len(given & {"body", "value"}) != 1:
        raise ConfigError("the sink needs one column body, or value instead")
    if topic is None and "topic" not in given:
        raise ConfigError("no destination: set the option topic, or give a column topic")


def rows_of(batch: pa.RecordBatch, first: int, topic: str | None, stamps: RowIds) -> Iterator[SinkRow]:
    """Yield the messages of *batch*, whose first row has the number *first*.

    *topic* is the default of rows without one.
    """
    columns = {name: _values(batch.column(number)) for number, name in enumerate(batch.schema.names)}
    nothing: list[Any] = [None] * batch.num_rows

    def column(name: str) -> list[Any]:
        return columns.get(name, nothing)

    rows = zip(
        range(first, first + batch.num_rows),
        columns["body"] if "body" in columns else columns["value"],
        column("topic"),
        column("tags"),
        column("keys"),
        column("properties"),
        column("delayLevel"),
        column("deliverTime"),
        column("orderingKey"),
        column("rowKey"),
        strict=True,
    )
    for number, body, to, tags, keys, properties, delay_level, deliver_ms, key, row_key in rows:
        try:
            if body is None:
                raise InvalidMessage("the body is missing")
            destination: str | None = to or topic
            if destination is None:
                raise InvalidMessage("the topic is missing, and the option topic is not set")
            told = dict(properties) if properties else {}
            own = sorted((name, value) for name, value in told.items() if _is_own(name)) if told else []
            tags = tags if "tags" in columns else told.get(names.TAGS)
            keys = keys if "keys" in columns else told.get(names.KEYS)
            content = (destination, body, tags, keys, own, delay_level, deliver_ms, key)
            message = Message(
                destination,
                body.encode() if type(body) is str else body,
                tags=tags,
                keys=keys.split() if type(keys) is str else keys or (),
                properties={**dict(own), ROW_ID_PROPERTY: stamps.of(content, row_key)},
                delay_level=delay_level or 0,
                deliver_time_ms=deliver_ms or 0,
            )
        except MQError as error:
            raise InvalidMessage(f"row {number}: {error}") from error
        yield SinkRow(number, message, key)


def _is_own(name: str) -> bool:
    """Return whether a property belongs to the message itself; False for those that brokers and clients wrote."""
    return name not in names.RESERVED and not name.startswith(names.TRANSIENT_PREFIX)


def _values(column: pa.Array) -> list[Any]:
    """Return a column as Python values; timestamps become milliseconds."""
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.int64()), 1_000)  # Spark's timestamps are in microseconds
    values: list[Any] = column.to_pylist()
    return values
