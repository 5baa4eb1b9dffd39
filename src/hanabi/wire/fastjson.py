"""JSON bodies as Java's fastjson 1.2 writes and reads them.

Most bodies are plain JSON, and msgspec reads and writes them alone. Some are not:

    {"brokerAddrs":{0:"10.0.0.1:10911"}}                            a map from numbers has bare keys
    {"offsetTable":{{"brokerName":"a","queueId":2,"topic":"T"}:3}}  a map from objects has objects as keys
    {"first":{"topic":"T"},"second":{"$ref":"$.first"}}             an object met again is a reference

Reading goes from cheap to expensive. msgspec tries first; if it fails, bare number keys get quotes and msgspec tries
again; the last fallback is `wire.dialect`, which reads everything that fastjson would, and a null counts as absent.
Every failure is a RemoteProtocolError. The cost of a body is bounded before each step by counts that take no more than
a pass over memory: the most expensive body takes about a third of a second.

Writing follows the type of the value. Fields are in alphabetical order and nulls are left out (see `bodies.base`).
The objects that serve as keys are message queues, everywhere in RocketMQ: a field that is a `dict[MessageQueue, X]`
is all it takes. A `standard` body has its keys in quotes and everything outside ASCII escaped.

`decode_file` is for files of this machine: the same dialect without the bounds.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from hanabi.errors import RemoteProtocolError
from hanabi.wire.dialect import VALUES_MAX, parse_dialect
from hanabi.wire.frame import FRAME_BYTES_MAX

BODY_BYTES_MAX = FRAME_BYTES_MAX
OBJECTS_MAX = 110_000  # at 1 us each, and again if msgspec must try twice; 50,000 topics of 5.x have 100,000
COMMAS_MAX = 1 << 20  # at 60 bytes of memory each, for short texts; a frame full of topics has 770,000 of them
NUMBER_KEYS_MAX = 1 << 17  # at 0.5 us each; the offsets of 131,072 queues in one table
DIALECT_VALUES_MAX = 1 << 15  # at 5 us each: careful peers use the dialect in heartbeats, not in tables

T = TypeVar("T")


# ---- reading ---------------------------------------------------------------------------------------------------------


def decode_body(data: bytes, kind: type[T]) -> T:
    """Decode *data* as a *kind*; a protocol error names the kind and the fault."""
    hashable_kind: Any = kind  # mypy does not believe it of a type[T]
    decoder: msgspec.json.Decoder[T] = _decoder(hashable_kind)
    _refuse_excess(data, kind)
    # msgspec would pass a reference over as a field that it does not know, or take it for a map of its own.
    refers = b'"$ref"' in data
    problem: Exception | None = None
    if not refers:
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            problem = error
    if len(data) > BODY_BYTES_MAX:
        raise RemoteProtocolError(f"bad {_name(kind)}: {len(data)} bytes, limit {BODY_BYTES_MAX}")
    if not refers and (quoted := _quote_number_keys(data, kind)) != data:
        try:
            return decoder.decode(quoted)
        except (ValueError, RecursionError) as error:
            problem = error
    has_object_keys = _has_object_keys(hashable_kind)
    values_max = VALUES_MAX if has_object_keys else DIALECT_VALUES_MAX
    if problem is not None and max(data.count(b"{"), data.count(b",")) > values_max:
        raise RemoteProtocolError(f"bad {_name(kind)}: {problem}")  # the slow path could not reach its end either
    try:
        # As the types are known only now, "3" may stand for 3, as a key and as a value.
        plain = parse_dialect(data, quoted_object_keys=has_object_keys, values_max=values_max)
        return msgspec.convert(plain, kind, strict=False)
    except (ValueError, RecursionError, RemoteProtocolError) as error:
        raise RemoteProtocolError(f"bad {_name(kind)}: {error}") from error


def decode_plain_body(data: bytes, kind: type[T]) -> T:
    """Decode *data*, which only Java's servers write, as a *kind*: JSON with bare number keys, no more of the dialect.

    A body in many parts reads them so: what each part alone may cost would add up.
    """
    hashable_kind: Any = kind
    _refuse_excess(data, kind)
    try:
        decoded: T = _decoder(hashable_kind).decode(_quote_number_keys(data, kind))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"bad {_name(kind)}: {error}") from error
    return decoded


def decode_file(data: bytes, kind: type[T]) -> T:
    """Decode *data*, a file of this machine, as a *kind*.

    The bounds of a frame do not apply: what a server has written, however large it has grown, it must read again.
    """
    hashable_kind: Any = kind
    decoder: msgspec.json.Decoder[T] = _decoder(hashable_kind)
    if not _REFERS(data):
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError):
            pass  # bare number keys, say
        try:
            return decoder.decode(_BARE_NUMBER_KEY_IN_FILE.sub(rb'\1"\2":', data))
        except (ValueError, RecursionError):
            pass  # more of the dialect, or damage: the next step distinguishes them
    try:
        plain = parse_dialect(data, quoted_object_keys=_has_object_keys(hashable_kind), values_max=sys.maxsize)
        return msgspec.convert(plain, kind, strict=False)
    except (ValueError, RecursionError, RemoteProtocolError) as error:
        raise RemoteProtocolError(f"bad {_name(kind)}: {error}") from error


def _refuse_excess(data: bytes, kind: Any) -> None:
    """Stop bodies that are made of nothing but tiny things: each of them costs far more than its bytes."""
    for mark, limit in ((b"{", OBJECTS_MAX), (b",", COMMAS_MAX)):
        if len(data) > limit and (count := data.count(mark)) > limit:
            raise RemoteProtocolError(f"bad {_name(kind)}: {count} times {mark.decode()} in it, limit {limit}")


# The mark before the key is part of the match, as to look behind at every byte takes three times as long. No key of
# Java's has more than 20 digits; without that bound, digits alone could be searched again and again.
_BARE_NUMBER_KEY = re.compile(rb"([{,]-?[0-9]{1,20}+:)")
_BARE_NUMBER_KEY_IN_FILE = re.compile(rb"([{,]\s*+)(-?[0-9]{1,20}+)\s*+:")
_REFERS = re.compile(rb'"\$ref"\s*+:').search


def _quote_number_keys(data: bytes, kind: Any) -> bytes:
    """Return *data* with quotes around bare number keys.

    What looks like one inside a string is quoted too, and harmless: it ends the string before a digit, never JSON.
    """
    pieces = _BARE_NUMBER_KEY.split(data, NUMBER_KEYS_MAX + 1)  # text, mark and key, text, mark and key, ..., text
    if len(pieces) // 2 > NUMBER_KEYS_MAX:
        raise RemoteProtocolError(f"bad {_name(kind)}: more than {NUMBER_KEYS_MAX} number keys")
    pieces[1::2] = [b'%b"%b":' % (piece[:1], piece[1:-1]) for piece in pieces[1::2]]
    return b"".join(pieces)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


# ---- writing ---------------------------------------------------------------------------------------------------------

Writer = Callable[[Any], bytes]
_encode = msgspec.json.Encoder().encode


def encode_body(value: Any, *, kind: Any = None, standard: bool = False) -> bytes:
    """Encode *value* as fastjson does; if *standard*, as with BrowserCompatible and QuoteFieldNames.

    The second is for routes: clients from 4.9.4 on ask for it. Maps keep the order they have. *kind* is for maps and
    lists, which do not know what is in them: `dict[MessageQueue, TopicOffset]`.
    """
    written_as: Any = type(value) if kind is None else kind
    data = _writer(written_as, standard)(value)
    if standard and not data.isascii():
        return _NOT_ASCII.sub(_escape_character, data.decode()).encode()
    return data


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape_character(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))


@cache
def _writer(kind: Any, standard: bool) -> Writer:
    return _writer_for(inspect.type_info(kind), standard) or _encode


def _writer_for(kind: inspect.Type, standard: bool) -> Writer | None:
    """Return the writer for values of *kind*; None if msgspec's own output is right."""
    if isinstance(kind, inspect.StructType):
        return _struct_writer(kind, standard)
    if isinstance(kind, inspect.DictType):
        return _map_writer(kind, standard)
    if isinstance(kind, inspect.ListType):
        write = _writer_for(kind.item_type, standard)
        return write and _list_writer(write)
    if isinstance(kind, inspect.UnionType):  # X | None, in our bodies; None is left out before writing
        return next(filter(None, (_writer_for(member, standard) for member in kind.types)), None)
    return None


def _list_writer(write: Writer) -> Writer:
    return lambda items: b"[%b]" % b",".join([write(item) for item in items])


def _struct_writer(kind: inspect.StructType, standard: bool) -> Writer | None:
    fields = sorted(kind.fields, key=lambda item: item.encode_name)
    writers = [_writer_for(item.type, standard) for item in fields]
    if not any(writers) and fields == list(kind.fields):
        return None
    plan = [
        (item.name, b'"%b":' % item.encode_name.encode(), item.default, write or _encode)
        for item, write in zip(fields, writers, strict=True)
    ]

    def write_struct(value: Any) -> bytes:
        members = [
            name + write(member)
            for attribute, name, default, write in plan
            if (member := getattr(value, attribute)) is not default
        ]
        return b"{%b}" % b",".join(members)

    return write_struct


def _map_writer(kind: inspect.DictType, standard: bool) -> Writer | None:
    write_value = _writer_for(kind.value_type, standard)
    write_key = _key_writer(kind.key_type, standard)
    if not write_value and not write_key:
        return None
    key, value = write_key or _quoted, write_value or _encode
    return lambda members: (
        b"{%b}" % b",".join([b"%b:%b" % (key(name), value(member)) for name, member in members.items()])
    )


def _quoted(key: str | int) -> bytes:
    return _encode(str(key))


def _key_writer(kind: inspect.Type, standard: bool) -> Writer | None:
    """Return the writer for keys of *kind*; None if they are in quotes, as msgspec writes them."""
    if isinstance(kind, inspect.IntType):
        return None if standard else _encode
    if isinstance(kind, inspect.StructType):
        write = _struct_writer(kind, standard) or _encode
        return (lambda key: _quoted(write(key).decode())) if standard else write
    return None


@cache
def _has_object_keys(kind: Any) -> bool:
    return _holds_object_keys(inspect.type_info(kind))


def _holds_object_keys(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.StructType):
        return any(_holds_object_keys(item.type) for item in kind.fields)
    if isinstance(kind, inspect.DictType):
        return isinstance(kind.key_type, inspect.StructType) or _holds_object_keys(kind.value_type)
    if isinstance(kind, inspect.ListType):
        return _holds_object_keys(kind.item_type)
    return isinstance(kind, inspect.UnionType) and any(map(_holds_object_keys, kind.types))
