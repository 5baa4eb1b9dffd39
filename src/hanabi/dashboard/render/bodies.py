"""Bodies of messages as text: JSON, MessagePack, plain text or hex. Pure. Says which it guessed."""

from collections.abc import Callable
from typing import Final

import msgspec

SHOWN_BYTES_MAX: Final = 64 << 10
_HEX_LINE: Final = 16


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A body as text. `form` names the form that was used."""

    form: str
    text: str
    cut: bool = False


def decoded(body: bytes, form: str = "") -> Decoded:
    """Return *body* in the wanted form, or in the first that it fits."""
    cut = len(body) > SHOWN_BYTES_MAX
    for name in (form,) if form in FORMS else FORMS:
        shown = body[:SHOWN_BYTES_MAX] if name in ("text", "hex") else body
        text = FORMS[name](shown)
        if text is not None:
            return Decoded(form=name, text=text[: 4 * SHOWN_BYTES_MAX], cut=cut)
    return Decoded(form="hex", text=_hex(body[:SHOWN_BYTES_MAX]) or "", cut=cut)


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
        value = msgspec.msgpack.decode(body)
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, ValueError):
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
    "hex": _hex,
}
