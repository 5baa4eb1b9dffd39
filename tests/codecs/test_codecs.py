"""Codecs: values in, the same values out; bodies that do not match are refused."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pydantic
import pytest
from google.protobuf import struct_pb2, wrappers_pb2

from hanabi.codecs import Avro, BodyNotDecoded, Codec, Json, MsgPack, Protobuf
from hanabi.errors import ConfigError, InvalidMessage
from tests.client.consumer.stored import stored as stored_message


class Order(msgspec.Struct):
    number: int
    state: str


@dataclass
class Point:
    x: int
    y: int


class Customer(pydantic.BaseModel):
    name: str
    age: int


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "state", "type": "string"}],
}


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Json(Order), Order(43, "paid")),
        (Json(Point), Point(1, 2)),
        (Json(Customer), Customer(name="Ann", age=3)),
        (Json(), {"a": [1, 2.5, None, "ü"]}),
        (MsgPack(Order), Order(43, "paid")),
        (MsgPack(Customer), Customer(name="Ann", age=3)),
        (MsgPack(), {"raw": b"\x00\xff"}),
        (Avro(SCHEMA), {"number": 43, "state": "paid"}),
        (Avro(msgspec.json.encode(SCHEMA).decode(), Order), Order(43, "paid")),
        (Protobuf(wrappers_pb2.StringValue), wrappers_pb2.StringValue(value="paid")),
    ],
)
def test_a_value_comes_back_as_it_was(codec: Codec[Any], value: object) -> None:
    message = codec.message("Orders", value, tags="t", delay=timedelta(1), properties={"mine": "1"})
    assert (message.tags, message.delay) == ("t", timedelta(1))
    assert message.properties == {"content-type": codec.content_type, "mine": "1"}
    assert codec.decode(message.body) == value


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (Json(Order), b"{"),
        (Json(Order), b'{"number": "x", "state": "paid"}'),
        (Json(Customer), b'{"name": "Ann"}'),
        (MsgPack(Order), b"\xc1"),
        (MsgPack(Customer), b"\x01"),
        (Avro(SCHEMA), b"\x02"),
        (Avro(SCHEMA), b"\x02\x02a and more"),
        (Protobuf(struct_pb2.Struct), b"\xff\xff"),
    ],
)
def test_a_body_that_is_no_such_value_is_named(codec: Codec[Any], body: bytes) -> None:
    message = stored_message(body=body)
    with pytest.raises(BodyNotDecoded, match=f"message {message.message_id} of .* has no {codec.content_type} body"):
        codec.received(message)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Json(), object()),
        (MsgPack(), object()),
        (Avro(SCHEMA), {"number": "x"}),
        (Protobuf(wrappers_pb2.StringValue), wrappers_pb2.StringValue()),
    ],
)
def test_a_value_without_a_body_is_refused_before_the_send(codec: Codec[Any], value: object) -> None:
    with pytest.raises(InvalidMessage):
        codec.message("Orders", value)


def test_avro_reads_what_an_older_schema_wrote() -> None:
    fields = [*SCHEMA["fields"], {"name": "note", "type": "string", "default": "-"}]
    newer = Avro({**SCHEMA, "fields": fields}, writer_schema=SCHEMA)
    assert newer.decode(Avro(SCHEMA).encode({"number": 1, "state": "new"})) == {
        "number": 1,
        "state": "new",
        "note": "-",
    }
    with pytest.raises(ConfigError, match="Avro refuses the schema"):
        Avro({"type": "nonsense"})
