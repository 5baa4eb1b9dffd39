"""The dialect: what Java's fastjson writes is read, what it reads is written, and nothing else gets through."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hanabi.errors import RemoteProtocolError
from hanabi.message import MessageQueue
from hanabi.wire import dialect, fastjson
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.dialect import parse_dialect
from hanabi.wire.fastjson import decode_body, decode_plain_body, encode_body
from hanabi.wire.header import Int64

QUEUE = MessageQueue("T", "a", 2)


class Numbered(Body, frozen=True, kw_only=True):
    """A map from numbers."""

    names: dict[int, str] = always_written_new(dict)
    note: str | None = None


class Keyed(Body, frozen=True, kw_only=True):
    """Maps from message queues, two of them inside other maps."""

    by_number: dict[int, list[MessageQueue]] | None = None
    inner: dict[str, dict[MessageQueue, int]] = always_written_new(dict)
    table: dict[MessageQueue, Numbered] = always_written_new(dict)


class Plain(Body, frozen=True, kw_only=True):
    """Nothing but JSON."""

    count: int = always_written(3)
    data: bytes | None = None
    items: list[str] = always_written_new(list)
    queue: MessageQueue | None = None


# What fastjson 1.2.69 and 1.2.83 make of it, as they do (JSON.parse, then JSON.toJSONString).
READ_AS_FASTJSON_DOES = [
    ('{0:"x"}', {"0": "x"}),
    ("{-1:2}", {"-1": 2}),
    ("{1.5:2}", {"1.5": 2}),
    ("{'a':1}", {"a": 1}),
    ("{a:1}", {"a": 1}),
    ("{$a_1:1}", {"$a_1": 1}),
    ("{null:2,true:3}", {"null": 2, "true": 3}),
    ('{"a":1,}', {"a": 1}),
    ('{,"a":1,,"b":2}', {"a": 1, "b": 2}),
    ("[1,2,]", [1, 2]),
    ("[,1]", [1]),
    ('{"a":NaN,"b":undefined,"c":null}', {}),
    ('{"a":+1,"b":01}', {"a": 1, "b": 1}),
    ('{"a":1e3}', {"a": 1000.0}),
    (r"""{"a":'it\'s "so"'}""", {"a": 'it\'s "so"'}),
    (r'{"a":"\x41\'\v\0\/"}', {"a": "A'\v\0/"}),
    ('{"a":"raw\nline"}', {"a": "raw\nline"}),
    (r'{"a":"\u4e2d\uD83D\uDE00"}', {"a": "中😀"}),
    ('\ufeff{"a":1}', {"a": 1}),
    ('{"a":{"topic":"T"},"b":[{"$ref":"$.a"}]}', {"a": {"topic": "T"}, "b": [{"topic": "T"}]}),
    (r'{"x.y@c-1":{"q":1},"b":{"$ref":"$.x\\.y\\@c\\-1"}}', {"x.y@c-1": {"q": 1}, "b": {"q": 1}}),
    ('{"l":[0,{"q":1}],"b":{"$ref":"$.l[1]"}}', {"l": [0, {"q": 1}], "b": {"q": 1}}),
    ('{"m":{7:{"q":1},8:{"$ref":"$.m[7]"}}}', {"m": {"7": {"q": 1}, "8": {"q": 1}}}),
    ('{{"brokerName":"a","queueId":2,"topic":"T"}:3}', {QUEUE: 3}),
    (
        '{"q":{"brokerName":"a","queueId":2,"topic":"T"},"m":{{"$ref":"$.q"}:3}}',
        {"q": {"brokerName": "a", "queueId": 2, "topic": "T"}, "m": {QUEUE: 3}},
    ),
]


@pytest.mark.parametrize(("text", "value"), READ_AS_FASTJSON_DOES)
def test_the_dialect_is_read_as_fastjson_reads_it(text: str, value: Any) -> None:
    assert parse_dialect(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[",
        "{]",
        "[}",
        '{"a"}',
        '{"a":}',
        '{"a":1 "b":2}',
        '{"a":1;"b":2}',
        '{"a":1}}',
        '{"a":1}x',
        '{"a":-}',
        '{"a":.5}',
        '{"a":TRUE}',
        '{"a":"}',
        "{'a:1}",
        '"\\',
        r'{"a":"\q"}',
        r'{"a":"\u12"}',
        r'{"a":"\ud800"}',
        r'{"a":"\ude00\ud83d"}',
        "{[1]:2}",
        '{{"a":1}:2}',
        '{{"brokerName":"a","queueId":{},"topic":"T"}:3}',
        '{"a":{"$ref":"$.b"},"b":1}',
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":".."}}',
        '{"a":{"b":{"$ref":"$.a"}}}',
        '{"l":[0],"a":{"$ref":"$.l[1]"}}',
        '{"l":[0],"a":{"$ref":"$.l[99999999999999999999]"}}',
        '{"l":[0],"a":{"$ref":"$.l.x"}}',
        '{"l":1,"a":{"$ref":"$.l.x"}}',
        '{"l":"text","a":{"$ref":"$.l[0]"}}',
        '{"a":{"$ref":1}}',
        '{"$ref":"$"}',
        '{"a":{"$ref":"$x"}}',
    ],
)
def test_what_is_not_the_dialect_is_a_protocol_error(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="bad JSON"):
        parse_dialect(text.encode())


def test_bytes_that_are_no_text_are_a_protocol_error() -> None:
    with pytest.raises(RemoteProtocolError, match="utf-8"):
        parse_dialect(b'{"a":"\xff"}')


json_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text().filter(lambda key: key != "$ref"), children),
    max_leaves=30,
)


@settings(deadline=None)
@given(json_values, st.booleans())
def test_plain_json_is_part_of_the_dialect(value: Any, ascii_only: bool) -> None:
    assert parse_dialect(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


# ---- typed -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.text()),
    st.dictionaries(st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 99)), st.integers(-9, 9)),
    st.booleans(),
)
@example({1: 'a,1:"b'}, {MessageQueue('{"', "\\", 0): 1}, True)
def test_what_is_written_is_read_back(names: dict[int, str], table: dict[MessageQueue, int], standard: bool) -> None:
    body = Keyed(
        by_number={7: list(table)}, inner={"one": table}, table={queue: Numbered(names=names) for queue in table}
    )
    assert decode_body(encode_body(body, standard=standard), Keyed) == body


def test_numbers_and_objects_as_keys_are_written_as_fastjson_does() -> None:
    body = Keyed(inner={"1": {QUEUE: 5}}, table={QUEUE: Numbered(names={-1: "x", 2: "中"})})
    key = '{"brokerName":"a","queueId":2,"topic":"T"}'
    assert (
        encode_body(body).decode() == f'{{"inner":{{"1":{{{key}:5}}}},"table":{{{key}:{{"names":{{-1:"x",2:"中"}}}}}}}}'
    )


def test_a_standard_body_is_json_and_ascii() -> None:
    body = Keyed(by_number={7: []}, table={MessageQueue("中", "a", 2): Numbered(names={2: "é😀"})})
    data = encode_body(body, standard=True)
    assert data.isascii()
    assert b'"byNumber":{"7":[]}' in data
    assert rb'"2":"\u00E9\uD83D\uDE00"' in data
    ((key, value),) = json.loads(data)["table"].items()
    assert json.loads(key) == {"brokerName": "a", "queueId": 2, "topic": "中"}
    assert value == {"names": {"2": "é😀"}}


def test_nulls_are_left_out_and_defaults_are_not() -> None:
    assert encode_body(Plain()) == b'{"count":3,"items":[]}'
    assert encode_body(Keyed()) == b'{"inner":{},"table":{}}'
    assert encode_body(Numbered(names={1: "x"}, note="")) == b'{"names":{1:"x"},"note":""}'


def test_message_queues_are_written_in_alphabetical_order_everywhere() -> None:
    assert b'"queue":{"brokerName":"a","queueId":2,"topic":"T"}' in encode_body(Plain(queue=QUEUE))


def test_bytes_travel_as_base64() -> None:
    assert encode_body(Plain(data=b"hello")) == b'{"count":3,"data":"aGVsbG8=","items":[]}'
    assert decode_body(b"{data:'aGVsbG8='}", Plain).data == b"hello"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ('{"count":"7"}', Plain(count=7)),
        ('{"count":null,"items":null}', Plain()),
        ('{"unknown":[{"deep":null}],"count":7}', Plain(count=7)),
        ("{'count':7,unknown:{0:1}}", Plain(count=7)),
        ('{"items":["1,2:3"],}', Plain(items=["1,2:3"])),
    ],
)
def test_a_body_may_say_more_or_less_than_its_type(text: str, body: Plain) -> None:
    assert decode_body(text.encode(), Plain) == body


@pytest.mark.parametrize(
    "text", ['{"names":{0:"x","1":"1:,2:"}}', '{"names":{"0":"x","1":"1:,2:"}}', "{names:{0:'x',1:'1:,2:'}}"]
)
def test_number_keys_are_read_bare_and_quoted(text: str) -> None:
    assert decode_body(text.encode(), Numbered).names == {0: "x", 1: "1:,2:"}


def test_the_error_names_the_body_and_what_is_wrong() -> None:
    with pytest.raises(RemoteProtocolError, match=r"bad Plain: .*int.*count"):
        decode_body(b'{"count":"many"}', Plain)
    with pytest.raises(RemoteProtocolError, match=r"bad Plain: .*where , or } must be before character 18"):
        decode_body(b'{"count":1 "items":[]}', Plain)
    with pytest.raises(RemoteProtocolError, match=r"bad Plain"):
        decode_body(b"", Plain)
    with pytest.raises(RemoteProtocolError, match=r"bad list"):
        decode_body(b"{}", list[str])


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ["[", '{"a":', "{a:", "{{", '{"unknown":['])
@pytest.mark.parametrize("depth", [dialect.DEPTH_MAX + 1, 1_000, 100_000])
def test_nesting_is_bounded(opening: str, depth: int) -> None:
    with pytest.raises(RemoteProtocolError, match="levels"):
        parse_dialect(opening.encode() * depth)
    with pytest.raises(RemoteProtocolError):
        decode_body(b"{0:1," + opening.encode() * depth, Plain)


def test_the_deepest_nesting_allowed_is_read() -> None:
    depth = dialect.DEPTH_MAX
    value = parse_dialect(b"[" * depth + b"]" * depth)
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


def test_the_number_of_values_is_bounded() -> None:
    fits = b"[" + b"1," * (dialect.VALUES_MAX - 1) + b"]"
    assert len(parse_dialect(fits)) == dialect.VALUES_MAX - 1
    with pytest.raises(RemoteProtocolError, match="values"):
        parse_dialect(fits[:-1] + b"1]")


def test_the_number_of_escapes_is_bounded() -> None:
    with pytest.raises(RemoteProtocolError, match="values"):
        parse_dialect(b'["' + rb"\x41" * dialect.VALUES_MAX + b'"]')


def test_a_body_over_the_limit_is_not_read_the_dear_way() -> None:
    with pytest.raises(RemoteProtocolError, match="limit"):
        decode_body(b"{0:1}" + b" " * fastjson.BODY_BYTES_MAX, Plain)


def test_references_cannot_unfold_without_end() -> None:
    lines = ['"a0":[1,2,3,4,5,6,7,8,9,10]']
    lines += [f'"a{i}":[' + ",".join([f'{{"$ref":"$.a{i - 1}"}}'] * 10) + "]" for i in range(1, 20)]
    with pytest.raises(RemoteProtocolError, match="values"):
        parse_dialect(("{" + ",".join(lines) + "}").encode())


def test_references_cannot_nest_without_end() -> None:
    lines = ['"a0":[]', *(f'"a{i}":[{{"$ref":"$.a{i - 1}"}}]' for i in range(1, 100))]
    with pytest.raises(RemoteProtocolError, match="levels"):
        parse_dialect(("{" + ",".join(lines) + "}").encode())


@pytest.mark.parametrize("text", ["{count:%b}", '{"count":%b}', "{%b:1}", '{"items":[],"count":%b,}'])
@pytest.mark.parametrize("digits", [20, 400, 5_000, 100_000])
def test_a_number_too_long_for_java_is_refused(text: str, digits: int) -> None:
    class Bounded(Body, frozen=True, kw_only=True):
        count: Int64

    with pytest.raises(RemoteProtocolError, match="bad Bounded"):
        decode_body(text.encode() % (b"9" * digits), Bounded)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'{"items":[' + b"{}," * (fastjson.OBJECTS_MAX - 1) + b"{}]}", "110001 times {"),
        (b'{"items":[' + b'"",' * (fastjson.COMMAS_MAX + 1) + b'""]}', "1048577 times ,"),
        (b'{"unknown":{' + b"1:1," * (fastjson.NUMBER_KEYS_MAX + 1) + b"1:1}}", "more than 131072 number keys"),
    ],
)
def test_a_body_made_of_tiny_things_is_refused_before_it_is_read(data: bytes, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"bad Numbered: .*{complaint}"):
        decode_body(data, Numbered)


def test_as_many_number_keys_as_are_allowed_are_read() -> None:
    names = ",".join(f'{number}:""' for number in range(fastjson.NUMBER_KEYS_MAX))
    assert len(decode_body(f'{{"names":{{{names}}}}}'.encode(), Numbered).names) == fastjson.NUMBER_KEYS_MAX


def test_the_dear_way_is_shorter_where_no_objects_are_keys() -> None:
    values = b"1," * (fastjson.DIALECT_VALUES_MAX + 1)
    with pytest.raises(RemoteProtocolError, match="bad Plain"):
        decode_body(b"{unknown:[" + values + b"]}", Plain)
    assert decode_body(b"{unknown:[" + values + b"]}", Keyed) == Keyed()


def test_long_numbers_are_not_even_read() -> None:
    with pytest.raises(RemoteProtocolError, match="a number of 401 characters"):
        parse_dialect(b"[" + b"9" * 401 + b"]")
    assert parse_dialect(b"[" + b"9" * 400 + b"]") == [int("9" * 400)]


class Referring(Body, frozen=True, kw_only=True):
    """Everything in it has a default, and a map takes whatever keys there are."""

    attributes: dict[str, str] = always_written_new(dict)
    first: Numbered = always_written_new(Numbered)
    second: Numbered = always_written_new(Numbered)


def test_a_reference_is_followed_where_every_field_of_its_place_has_a_default() -> None:
    body = decode_body(b'{"first":{"note":"n"},"second":{"$ref":"$.first"}}', Referring)
    assert body.second == Numbered(note="n")


def test_a_reference_in_place_of_a_map_is_followed() -> None:
    body = decode_body(b'{"first":{"a":"b"},"attributes":{"$ref":"$.first"}}', Referring)
    assert body.attributes == {"a": "b"}


def test_a_reference_to_nothing_is_an_error_even_where_all_have_defaults() -> None:
    with pytest.raises(RemoteProtocolError, match="to nothing"):
        decode_body(b'{"second":{"$ref":"$.first"}}', Referring)


def test_a_plain_body_has_number_keys_and_no_more_of_the_dialect() -> None:
    assert decode_plain_body(b'{"names":{7:"x"}}', Numbered) == Numbered(names={7: "x"})
    for text in (b"{names:{}}", b"{'names':{}}", b'{"names":null}', b"", b'{"names":{"7":"x"},}'):
        with pytest.raises(RemoteProtocolError, match="bad Numbered"):
            decode_plain_body(text, Numbered)
