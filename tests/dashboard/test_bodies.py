"""Bodies as people read them: guessed, chosen, remembered, by a schema; filters by JSON paths; traces as timelines."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanabi import Message
from hanabi.admin.messages import TraceEvent
from hanabi.aio import Producer
from hanabi.codecs import Avro
from hanabi.dashboard.bodies import cbor
from hanabi.dashboard.bodies.book import FormBook
from hanabi.dashboard.bodies.forms import TopicForm, decoded
from hanabi.dashboard.cluster.json_path import json_filter
from hanabi.dashboard.render.timeline import bars
from hanabi.dashboard.security.roles import Role
from hanabi.errors import InvalidParameter
from hanabi.testing.cluster import running_cluster
from tests.dashboard.browsing import dashboard

# From appendix A of RFC 8949.
CBOR = [
    ("00", 0),
    ("1818", 24),
    ("1b000000e8d4a51000", 1_000_000_000_000),
    ("20", -1),
    ("3903e7", -1000),
    ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1),
    ("fa47c35000", 100000.0),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("6449455446", "IETF"),
    ("62c3bc", "ü"),
    ("4401020304", b"\x01\x02\x03\x04"),
    ("83010203", [1, 2, 3]),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("a201020304", {"1": 2, "3": 4}),
    ("5f42010243030405ff", b"\x01\x02\x03\x04\x05"),
    ("7f657374726561646d696e67ff", "streaming"),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
]


@pytest.mark.parametrize(("text", "value"), CBOR)
def test_cbor_is_read_as_its_standard_says(text: str, value: Any) -> None:
    assert cbor.decode(bytes.fromhex(text)) == value


BAD_CBOR = [
    "",
    "18",
    "62ff",
    "81",
    "9bffffffffffffffff",
    "ff",
    "0000",
    "1c",
    "f8ff",
    "5f01ff",
    "bf01ff",
    "81" * 200 + "00",
    "df00",
]


@pytest.mark.parametrize("text", BAD_CBOR)
def test_what_is_not_cbor_is_refused_and_never_exhausts_memory(text: str) -> None:
    with pytest.raises(ValueError):
        cbor.decode(bytes.fromhex(text))


def test_a_binary_body_is_guessed_and_the_guess_is_named() -> None:
    value = {"order": 43, "lines": [1.5]}
    packed = msgspec.msgpack.encode(value)
    assert (decoded(packed).form, json.loads(decoded(packed).text)) == ("msgpack", value)
    body = bytes.fromhex("a26161016162820203")
    assert (decoded(body).form, json.loads(decoded(body).text)) == ("cbor", {"a": 1, "b": [2, 3]})
    assert decoded(b"\x01").form == "hex"  # a number in both forms, which says nothing
    assert decoded(b"\x01", "msgpack").text == "1"
    chosen = decoded(b"\xff\xfe", "json")
    assert (chosen.form, chosen.problem) == ("hex", "the body is not json")


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "state", "type": "string"}],
}


def descriptor_set() -> str:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="state", number=2, type=9, label=1)
    files = descriptor_pb2.FileDescriptorSet(file=[file])
    return base64.b64encode(files.SerializeToString()).decode()


def test_avro_and_protobuf_are_read_by_a_given_schema() -> None:
    avro = TopicForm(form="avro", schema=json.dumps(SCHEMA))
    body = Avro(SCHEMA).encode({"id": 43, "state": "paid"})
    assert json.loads(decoded(body, given=avro).text) == {"id": 43, "state": "paid"}
    assert "not avro of this schema" in decoded(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", given=avro).problem
    proto = TopicForm(form="protobuf", schema=descriptor_set(), message="shop.Order")
    shown = decoded(b"\x08\x2b\x12\x04paid", given=proto)
    assert (shown.form, json.loads(shown.text)) == ("protobuf", {"id": "43", "state": "paid"})
    assert decoded(b"\x08", given=proto).problem
    assert decoded(b"x", "avro").problem == "there is no avro schema for this topic"


def test_the_book_of_forms_refuses_bad_schemas_and_survives_restarts(tmp_path: Path) -> None:
    book = FormBook(tmp_path / "forms.json")
    book.put("Orders", TopicForm(form="protobuf", schema=descriptor_set(), message="shop.Order"))
    bad = [
        TopicForm(form="avro", schema="{"),
        TopicForm(form="protobuf", schema="!!", message="x"),
        TopicForm(form="protobuf", schema=descriptor_set(), message="shop.Missing"),
        TopicForm(form="groovy"),
        TopicForm(form="avro", schema=" " * (257 << 10)),
    ]
    for form in bad:
        with pytest.raises(InvalidParameter):
            book.put("Bad", form)
    assert FormBook(tmp_path / "forms.json").find("Orders") == book.find("Orders")
    book.put("Orders", None)
    assert FormBook(tmp_path / "forms.json").find("Orders") is None


LINES = [{"sku": "a", "price": 5}, {"sku": "b-1", "price": 200}]
DOCUMENT = json.dumps({"amount": 150, "colour": "red", "lines": LINES, "x y": True, "n": None}).encode()
HOLDS = [
    "$.amount > 100",
    "$.amount >= 150 and $.colour == 'red'",
    "$.lines[1].price = 200",
    "$.lines[*].sku ~ 'b-'",
    '$["x y"] == true',
    "$.n == null",
    "$.n",
    "$.colour != 'blue'",
    '$.amount < 0 or $.colour = "red"',
    "$.amount==150&&$.n",
    "$.amount > 1e2",
    "$",
    "$.colour > 'a'",
    "$.amount != 'red'",
]
FAILS = [
    "$.amount > 200",
    "$.missing",
    "$.lines[7].price",
    "$.colour > 5",
    "$.n == 0",
    "$['x y'] == 1",
    "$.colour == 'blue' and $.n",
]
BAD_PATHS = [
    "amount > 1",
    "$.amount >",
    "$.amount > red",
    "$.a b",
    "$..a",
    "$.a and",
    "$[-1]",
    "$.a = 'x",
    "$" + ".a" * 40,
    " or ".join(["$.a"] * 30),
]


def test_a_json_path_filter_holds_or_does_not() -> None:
    for text in HOLDS:
        assert json_filter(text)(DOCUMENT), text
    for text in FAILS:
        assert not json_filter(text)(DOCUMENT), text
    assert not json_filter("$.a")(b"no json")
    assert not json_filter("$.a")(b"[" * 100_000)
    assert json_filter("")(b"anything")


@pytest.mark.parametrize("text", BAD_PATHS)
def test_a_json_path_filter_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        json_filter(text)


def event(kind: str, time: int, cost: int | None = None, success: bool | None = True) -> TraceEvent:
    return TraceEvent(event=kind, time=time, group="g", message_id="m", cost_ms=cost, success=success)


def test_a_trace_becomes_bars_in_the_order_of_time() -> None:
    found = bars([event("SubAfter", 1_100, 100, success=False), event("Pub", 1_000, 10)])
    assert [(bar.label, bar.after_ms, bar.failed) for bar in found] == [("Pub g", 0, False), ("SubAfter g", 100, True)]
    assert found[0].x == 0
    assert found[1].x + found[1].width <= 600
    assert bars([]) == []
    assert bars([event("Pub", 5)])[0].width == 3.0


async def test_a_chosen_form_is_remembered_for_the_topic_and_a_reader_cannot_choose(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv) as site:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            sent = await producer.send(Message("Orders", Avro(SCHEMA).encode({"id": 43, "state": "paid"})))
        view = f"/messages/view?id={sent.message_id}&topic=Orders"
        operator = await site.as_role(Role.OPERATOR)
        assert "Shown as <strong>avro</strong>" not in (await operator.get(view)).text
        fields = {"form": "avro", "schema": json.dumps(SCHEMA), "id": sent.message_id}
        assert (await operator.post("/topics/Orders/form", fields)).status_code == 303
        reader = await site.as_role(Role.READER)
        shown = (await reader.get(view)).text
        assert "Shown as <strong>avro</strong>" in shown
        assert "&#34;state&#34;: &#34;paid&#34;" in shown
        assert "Shown as <strong>hex</strong>" in (await reader.get(f"{view}&as=hex")).text
        assert (await reader.post("/topics/Orders/form", {"form": "hex"})).status_code == 403
        assert (await operator.post("/topics/Orders/form", {"form": "avro", "schema": "{"})).status_code == 400
        assert (await operator.get("/topics/Orders/live?json=$.a+%3E+1")).status_code == 200
        assert (await operator.get("/topics/Orders/live?json=a+%3E+1")).status_code == 400
