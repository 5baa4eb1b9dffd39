"""Headers of pulls, read by what repeats in them.

From pull to pull of one consumer of a queue the header is the same but for three numbers: the offset that is read from,
the one that is committed, and the opaque one. So a header is cut at these three. What is left is its shape: that is
decoded once, as every header, and known again by its bytes.

    {"code":11,"extFields":{"queueOffset":" 4096 ","commitOffset":" 4064 ",...},"flag":0,"opaque": 17 ,...}

That the numbers are what they seem to be is tried out, not believed: the header with three other numbers, and with
another three, must be the same pull but for these.
"""

import re
import struct
from typing import Final, NamedTuple

import msgspec

from hanabi.errors import MQError
from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.command import decode_command
from hanabi.wire.headers.pull import PullMessageHeader

_HEADER_BYTES_MAX: Final = 1024  # longer ones take the other way; those of clients have some 350
_SHAPES_MAX: Final = 2_000
_PULLS: Final = (int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE))
_SIGNED: Final = b"Signature"  # is another one with every pull

_INT32_END: Final = 1 << 31

# A number as everybody writes it: no zeros before it, and no more digits than fit into 64 bits.
_NUMBER: Final = rb"(0|-?[1-9][0-9]{0,17})"
_JSON_STARTS: Final = tuple(b'{"code":%d,' % code for code in _PULLS)
_JSON_NAMES: Final = [b'"queueOffset":"', b'"commitOffset":"', b'"opaque":']
_JSON_NUMBERS = re.compile(rb'("(?:queueOffset":"|commitOffset":"|opaque":))' + _NUMBER)
_JSON_PARTS: Final = 10  # three names and numbers, and what stands around them

# code, language, version │ opaque │ flag, remark bytes │ fields bytes: see `wire.command`
_BINARY_HEAD = struct.Struct(">5siqi")
_BINARY_STARTS: Final = tuple(code.to_bytes(2) for code in _PULLS)
_BINARY_NAMES: Final = [b"\0\x0bqueueOffset\0\0\0", b"\0\x0ccommitOffset\0\0\0"]
_BINARY_NUMBERS = re.compile(rb"(\0(?:\x0bqueue|\x0ccommit)Offset\0\0\0)([\x01-\x13])" + _NUMBER)
_BINARY_PARTS: Final = 9

Shape = tuple[bytes, ...]  # what stands around the numbers; every second one is the name of a number
Numbers = tuple[int, int, int]
_TRIED: Final[tuple[Numbers, Numbers]] = (2, 4, 6), (3, 5, 7)


class KnownPull(NamedTuple):
    """What a shape means. The offsets in `header` are none that anybody asked for."""

    code: int
    is_json: bool
    header: PullMessageHeader
    place: tuple[str, int]
    order: tuple[int, int, int]  # which of the numbers is the offset, which the one to commit, which the opaque one


Pull = tuple[KnownPull, int, int, int]  # and its numbers: offset, committed offset, opaque


class PullShapes:
    """Reads headers of pulls, and remembers their shapes."""

    def __init__(self) -> None:
        self._known: dict[Shape, KnownPull | None] = {}

    def read(self, data: bytes, at: int, header_bytes: int) -> Pull | None:
        """The pull whose header follows the four bytes at *at*; None if it is none, or in a form that is rare."""
        start = at + 4
        header = data[start : start + header_bytes]
        if header_bytes > _HEADER_BYTES_MAX:
            return None
        form = data[at]
        if form == 0 and header.startswith(_JSON_STARTS):
            return self._read_json(header)
        if form == 1 and header.startswith(_BINARY_STARTS):
            return self._read_binary(header)
        return None

    def _read_json(self, header: bytes) -> Pull | None:
        parts = _JSON_NUMBERS.split(header)
        if len(parts) != _JSON_PARTS:
            return None
        start, name, number, between, other_name, other, behind, last_name, last, end = parts
        numbers = (int(number), int(other), int(last))
        shape = (start, name, between, other_name, behind, last_name, end)
        known = self._known.get(shape) or self._learn(shape, is_json=True)
        if known is None:
            return None
        offset, committed, opaque = known.order
        if not -_INT32_END <= numbers[opaque] < _INT32_END:
            return None
        return known, numbers[offset], numbers[committed], numbers[opaque]

    def _read_binary(self, header: bytes) -> Pull | None:
        if len(header) < _BINARY_HEAD.size:
            return None
        start, opaque, flag_and_remark, fields_bytes = _BINARY_HEAD.unpack_from(header)
        parts = _BINARY_NUMBERS.split(header[_BINARY_HEAD.size :])
        if len(parts) != _BINARY_PARTS or flag_and_remark or fields_bytes != len(header) - _BINARY_HEAD.size:
            return None
        before, name, size, number, between, other_name, other_size, other, behind = parts
        if size[0] != len(number) or other_size[0] != len(other):
            return None
        numbers = (int(number), int(other), opaque)
        shape = (start, name, before, other_name, between, behind)
        known = self._known.get(shape) or self._learn(shape, is_json=False)
        if known is None:
            return None
        offset, committed, _ = known.order
        return known, numbers[offset], numbers[committed], opaque

    def _learn(self, shape: Shape, *, is_json: bool) -> KnownPull | None:
        if shape in self._known:  # as one that is not for us
            return None
        if any(_SIGNED in part for part in shape):  # it will not come again, and is not worth remembering
            return None
        if len(self._known) >= _SHAPES_MAX:
            self._known.clear()
        self._known[shape] = known = _understood(shape, is_json=is_json)
        return known


def _understood(shape: Shape, *, is_json: bool) -> KnownPull | None:
    """What *shape* means, if it is a pull in which the three numbers are what they seem to be."""
    encode, expected = (_json_frame, _JSON_NAMES) if is_json else (_binary_frame, _BINARY_NAMES)
    names = shape[1 : 2 * len(expected) : 2]
    if sorted(names) != sorted(expected):
        return None
    offset, committed = names.index(expected[0]), names.index(expected[1])
    opaque = 3 - offset - committed
    numbers, others = _TRIED
    try:
        command, other = decode_command(encode(shape, numbers)), decode_command(encode(shape, others))
        header, other_header = command.header(PullMessageHeader), other.header(PullMessageHeader)
    except MQError:
        return None
    changed = msgspec.structs.replace(header, queue_offset=others[offset], commit_offset=others[committed])
    if (
        command.code not in _PULLS
        or command.flag
        or (header.queue_offset, header.commit_offset) != (numbers[offset], numbers[committed])
        or (command.opaque, other.opaque) != (numbers[opaque], others[opaque])
        or other_header != changed
    ):
        return None
    return KnownPull(command.code, is_json, header, (header.topic, header.queue_id), (offset, committed, opaque))


def _json_frame(shape: Shape, numbers: Numbers) -> bytes:
    start, name, between, other_name, behind, last_name, end = shape
    number, other, last = numbers
    header = b"%b%b%d%b%b%d%b%b%d%b" % (start, name, number, between, other_name, other, behind, last_name, last, end)
    return _prefixed(HeaderForm.JSON, header)


def _binary_frame(shape: Shape, numbers: Numbers) -> bytes:
    start, name, before, other_name, between, behind = shape
    number, other = (b"%d" % number for number in numbers[:2])
    fields = b"%b%b%c%b%b%b%c%b%b" % (before, name, len(number), number, between, other_name, len(other), other, behind)
    return _prefixed(HeaderForm.BINARY, _BINARY_HEAD.pack(start, numbers[2], 0, len(fields)) + fields)


def _prefixed(form: HeaderForm, header: bytes) -> bytes:
    return (form << 24 | len(header)).to_bytes(4) + header
