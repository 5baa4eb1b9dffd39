"""Forms of bodies as text: JSON, plain text, MessagePack, CBOR, hex; Avro and Protobuf by a schema. Pure. Says which it
guessed.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.dashboard.bodies import cbor
from hanabi.dashboard.bodies.schemas import Decode, as_json, avro, protobuf
from hanabi.errors import InvalidParameter

SHOWN_BYTES_MAX: Final = 64 << 10
_BINARY: Final = ("msgpack", "cbor")
SCHEMA_FORMS: Final = ("avro", "protobuf")
_HEX_LINE: Final = 16


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A body as text. `form` names the form that was used."""

    form: str
    text: str
    cut: bool = False
    problem: str = ""  # why the wanted form does not fit


class TopicForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the bodies of a topic; Avro has a schema, Protobuf a descriptor set and the name of a message."""

    form: str
    schema: str = ""
    message: str = ""


def decoder_of(form: TopicForm) -> Decode:
    """Return the decoder of a form with a schema; raise if the schema cannot be read."""
    if form.form == "avro":
        return avro(form.schema)
    if form.form == "protobuf":
        return protobuf(form.schema, form.message)
    return lambda body: decoded(body, form.form).text


def decoded(body: bytes, form: str = "", given: TopicForm | None = None) -> Decoded:
    """Return *body* in the wanted form, or in the first that it fits; *given* is the form that the topic has."""
    wanted = form or (given.form if given else "")
    problem = ""
    if wanted in SCHEMA_FORMS:
        if given is None or given.form != wanted:
            problem = f"there is no {wanted} schema for this topic"
        else:
            try:
                text = decoder_of(given)(body)
                return Decoded(form=wanted, text=text[: 4 * SHOWN_BYTES_MAX], cut=len(text) > 4 * SHOWN_BYTES_MAX)
            except InvalidParameter as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - decoders of others raise what they like
                problem = f"the body is not {wanted} of this schema: {error}"
    elif wanted in FORMS:
        found = _as(wanted, body, guess=False)
        if found is not None:
            return found
        problem = f"the body is not {wanted}"
    for name in FORMS:
        found = _as(name, body, guess=True)
        if found is not None:
            return msgspec.structs.replace(found, problem=problem)
    return Decoded(form="hex", text=_hex(body[:SHOWN_BYTES_MAX]) or "", problem=problem)


def _as(name: str, body: bytes, *, guess: bool) -> Decoded | None:
    cut = len(body) > SHOWN_BYTES_MAX
    shown = body[:SHOWN_BYTES_MAX] if name in ("text", "hex") else body
    if guess and name in _BINARY and not _is_container(name, body):
        return None
    text = FORMS[name](shown)
    return None if text is None else Decoded(form=name, text=text[: 4 * SHOWN_BYTES_MAX], cut=cut)


def _is_container(name: str, body: bytes) -> bool:
    """Return whether a body begins as a map or a list: any byte is a number in these forms, which says nothing."""
    first = body[0] if body else 0
    if name == "cbor":
        return first >> 5 in (4, 5) or body[:3] == b"\xd9\xd9\xf7"
    return 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF


def _json(body: bytes) -> str | None:
    if not body.strip().startswith((b"{", b"[")):
        return None
    try:
        return msgspec.json.format(body, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _text(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if error.start < len(body) - 4 or len(body) < SHOWN_BYTES_MAX:  # a character may be cut at the limit
            return None
        text = body[: error.start].decode()
    return text if all(sign.isprintable() or sign in "\r\n\t" for sign in text) else None


def _msgpack(body: bytes) -> str | None:
    try:
        return as_json(msgspec.msgpack.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, ValueError, RecursionError):
        return None


def _cbor(body: bytes) -> str | None:
    try:
        return as_json(cbor.decode(body))
    except (ValueError, TypeError, RecursionError):
        return None


def _hex(body: bytes) -> str | None:
    lines = []
    for start in range(0, len(body), _HEX_LINE):
        part = body[start : start + _HEX_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(lines)


FORMS: Final[dict[str, Callable[[bytes], str | None]]] = {
    "json": _json,
    "text": _text,
    "msgpack": _msgpack,
    "cbor": _cbor,
    "hex": _hex,
}
