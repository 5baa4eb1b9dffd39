"""Replies as `wire.command.encode_head` makes them, cut where the fast path puts values in."""

from collections.abc import Mapping, Sequence
from typing import Final

from hanabi.broker.fast_path._frames import ReplyTemplate
from hanabi.wire.codes import Flag, HeaderForm, Language, ResponseCode
from hanabi.wire.command import encode_head

_HEAD_BYTES_MAX: Final = 1_400  # `_sends.pyx` has room for it and for the values
_PREFIX_BYTES: Final = 8  # the lengths before a header
_OPAQUE: Final = 1_234_567_890  # stands for the number that is put in later


def send_replies(region: str, trace_on: str) -> ReplyTemplate | None:
    """Return the template of replies to sends; None if they are too long for the fast path."""
    fixed = {"MSG_REGION": region, "TRACE_ON": trace_on}
    if len(_header(fixed, HeaderForm.JSON, None)) > _HEAD_BYTES_MAX:
        return None
    return _template(("msgId", "queueId", "queueOffset"), fixed, None)


def pull_replies() -> ReplyTemplate:
    """Return the template of replies to pulls that find messages."""
    return _template(("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"), {}, "FOUND")


def _template(names: Sequence[str], fixed: Mapping[str, str], remark: str | None) -> ReplyTemplate:
    marks = {name: f"<{name}>" for name in names}
    json = _header({**marks, **fixed}, HeaderForm.JSON, remark)
    head = _header({}, HeaderForm.BINARY, remark)  # in which the length of the fields is still to come
    tail = _header(fixed, HeaderForm.BINARY, remark)[len(head) :]
    binary_names = [len(name).to_bytes(2) + name.encode() for name in names]
    return ReplyTemplate(_cut(json, list(marks.values())), head, binary_names, tail)


def _cut(json: bytes, marks: Sequence[str]) -> list[bytes]:
    """Return the pieces of *json* around *marks* and the opaque number."""
    json, _, end = json.rpartition(str(_OPAQUE).encode())  # the last one: a region may be a number, too
    pieces: list[bytes] = []
    for mark in marks:  # the first ones: they stand before the region
        piece, _, json = json.partition(mark.encode())
        pieces.append(piece)
    return [*pieces, json, end]


def _header(fields: Mapping[str, str], form: HeaderForm, remark: str | None) -> bytes:
    head = encode_head(
        code=ResponseCode.SUCCESS,
        opaque=_OPAQUE,
        flag=Flag.RESPONSE,
        remark=remark,
        fields=dict(fields),
        form=form,
        language=Language.PYTHON,
    )
    return head[_PREFIX_BYTES:]
