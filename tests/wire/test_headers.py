"""Typed headers: described once each, read from both forms, written as Java reads them."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hanabi.wire.headers
from hanabi.errors import RemoteProtocolError
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_head, encode_request
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.header import Header, Int32, Int64, NoHeader, header_fields
from hanabi.wire.headers.acl import CredentialsHeader
from hanabi.wire.headers.addressed import AddressedHeader
from hanabi.wire.headers.client import RegisterMessageFilterClassHeader, UnregisterClientHeader
from hanabi.wire.headers.group import DeleteSubscriptionGroupHeader
from hanabi.wire.headers.offset import ResetOffsetHeader, SearchOffsetHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.query import QueryConsumeQueueHeader, QueryMessageHeader
from hanabi.wire.headers.send import SendMessageHeader, SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.registry.headers import REPLY_HEADERS, REQUEST_HEADERS
from tests.golden_frames import ALL_FRAMES, GoldenFrame

FORMS = [HeaderForm.JSON, HeaderForm.BINARY]
REGISTERED = sorted({*REQUEST_HEADERS.values(), *REPLY_HEADERS.values()}, key=lambda kind: kind.__name__)

# The codes of replies that have a header: a pull that finds nothing still says where to go on.
WITH_HEADER = {
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}

# Added to any request by Java's AclClientRPCHook and StreamTypeRPCHook; no header of ours has them.
ADDED_BY_HOOKS = {"AccessKey", "Signature", "ReqT"}


def received(fields: dict[str, str], form: HeaderForm, code: int = 1) -> Command:
    """Return a command with *fields*, as it comes off the wire."""
    (frame,) = FrameDecoder().feed(encode_head(code=code, opaque=1, fields=fields, form=form))
    return decode_command(frame)


def golden_header(golden: GoldenFrame) -> type[Header]:
    """Return the type of a golden frame's header. A reply that says no has none, whatever it would have had."""
    if not golden.response:
        return REQUEST_HEADERS.get(golden.request_code, NoHeader)
    return REPLY_HEADERS.get(golden.request_code, NoHeader) if golden.code in WITH_HEADER else NoHeader


# Against what Java wrote


@pytest.mark.parametrize("golden", ALL_FRAMES, ids=str)
def test_a_golden_header_decodes_to_its_type_and_encodes_to_the_same_fields(golden: GoldenFrame) -> None:
    command = decode_command(golden.frame[4:])
    header = command.header(golden_header(golden))
    fields = {name: text for name, text in command.fields().items() if name not in ADDED_BY_HOOKS}
    assert header_fields(header) == fields


@pytest.mark.parametrize("golden", ALL_FRAMES, ids=str)
def test_a_golden_header_is_the_same_value_in_both_forms(golden: GoldenFrame) -> None:
    command = decode_command(golden.frame[4:])
    kind = golden_header(golden)
    values = [received(command.fields(), form).header(kind) for form in FORMS]
    assert values == [command.header(kind)] * 2


def test_the_credentials_of_a_golden_request_can_be_read_beside_its_header() -> None:
    golden = next(golden for golden in ALL_FRAMES if golden.request_code == RequestCode.UPDATE_AND_CREATE_TOPIC)
    credentials = decode_command(golden.frame[4:]).header(CredentialsHeader)
    assert credentials.access_key == "rocketmq2"
    assert credentials.signature
    assert credentials.security_token is None


# The whole family


def test_every_header_class_is_registered_under_a_request_code() -> None:
    classes: set[type[Header]] = set()
    for module in pkgutil.walk_packages(hanabi.wire.headers.__path__, "hanabi.wire.headers."):
        members = vars(importlib.import_module(module.name)).values()
        classes |= {member for member in members if isinstance(member, type) and issubclass(member, Header)}
    assert classes - set(REGISTERED) == {Header, AddressedHeader, CredentialsHeader}


def test_a_reply_to_an_unknown_code_is_not_registered() -> None:
    assert {*REQUEST_HEADERS, *REPLY_HEADERS} <= set(RequestCode)


@pytest.mark.parametrize("kind", REGISTERED, ids=lambda kind: kind.__name__)
def test_a_header_is_frozen_and_its_names_on_the_wire_differ(kind: type[Header]) -> None:
    assert kind.__struct_config__.frozen
    names = [item.encode_name for item in msgspec.structs.fields(kind)]
    assert len(set(names)) == len(names)
    assert not any("_" in name for name in names if not name.isupper() and name != "_UNIQUE_KEY_QUERY")


@pytest.mark.parametrize("kind", REGISTERED, ids=lambda kind: kind.__name__)
def test_offsets_and_times_have_64_bits_and_other_numbers_as_java_has_them(kind: type[Header]) -> None:
    long_names = ("offset", "delta", "timestamp", "time", "millis", "mills", "broker_id", "rest_num", "sub_version")
    for item in msgspec.structs.fields(kind):
        if item.type in (Int32, Int32 | None, Int64, Int64 | None):
            is_long = item.name.endswith(long_names) or (kind, item.name) == (QueryConsumeQueueHeader, "index")
            assert item.type in ((Int64, Int64 | None) if is_long else (Int32, Int32 | None)), item.name


TEXT = st.text(max_size=12) | st.sampled_from(["null", "true", "0", "-1", "1e3", "杭州", "\0\1\2", '"\\'])
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    Int32: st.integers(-(2**31), 2**31 - 1),
    Int64: st.integers(-(2**63), 2**63 - 1),
}
VALUES |= {kind | None: st.none() | values for kind, values in VALUES.items()}


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """Any header with any values."""
    kind = draw(st.sampled_from(REGISTERED))
    return kind(**{item.name: draw(VALUES[item.type]) for item in msgspec.structs.fields(kind)})


@given(headers(), st.sampled_from(FORMS))
def test_any_header_comes_out_as_it_went_in(header: Header, form: HeaderForm) -> None:
    (frame,) = FrameDecoder().feed(encode_request(1, 1, header, form=form))
    assert decode_command(frame).header(type(header)) == header


def plausible_fields(kind: type[Header]) -> dict[str, str]:
    texts = {str: "text", bool: "true", Int32: "2", Int64: "3"}
    return {item.encode_name: texts[item.type] for item in msgspec.structs.fields(kind) if item.required}


REQUIRED_FIELDS = [(kind, name) for kind in REGISTERED for name in plausible_fields(kind)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "name"), REQUIRED_FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_a_missing_field_is_named_with_its_header(kind: type[Header], name: str, form: HeaderForm) -> None:
    fields = plausible_fields(kind)
    assert isinstance(received(fields, form).header(kind), kind)
    del fields[name]
    with pytest.raises(RemoteProtocolError, match=f"^bad {kind.__name__}: .*`{name}`"):
        received(fields, form).header(kind)


# Single values

PULL = plausible_fields(PullMessageHeader)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["", "two", " 2", "2.5", "0x2", "2147483648", "-2147483649", "9" * 5000, "nan", "{}"])
def test_a_malformed_number_is_named_with_its_header(text: str, form: HeaderForm) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^bad PullMessageHeader: .* - at `\$\.queueId`"):
        received({**PULL, "queueId": text}, form).header(PullMessageHeader)


@pytest.mark.parametrize("form", FORMS)
def test_numbers_reach_as_far_as_javas(form: HeaderForm) -> None:
    fields = {**PULL, "queueId": "-2147483648", "queueOffset": "9223372036854775807"}
    header = received(fields, form).header(PullMessageHeader)
    assert (header.queue_id, header.queue_offset) == (-(2**31), 2**63 - 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("TRUE", True), ("False", False)])
def test_javas_booleans_are_read_and_written(text: str, value: bool, form: HeaderForm) -> None:
    fields = {"topic": "t", "group": "g", "timestamp": "-1", "isForce": text}
    header = received(fields, form).header(ResetOffsetHeader)
    assert header.is_force is value
    assert header_fields(header) == {**fields, "isForce": text.lower()}


@pytest.mark.parametrize("form", FORMS)
def test_unknown_fields_are_ignored(form: HeaderForm) -> None:
    header = received({**PULL, "ns": "MQ_INST", "nsd": "true", "lo": "false", "x": "y"}, form).header(PullMessageHeader)
    assert header == received(PULL, form).header(PullMessageHeader)


def test_bare_numbers_for_text_and_null_for_what_is_optional_are_accepted() -> None:
    header = b'{"code":29,"extFields":{"topic":7,"queueId":1,"timestamp":"2","boundaryType":null,"bname":null}}'
    command = decode_command(b"\0" + len(header).to_bytes(3, "big") + header)
    assert command.header(SearchOffsetHeader) == SearchOffsetHeader(topic="7", queue_id=1, timestamp=2)


def test_null_for_what_is_required_is_missing() -> None:
    header = b'{"code":29,"extFields":{"topic":null,"queueId":"1","timestamp":"2"}}'
    command = decode_command(b"\0" + len(header).to_bytes(3, "big") + header)
    with pytest.raises(RemoteProtocolError, match=r"^bad SearchOffsetHeader: .*`topic`"):
        command.header(SearchOffsetHeader)


# Where Java's names are not the camel case of ours


def test_both_send_headers_have_the_same_attributes() -> None:
    def attributes(kind: type[Header]) -> dict[str, tuple[Any, Any]]:
        return {item.name: (item.type, item.default) for item in msgspec.structs.fields(kind)}

    assert attributes(SendMessageHeader) == attributes(SendMessageV2Header)


def test_the_short_names_of_a_send_are_those_of_java() -> None:
    names = {item.name: item.encode_name for item in msgspec.structs.fields(SendMessageV2Header)}
    assert names == {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "target_broker": "n",
    }


def test_irregular_names_are_those_of_java() -> None:
    def has(kind: type[Header], attribute: str, name: str) -> bool:
        return any((item.name, item.encode_name) == (attribute, name) for item in msgspec.structs.fields(kind))

    assert has(UnregisterClientHeader, "client_id", "clientID")
    assert has(RegisterMessageFilterClassHeader, "class_crc", "classCRC")
    assert has(PullMessageHeader, "target_broker", "bname")
    assert has(QueryMessageHeader, "by_unique_key", "_UNIQUE_KEY_QUERY")
    assert has(SendMessageReplyHeader, "region", "MSG_REGION")
    assert has(SendMessageReplyHeader, "trace_on", "TRACE_ON")


@pytest.mark.parametrize("name", ["removeOffset", "cleanOffset"])
def test_old_and_new_peers_ask_for_the_removal_of_offsets_by_different_names(name: str) -> None:
    fields = {"groupName": "g"}
    assert not received(fields, HeaderForm.JSON).header(DeleteSubscriptionGroupHeader).forget_offsets
    assert received({**fields, name: "true"}, HeaderForm.JSON).header(DeleteSubscriptionGroupHeader).forget_offsets


def test_what_is_none_is_left_out_and_defaults_are_sent() -> None:
    fields = header_fields(DeleteSubscriptionGroupHeader(group_name="g"))
    assert fields == {"groupName": "g", "removeOffset": "false"}
