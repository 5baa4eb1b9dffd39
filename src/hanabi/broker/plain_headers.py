"""The header of a plain send, in both forms, read in one go: see `wire.command` for the layouts.

What the express lane need not know is declared all the same: a header is read here only if `decode_command` reads it,
too. A flag, a remark, a name that is not in the layout, or a code that does not stand first: then it is not for here.
"""

import struct
from typing import Final

import msgspec

from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.headers.base import Int32
from hanabi.wire.headers.send import SendMessageV2Header

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)

_HEADER_BYTES_MAX: Final = 16 * 1024  # longer ones take the other way
_JSON_STARTS: Final = tuple(b'{"code":%d,' % code for code in (SEND, BATCH))
_BINARY_STARTS: Final = tuple(code.to_bytes(2) for code in (SEND, BATCH))
_JSON, _BINARY = int(HeaderForm.JSON), int(HeaderForm.BINARY)

_BINARY_HEAD: Final = struct.Struct(">hxhiiii")
_NAME_AND_SIZE: Final = struct.Struct(">3sI")
_NAMES: Final = {b"\x00\x01" + name.encode(): name for name in SendMessageV2Header.__struct_encode_fields__}

_LENGTH_AND_FORM: Final = struct.Struct(">II")
_HEADER_AT: Final = _LENGTH_AND_FORM.size
_LENGTH_BYTES: Final = 4


class PlainSend(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The header of a request to send."""

    code: Int32
    fields: SendMessageV2Header = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = ""
    opaque: Int32 = 0
    remark: None = None
    rpc: str = msgspec.field(default="", name="serializeTypeCurrentRPC")
    version: Int32 = 0


Found = tuple[PlainSend, bool, bytes, int]  # the header, whether it was JSON, the body, and where the frame ends

_decode_json = msgspec.json.Decoder(PlainSend, strict=False).decode
_unpack_length_and_form, _unpack_binary_head = _LENGTH_AND_FORM.unpack_from, _BINARY_HEAD.unpack_from
_unpack_name_and_size = _NAME_AND_SIZE.unpack_from


def read_plain_send(data: bytes, at: int) -> Found | None:
    """The request whose frame begins at *at*; None if it is not whole, or not for the express lane."""
    header_at = at + _HEADER_AT
    if header_at > len(data):
        return None
    frame_bytes, form_and_bytes = _unpack_length_and_form(data, at)
    body_at, end = header_at + (form_and_bytes & 0xFF_FFFF), at + _LENGTH_BYTES + frame_bytes
    if not body_at < end <= len(data) or body_at - header_at > _HEADER_BYTES_MAX:
        return None
    form = form_and_bytes >> 24
    try:
        if form == _JSON and data.startswith(_JSON_STARTS, header_at):
            header = _decode_json(data[header_at:body_at])
        elif form == _BINARY and data.startswith(_BINARY_STARTS, header_at):
            header = _decode_binary(data, header_at, body_at)
        else:
            return None
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if header.flag or header.fields.batch is not (header.code == BATCH):
        return None
    return header, form == _JSON, data[body_at:end], end


def _decode_binary(data: bytes, at: int, end: int) -> PlainSend:
    """The header from *at* to *end*. A ValueError says that something is wrong, or a field not one of ours."""
    try:
        code, version, opaque, flag, remark_bytes, fields_bytes = _unpack_binary_head(data, at)
        at += _BINARY_HEAD.size
        if remark_bytes or fields_bytes != end - at:
            raise ValueError("a remark, or fields of another length")
        fields: dict[str, str] = {}
        while at < end:
            name, size = _unpack_name_and_size(data, at)
            start = at + _NAME_AND_SIZE.size
            at = start + size
            fields[_NAMES[name]] = data[start:at].decode()
    except (struct.error, KeyError) as error:
        raise ValueError(f"at {at}: {error}") from error
    if at != end:
        raise ValueError(f"a field ends behind {end}")
    header = msgspec.convert(fields, SendMessageV2Header, strict=False)
    return PlainSend(code, header, flag, "", opaque, None, "", version)
