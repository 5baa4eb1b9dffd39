"""The columns that the sink takes, and the messages that it makes of their rows. Checked before anything is sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from hanabi.errors import ConfigError, InvalidMessage, MQError
from hanabi.message import Message
from hanabi.spark.suggestions import did_you_mean

STAMP: Final = "SPARK_ROW"  # the property that says which row of which query a message was
_TEXT: Final = ("string",)
_BODY: Final = ("binary", "string")
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": _BODY,
    "value": _BODY,  # as Kafka's connector names it
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "orderingKey": ("string", "int", "bigint"),  # same key: same queue, in the order of the rows
    "delayLevel": ("int", "bigint"),
    "deliverTime": ("timestamp", "bigint"),  # bigint: milliseconds since 1970
}


@dataclass(frozen=True)
class SinkRow:
    """One message, and what decides about its queue."""

    number: int
    message: Message
    ordering_key: str | int | None

    @property
    def is_delayed(self) -> bool:
        return bool(self.message.delay_level or self.message.deliver_time_ms)


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
    names = set(schema.names)
    if len(names & {"body", "value"}) != 1:
        raise ConfigError("the sink needs one column body, or value instead")
    if topic is None and "topic" not in names:
        raise ConfigError("where to send is not said: set the option topic, or give a column topic")


def rows_of(batch: pa.RecordBatch, first: int, topic: str | None, stamp: str) -> Iterator[SinkRow]:
    """The messages of *batch*, whose first row has the number *first*. *topic* is for rows that name none."""
    columns: dict[str, list[Any]] = {
        name: _plain(batch.column(number)).to_pylist() for number, name in enumerate(batch.schema.names)
    }
    names, kinds = list(columns), batch.schema.types
    in_us = {name for name, kind in zip(names, kinds, strict=True) if pa.types.is_timestamp(kind)}
    for number, values in enumerate(zip(*columns.values(), strict=True), first):
        row = dict(zip(names, values, strict=True))
        if "deliverTime" in in_us and row["deliverTime"] is not None:
            row["deliverTime"] //= 1_000
        try:
            yield SinkRow(number, _message(row, topic, f"{stamp}/{number}"), row.get("orderingKey"))
        except MQError as error:
            raise InvalidMessage(f"row {number}: {error}") from error


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _message(row: dict[str, Any], topic: str | None, stamp: str) -> Message:
    body = row.get("body", row.get("value"))
    if body is None:
        raise InvalidMessage("the body is missing")
    to = row.get("topic") or topic
    if to is None:
        raise InvalidMessage("the topic is missing, and the option topic is not set")
    keys = row.get("keys") or ()
    return Message(
        to,
        body.encode() if isinstance(body, str) else body,
        tags=row.get("tags"),
        keys=keys.split() if isinstance(keys, str) else keys,
        properties={**dict(row.get("properties") or ()), STAMP: stamp},
        delay_level=row.get("delayLevel") or 0,
        deliver_time_ms=row.get("deliverTime") or 0,
    )
