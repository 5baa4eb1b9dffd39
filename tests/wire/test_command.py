"""Commands: both header forms, byte for byte as Java writes them, and everything else a clear protocol error."""

import json
import struct

import pytest

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.codes import Flag, HeaderForm, Language, RequestCode, ResponseCode
from hanabi.wire.command import (
    HEADER_BYTES_MAX,
    Command,
    decode_command,
    encode_head,
    encode_reply_head,
    encode_request,
)
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.headers.client import GetConsumerListByGroupHeader
from hanabi.wire.headers.v5.pop import PollingInfoHeader
from tests.golden_frames import ALL_FRAMES, GoldenFrame

FORMS = [HeaderForm.JSON, HeaderForm.BINARY]


def command_bytes(form: int, header: bytes, body: bytes = b"") -> bytes:
    return bytes([form]) + len(header).to_bytes(3, "big") + header + body


def json_command(**members: object) -> bytes:
    return command_bytes(HeaderForm.JSON, json.dumps(members).encode())


def binary_header(remark: bytes = b"", fields: bytes = b"") -> bytes:
    head = struct.pack(">hBhii", 38, 0, 409, 7, 0)
    return head + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def binary_field(name: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value


def language_of(command: Command) -> Language:
    return Language[command.language] if isinstance(command.language, str) else Language(command.language or 0)


@pytest.mark.parametrize("golden", ALL_FRAMES, ids=str)
def test_a_golden_frame_decodes_to_what_the_recorder_saw(golden: GoldenFrame) -> None:
    command = decode_command(golden.frame[4:])
    assert (command.code, command.opaque, command.is_response) == (golden.code, golden.opaque, golden.response)


@pytest.mark.parametrize("golden", ALL_FRAMES, ids=str)
def test_a_golden_frame_encodes_to_the_same_bytes(golden: GoldenFrame) -> None:
    command = decode_command(golden.frame[4:])
    fields = command.fields()
    head = encode_head(
        code=command.code,
        opaque=command.opaque,
        flag=command.flag,
        remark=command.remark,
        # Java leaves out an empty map that nobody made, and writes one that somebody did.
        fields=fields if fields or b'"extFields":{}' in golden.frame else None,
        body_bytes=len(command.body),
        form=command.form,
        language=language_of(command),
        version=command.version,
    )
    assert head + command.body == golden.frame


@pytest.mark.parametrize("form", FORMS)
def test_a_request_comes_out_as_it_went_in(form: HeaderForm) -> None:
    header = GetConsumerListByGroupHeader(consumer_group="消费者")
    (frame,) = FrameDecoder().feed(encode_request(38, 7, header, b"body", oneway=True, form=form))
    command = decode_command(frame)
    assert (command.code, command.opaque, command.form, command.body) == (38, 7, form, b"body")
    assert command.is_oneway
    assert not command.is_response
    assert language_of(command) is Language.PYTHON
    assert command.header(GetConsumerListByGroupHeader) == header


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_has_the_form_and_the_opaque_number_of_its_request(form: HeaderForm) -> None:
    (frame,) = FrameDecoder().feed(encode_request(38, -7, form=form))
    head = encode_reply_head(decode_command(frame), ResponseCode.SYSTEM_ERROR, "no", {"offset": "3"}, body_bytes=2)
    (frame,) = FrameDecoder().feed(head + b"ok")
    reply = decode_command(frame)
    assert (reply.form, reply.opaque, reply.code, reply.remark, reply.body) == (form, -7, 1, "no", b"ok")
    assert reply.flag == Flag.RESPONSE
    assert reply.fields() == {"offset": "3"}


def test_a_code_that_has_no_room_in_the_binary_form_goes_as_json() -> None:
    header = PollingInfoHeader(consumer_group="g", topic="t", queue_id=0)
    (frame,) = FrameDecoder().feed(encode_request(RequestCode.POLLING_INFO, 1, header, form=HeaderForm.BINARY))
    command = decode_command(frame)
    assert command.code == RequestCode.POLLING_INFO
    assert command.form is HeaderForm.JSON
    assert command.header(PollingInfoHeader) == header


@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_its_length_cannot_express_is_not_sent(form: HeaderForm) -> None:
    with pytest.raises(MQError, match="limit 16777215"):
        encode_head(code=10, opaque=1, fields={"properties": "x" * 2**24}, form=form)


# What peers other than Java's do, and Java accepts


def test_a_json_header_needs_only_its_code() -> None:
    command = decode_command(json_command(code=38))
    assert (command.code, command.opaque, command.flag, command.remark, command.language) == (38, 0, 0, None, None)
    assert command.fields() == {}


def test_unknown_members_of_a_json_header_are_ignored() -> None:
    command = decode_command(json_command(code=38, headerLength=12, **{"(form)": 1, "(body)": "aGk="}))
    assert command.form is HeaderForm.JSON
    assert command.body == b""


def test_numbers_of_a_json_header_may_be_text() -> None:
    assert decode_command(json_command(code="38", opaque="7")).opaque == 7


def test_null_for_the_fields_is_no_fields() -> None:
    assert decode_command(json_command(code=38, extFields=None)).fields() == {}


def test_bare_values_become_text_and_null_is_absent() -> None:
    command = decode_command(json_command(code=38, extFields={"a": 3, "b": True, "c": 0.5, "d": None, "e": "x"}))
    assert command.fields() == {"a": "3", "b": "true", "c": "0.5", "e": "x"}


def test_a_language_that_we_do_not_know_is_no_reason_to_refuse() -> None:
    assert decode_command(json_command(code=38, language="COBOL")).language == "COBOL"


# What nobody may do

DEEP = b"[" * 100_000 + b"]" * 100_000
BROKEN = {
    "nothing": b"",
    "no room for the header length": b"\0\0\0",
    "header longer than the frame": b'\0\0\0\x0b{"code":1}',
    "header length of 24 ones": b"\0\xff\xff\xff{}",
    "unknown form": command_bytes(2, b'{"code":1}'),
    "form of a TLS or HTTP peer": b"GET / HTTP/1.1\r\n\r\n" + b"x" * 0x455420,
    "empty JSON header": command_bytes(0, b""),
    "JSON that ends early": command_bytes(0, b'{"code":1'),
    "JSON that goes on": command_bytes(0, b'{"code":1}}'),
    "JSON that is no object": command_bytes(0, b"[1]"),
    "JSON without a code": command_bytes(0, b'{"opaque":1}'),
    "code that is no number": command_bytes(0, b'{"code":"ten"}'),
    "code beyond Java's int": command_bytes(0, b'{"code":2147483648}'),
    "opaque of thousands of digits": command_bytes(0, b'{"code":1,"opaque":' + b"9" * 5000 + b"}"),
    "deep nesting in a member": command_bytes(0, b'{"code":1,"x":' + DEEP + b"}"),
    "deep nesting in a field": command_bytes(0, b'{"code":1,"extFields":{"x":' + DEEP + b"}}"),
    "bad UTF-8 in a JSON remark": command_bytes(0, b'{"code":1,"remark":"\xff"}'),
    "half a surrogate pair": command_bytes(0, b'{"code":1,"remark":"\\ud800 and no more"}'),
    "empty binary header": command_bytes(1, b""),
    "binary header without lengths": command_bytes(1, binary_header()[:13]),
    "remark of negative length": command_bytes(1, binary_header()[:13] + struct.pack(">ii", -1, 0)),
    "remark longer than the header": command_bytes(1, binary_header()[:13] + struct.pack(">ii", 5, 0)),
    "fields of negative length": command_bytes(1, binary_header()[:17] + struct.pack(">i", -(2**31))),
    "fields longer than the header": command_bytes(1, binary_header()[:17] + struct.pack(">i", 2**31 - 1)),
    "bad UTF-8 in a binary remark": command_bytes(1, binary_header(remark=b"\xff")),
}


@pytest.mark.parametrize("frame", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_frame_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_command(frame)


@pytest.mark.parametrize("length", range(len(binary_header(b"remark", binary_field(b"a", b"b")))))
def test_a_truncated_binary_header_is_a_protocol_error(length: int) -> None:
    whole = binary_header(b"remark", binary_field(b"a", b"b"))
    with pytest.raises(RemoteProtocolError):
        decode_command(command_bytes(1, whole[:length]))


GROUP = binary_field(b"consumerGroup", b"g")
BROKEN_FIELDS = {
    # The name that reaches back finds the length of the value before it: taken at its word, it is read for ever.
    "an array of fields": json_command(code=38, extFields=[1]),
    "text for the fields": json_command(code=38, extFields="consumerGroup"),
    "bad UTF-8 in JSON": command_bytes(0, b'{"code":1,"extFields":{"consumerGroup":"\xff"}}'),
    "number beyond any range": command_bytes(0, b'{"code":1,"extFields":{"consumerGroup":' + b"9" * 5000 + b"}}"),
    "bad UTF-8 in a binary name": command_bytes(1, binary_header(fields=binary_field(b"\xff", b"g"))),
    "bad UTF-8 in a binary value": command_bytes(1, binary_header(fields=GROUP + binary_field(b"x", b"\xff"))),
    "name of negative length": command_bytes(1, binary_header(fields=GROUP + struct.pack(">hi", -1, 0))),
    "name longer than the fields": command_bytes(1, binary_header(fields=GROUP + struct.pack(">h", 9))),
    "name that reaches into what came before": command_bytes(
        1, binary_header(fields=GROUP + struct.pack(">hi", -7, 0))
    ),
    "value of negative length": command_bytes(1, binary_header(fields=GROUP + struct.pack(">hi", 0, -1))),
    "value longer than the fields": command_bytes(1, binary_header(fields=GROUP + struct.pack(">hi", 0, 1))),
    "half a field": command_bytes(1, binary_header(fields=GROUP + GROUP[:-1])),
    "one byte more": command_bytes(1, binary_header(fields=GROUP + b"\0")),
}


@pytest.mark.parametrize("frame", BROKEN_FIELDS.values(), ids=BROKEN_FIELDS.keys())
def test_broken_fields_are_a_protocol_error_that_names_the_header(frame: bytes) -> None:
    command = decode_command(frame)
    with pytest.raises(RemoteProtocolError, match=r"^bad "):
        command.fields()
    with pytest.raises(RemoteProtocolError, match=r"^bad GetConsumerListByGroupHeader: "):
        command.header(GetConsumerListByGroupHeader)


def test_fields_that_nobody_reads_do_no_harm() -> None:
    for frame in BROKEN_FIELDS.values():
        assert decode_command(frame).body == b""


@pytest.mark.parametrize("form", FORMS)
def test_a_header_over_the_limit_is_refused_and_one_at_the_limit_is_not(form: HeaderForm) -> None:
    frame = encode_head(code=1, opaque=1, fields={"key": "x" * 5000}, form=form)[4:]
    header_bytes = len(frame) - 4
    assert decode_command(frame, header_bytes).fields() == {"key": "x" * 5000}
    with pytest.raises(RemoteProtocolError, match=f"header of {header_bytes} bytes, limit {header_bytes - 1}"):
        decode_command(frame, header_bytes - 1)


@pytest.mark.parametrize("form", FORMS)
def test_a_header_has_a_limit_without_being_told(form: HeaderForm) -> None:
    frame = encode_head(code=1, opaque=1, remark="x" * HEADER_BYTES_MAX, form=form)[4:]
    with pytest.raises(RemoteProtocolError, match=f"limit {HEADER_BYTES_MAX}"):
        decode_command(frame)


@pytest.mark.parametrize("form", FORMS)
def test_far_more_fields_than_any_header_has_are_refused(form: HeaderForm) -> None:
    def command(count: int) -> Command:
        fields = {str(number): "" for number in range(count)}
        return decode_command(encode_head(code=1, opaque=1, fields=fields, form=form)[4:])

    assert len(command(4096).fields()) == 4096
    with pytest.raises(RemoteProtocolError, match="more than 4096"):
        command(4097).fields()
