"""The header of a plain send, in both forms, read in one go: see `wire.command` for the layouts.

What the express lane need not know is declared all the same: a header is read here only if `decode_command` reads it,
too. A flag, a remark, a name that is not in the layout, or a code that does not stand first: then it is not for here.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.headers.base import Int32
from hanabi.wire.headers.send import SendMessageV2Header

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)

_HEADER_BYTES_MAX: Final = 16 * 1024  # longer ones take the other way
_JSON_STARTS: Final = tuple(b'{"code":%d,' % code for code in (SEND, BATCH))
_BINARY_STARTS: Final = tuple(code.to_bytes(2) for code in (SEND, BATCH))
_BINARY_FORM: Final = HeaderForm.BINARY << 24

_BINARY_HEAD: Final = struct.Struct(">hxhiiii")
_NAME_BYTES: Final = 3  # its length, and one character
_NAME_AND_SIZE_BYTES: Final = _NAME_BYTES + 4
_TELLING_BYTES: Final = 40  # at the start of the fields: the group, and often the topic
_LAYOUTS_MAX: Final = 1_000
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


def read_plain_send(data: bytes, at: int) -> Found | None:
    """The request whose frame begins at *at*; None if it is not whole, or not for the express lane."""
    header_at = at + _HEADER_AT
    if header_at > len(data):
        return None
    frame_bytes, header_bytes = _unpack_length_and_form(data, at)
    is_json = header_bytes <= _HEADER_BYTES_MAX  # the form stands before the length, and that of JSON is zero
    if not is_json:
        header_bytes -= _BINARY_FORM
        if not 0 <= header_bytes <= _HEADER_BYTES_MAX:
            return None
    body_at, end = header_at + header_bytes, at + _LENGTH_BYTES + frame_bytes
    if not body_at < end <= len(data) or not data.startswith(_JSON_STARTS if is_json else _BINARY_STARTS, header_at):
        return None
    try:
        header = _decode_json(data[header_at:body_at]) if is_json else _decode_binary(data, header_at, body_at)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if header.flag or header.code != (BATCH if header.fields.batch else SEND):
        return None
    return header, is_json, data[body_at:end], end


def _decode_binary(data: bytes, at: int, end: int) -> PlainSend:
    """The header from *at* to *end*. A ValueError says that something is wrong, or a field not one of ours."""
    if end - at < _BINARY_HEAD.size:
        raise ValueError(f"{end - at} bytes are no header")
    code, version, opaque, flag, remark_bytes, fields_bytes = _unpack_binary_head(data, at)
    at += _BINARY_HEAD.size
    if remark_bytes or fields_bytes != end - at:
        raise ValueError("a remark, or fields of another length")
    header = msgspec.convert(_decode_fields(data, at, end), SendMessageV2Header, strict=False)
    return PlainSend(code, header, flag, "", opaque, None, "", version)


class _Layout(NamedTuple):
    """Where the fields of a header are. One with the same names and sizes at these places has its fields there, too."""

    unpack: Callable[[bytes, int], tuple[bytes, ...]]  # name and size, value, name and size, value, ...
    heads: tuple[bytes, ...]  # names and sizes
    names: tuple[str, ...]


_layouts: dict[tuple[int, bytes], _Layout] = {}  # by the length of the fields, and how they begin


def _decode_fields(data: bytes, at: int, end: int) -> dict[str, str]:
    """The fields from *at* to *end*, all at once: headers of one producer mostly have them at the same places."""
    key = end - at, data[at : at + _TELLING_BYTES]
    layout = _layouts.get(key)
    parts = layout.unpack(data, at) if layout is not None else ()
    if layout is None or parts[::2] != layout.heads:
        if len(_layouts) >= _LAYOUTS_MAX:
            _layouts.clear()
        _layouts[key] = layout = _find_fields(data, at, end)
        parts = layout.unpack(data, at)
    return dict(zip(layout.names, map(bytes.decode, parts[1::2]), strict=True))


def _find_fields(data: bytes, at: int, end: int) -> _Layout:
    heads, sizes = list[bytes](), list[int]()
    while at < end:
        value_at = at + _NAME_AND_SIZE_BYTES
        heads.append(data[at:value_at])
        sizes.append(int.from_bytes(data[at + _NAME_BYTES : value_at]))
        at = value_at + sizes[-1]
    if at != end:
        raise ValueError(f"a field ends behind {end}")
    try:
        names = tuple(_NAMES[head[:_NAME_BYTES]] for head in heads)
    except KeyError as error:
        raise ValueError(f"no field of ours: {error}") from error
    unpack = struct.Struct("".join(f"{_NAME_AND_SIZE_BYTES}s{size}s" for size in sizes)).unpack_from
    return _Layout(unpack, tuple(heads), names)
