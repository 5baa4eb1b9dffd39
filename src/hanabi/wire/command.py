"""The remoting command: one request or one answer, in its JSON and its binary header form.

    ┌───────────┬────────────────────┬──────────────┬──────┐
    │ form (u8) │ header bytes (u24) │ header       │ body │      (after the frame's own length prefix)
    └───────────┴────────────────────┴──────────────┴──────┘

JSON header:    {"code":11,"extFields":{...},"flag":0,"language":"JAVA","opaque":7,"remark":"...","version":409}
Binary header:  code i16 │ language u8 │ version i16 │ opaque i32 │ flag i32
                remark bytes i32, remark │ fields bytes i32, fields
                where a field is: key bytes i16, key │ value bytes i32, value

The fields of a received command stay undecoded until their type is known: `header()` then reads them straight into it.
Agrees with Java's RemotingCommand and RocketMQSerializable.
"""

import struct
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

import msgspec

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.wire.codes import Flag, HeaderForm, Language
from hanabi.wire.header import Header, Int32, header_fields

VERSION = 409  # the ordinal of V4_9_8 in Java's MQVersion: peers choose features by it
V5_0_0 = 413  # the ordinal of V5_0_0: from here on a client may rely on fields that 5.x added (rocketmq-rust does)

HEADER_BYTES_MAX = 1024 * 1024  # of a received one; the longest that are sent carry a value of the KV configuration

H = TypeVar("H", bound=Header)
_NO_FIELDS = msgspec.Raw(b"{}")
# To find a member in its enum takes as long as to call a function; these are needed several times for each command.
_JSON, _BINARY, _RESPONSE = HeaderForm.JSON, HeaderForm.BINARY, int(Flag.RESPONSE)


class Command(msgspec.Struct, kw_only=True):
    """One decoded command. `raw_fields` is in the command's own form; use `fields()` or `header()`."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str | int | None = None  # a name in JSON, a number in binary; `Language` has both
    version: Int32 = 0
    remark: str | None = None
    raw_fields: msgspec.Raw = msgspec.field(default=_NO_FIELDS, name="extFields")
    # Not part of the header: set by decode, under names that no peer sends.
    form: HeaderForm = msgspec.field(default=HeaderForm.JSON, name="(form)")
    body: bytes = msgspec.field(default=b"", name="(body)")

    @property
    def is_response(self) -> bool:
        return bool(self.flag & Flag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & Flag.ONEWAY)

    def fields(self) -> dict[str, str]:
        """Return the header fields as text."""
        raw = bytes(self.raw_fields)
        if self.form is _BINARY:
            return _decode_binary_fields(raw)
        return _decode_json_fields(raw)

    def header(self, kind: type[H]) -> H:
        """Return the header fields as a *kind*; a protocol error names the kind and the field that is wrong."""
        try:
            if self.form is _BINARY:
                return msgspec.convert(_decode_binary_fields(bytes(self.raw_fields)), kind, strict=False)
            try:
                decoder: msgspec.json.Decoder[H] = _json_decoder(kind)
                return decoder.decode(self.raw_fields)
            except msgspec.ValidationError:
                # Some clients send bare numbers for text and null for absent: as text, they may be right.
                return msgspec.convert(self.fields(), kind, strict=False)
        except (ValueError, RecursionError, RemoteProtocolError) as error:  # msgspec's errors are ValueErrors
            raise RemoteProtocolError(f"bad {kind.__name__}: {error}") from error


@cache
def _json_decoder(kind: type[Header]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


_command_decoder = msgspec.json.Decoder(Command, strict=False)
_any_fields_decoder = msgspec.json.Decoder(dict[str, Any] | None)
_BINARY_HEAD = struct.Struct(">hBhii")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")
_LENGTH_AND_FORM = struct.Struct(">II")
_unpack_short_name = struct.Struct(">hBi").unpack_from  # the length of a name, its only letter, the length of the value
_LETTERS = tuple(map(chr, range(0x80)))
_BINARY_CODE_MAX = 2**15 - 1
_U24_MAX = 2**24 - 1
_FIELDS_MAX = 4096  # the largest header has some thirty


def decode_command(frame: bytes, header_bytes_max: int = HEADER_BYTES_MAX) -> Command:
    """Return one frame, without its length prefix, as a command.

    A header costs far more than as many bytes of body, so it has a limit of its own.
    """
    if len(frame) < 4:
        raise RemoteProtocolError(f"frame of {len(frame)} bytes has no room for its header length")
    header_bytes = _U32.unpack_from(frame)[0] & _U24_MAX
    header_end = 4 + header_bytes
    if header_end > len(frame):
        raise RemoteProtocolError(f"header of {header_bytes} bytes in a frame of {len(frame)}")
    if header_bytes > header_bytes_max:
        raise RemoteProtocolError(f"header of {header_bytes} bytes, limit {header_bytes_max}")
    form = frame[0]
    if form == _JSON:
        try:
            command = _command_decoder.decode(frame[4:header_end])
        except (ValueError, RecursionError) as error:
            raise RemoteProtocolError(f"bad JSON header: {error}") from error
        command.form = _JSON
    elif form == _BINARY:
        command = _decode_binary_header(frame[4:header_end])
    else:
        raise RemoteProtocolError(f"unknown header form {form}")
    command.body = frame[header_end:]
    return command


def _decode_json_fields(raw: bytes) -> dict[str, str]:
    try:
        fields = _any_fields_decoder.decode(raw) or {}
        if len(fields) > _FIELDS_MAX:
            raise _too_many_fields()
        return {name: _as_text(value) for name, value in fields.items() if value is not None}
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"bad extFields: {error}") from error


def _too_many_fields() -> RemoteProtocolError:
    return RemoteProtocolError(f"bad extFields: more than {_FIELDS_MAX}")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()  # true, 3, 0.5: as fastjson turns a bare value into text


def _decode_binary_header(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header)
        remark, position = _take(header, _BINARY_HEAD.size, _I32)
        raw_fields, position = _take(header, position, _I32)
        return Command(
            code=code,
            opaque=opaque,
            flag=flag,
            language=language,
            version=version,
            remark=remark.decode() or None,
            raw_fields=msgspec.Raw(raw_fields),
            form=HeaderForm.BINARY,
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"bad binary header: {error}") from error


def _take(data: bytes, position: int, length: struct.Struct) -> tuple[bytes, int]:
    """Return the bytes behind the length at *position*, and where they end."""
    (size,) = length.unpack_from(data, position)
    start = position + length.size
    end = start + size
    if size < 0 or end > len(data):
        raise RemoteProtocolError(f"bad binary header: {size} bytes announced at {position}, {len(data) - start} left")
    return data[start:end], end


def _decode_binary_fields(raw: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    position, end = 0, len(raw)
    try:
        for _ in range(_FIELDS_MAX):
            if position >= end:
                return fields
            # `_take`, twice, written out, and for the names of a send in one: this runs a dozen times a message
            letters, letter, size = _unpack_short_name(raw, position) if end - position >= 7 else (0, 0, 0)
            if letters == 1 and letter < 0x80:
                name, value_start = _LETTERS[letter], position + 7
            else:
                key_start = position + 2
                key_end = key_start + _I16.unpack_from(raw, position)[0]
                size = _I32.unpack_from(raw, key_end)[0] if key_end >= key_start else -1
                name, value_start = raw[key_start:key_end].decode(), key_end + 4
            value_end = value_start + size
            if not value_start <= value_end <= end:
                raise RemoteProtocolError(f"bad binary header field at {position}: a length beyond its {end} bytes")
            fields[name] = raw[value_start:value_end].decode()
            position = value_end
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"bad binary header field at {position}: {error}") from error
    if position < end:
        raise _too_many_fields()
    return fields


class _JsonHeader(msgspec.Struct, omit_defaults=True):
    """The JSON header as it leaves us: fastjson's order, absent when null."""

    code: int
    extFields: Mapping[str, str] | None = None  # noqa: N815 - the name on the wire
    flag: int | None = None
    language: str | None = None
    opaque: int | None = None
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815
    version: int | None = None


_encode_json = msgspec.json.Encoder().encode
_LANGUAGE_NAMES = tuple(language.name for language in Language)  # an enum's own `name` is a call, on every reply
_OUR_LANGUAGE = Language.PYTHON.name


def encode_head(
    *,
    code: int,
    opaque: int,
    flag: int = 0,
    remark: str | None = None,
    fields: Mapping[str, str] | None = None,
    body_bytes: int = 0,
    form: HeaderForm = HeaderForm.JSON,
    language: Language = Language.PYTHON,
    version: int = VERSION,
) -> bytes:
    """Return all of a frame that stands before its body, length prefix included. The body may be sent after it in
    pieces.

    The binary form has no room for codes such as POP's: these go as JSON, which every peer reads in any frame.
    """
    if form is _BINARY and code <= _BINARY_CODE_MAX:
        binary = _encode_binary_header(code, language, version, opaque, flag, remark, fields)
        return _before_body(binary, _BINARY, body_bytes)
    header = _JsonHeader(code, fields, flag, _LANGUAGE_NAMES[language], opaque, remark, "JSON", version)
    return _before_body(_encode_json(header), _JSON, body_bytes)


def _before_body(header: bytes, form: HeaderForm, body_bytes: int) -> bytes:
    if len(header) > _U24_MAX:  # it would run over into the byte of the form
        raise MQError(f"header of {len(header)} bytes, limit {_U24_MAX}")
    return _LENGTH_AND_FORM.pack(4 + len(header) + body_bytes, form << 24 | len(header)) + header


def _encode_binary_header(
    code: int,
    language: Language,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    fields: Mapping[str, str] | None,
) -> bytes:
    remark_bytes = (remark or "").encode()
    pieces: list[bytes] = []
    for name, value in (fields or {}).items():
        value_bytes = value.encode()
        pieces += (_encode_name(name), _I32.pack(len(value_bytes)), value_bytes)
    field_bytes = b"".join(pieces)
    return b"".join(
        (
            _BINARY_HEAD.pack(code, language, version, opaque, flag),
            _I32.pack(len(remark_bytes)),
            remark_bytes,
            _I32.pack(len(field_bytes)),
            field_bytes,
        )
    )


@lru_cache(maxsize=1_024)
def _encode_name(name: str) -> bytes:
    encoded = name.encode()
    return _I16.pack(len(encoded)) + encoded


def encode_request(
    code: int,
    opaque: int,
    header: Header | Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    oneway: bool = False,
    form: HeaderForm = HeaderForm.JSON,
) -> bytes:
    """Return a whole request frame. A header may come as its fields, where they are more than a typed one has:
    signed, say."""
    head = encode_head(
        code=code,
        opaque=opaque,
        flag=Flag.ONEWAY if oneway else 0,
        fields=header_fields(header) if isinstance(header, Header) else header,
        body_bytes=len(body),
        form=form,
    )
    return head + body


def encode_reply_head(
    request: Command,
    code: int,
    remark: str | None = None,
    fields: Mapping[str, str] | None = None,
    body_bytes: int = 0,
) -> bytes:
    """Encode everything before the body of the answer to *request*, with its opaque number and its form."""
    if request.form is _JSON:
        header = _JsonHeader(code, fields, _RESPONSE, _OUR_LANGUAGE, request.opaque, remark, "JSON", VERSION)
        return _before_body(_encode_json(header), _JSON, body_bytes)
    return encode_head(
        code=code,
        opaque=request.opaque,
        flag=_RESPONSE,
        remark=remark,
        fields=fields,
        body_bytes=body_bytes,
        form=request.form,
    )
