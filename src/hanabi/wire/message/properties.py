"""A message's properties: names and values in one text, as headers and records carry them.

    name 0x01 value 0x02 name 0x01 value            (4.9.8 puts no 0x02 behind the last one, 5.x does: both are read)

Agrees with Java's MessageDecoder.messageProperties2String and string2messageProperties: a pair without a name or
without a value is skipped, the last of two with one name wins, a value may contain 0x01. Bytes that are not
UTF-8 are replaced, never refused: they lie in a log already and one bad name must not hide the message.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Final

from hanabi.errors import MQError
from hanabi.message import Message
from hanabi.wire.message import property_names as names

PROPERTIES_BYTES_MAX: Final = 32_767  # their length is a signed 16-bit number in every record

_BETWEEN_NAME_AND_VALUE: Final = "\x01"
_BETWEEN_PROPERTIES: Final = "\x02"


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in *text*, as a header carries them."""
    properties: dict[str, str] = {}
    for pair in text.split(_BETWEEN_PROPERTIES):
        name, _, value = pair.partition(_BETWEEN_NAME_AND_VALUE)
        if name and value:
            properties[name] = value
    return properties


def decode_properties(raw: bytes) -> dict[str, str]:
    """Return the properties in *raw*, as a record carries them."""
    return parse_properties(raw.decode("utf-8", "replace"))


def format_properties(properties: Mapping[str, str]) -> str:
    """Format *properties* as one text. A name or value that would be read back as something else is an error."""
    pairs: list[str] = []
    for name, value in properties.items():
        if not name or _BETWEEN_NAME_AND_VALUE in name or _BETWEEN_PROPERTIES in name or _BETWEEN_PROPERTIES in value:
            raise MQError(f"property {name!r}: names must not be empty, and neither part may contain a separator")
        pairs.append(name + _BETWEEN_NAME_AND_VALUE + value)  # a value that is no text is a TypeError here
    return _BETWEEN_PROPERTIES.join(pairs)


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode *properties* as a record carries them, within the limit."""
    raw = format_properties(properties).encode("utf-8", "replace")  # as Java: half a surrogate pair becomes "?"
    if len(raw) > PROPERTIES_BYTES_MAX:
        raise MQError(f"properties of {len(raw)} bytes, limit {PROPERTIES_BYTES_MAX}")
    return raw


def join_properties(first: bytes, second: bytes) -> bytes:
    """Join both with one separator, as a batch's properties are added to those of each message in it."""
    if first and second and first[-1] != 2:
        return first + b"\x02" + second
    return first + second


def find_property(raw: bytes, name: bytes) -> str | None:
    """Return the value of one property, as `decode_properties(raw).get(name)` but without decoding the rest."""
    name += b"\x01"
    at = raw.rfind(name)
    while at >= 0:
        if at == 0 or raw[at - 1] == 2:  # elsewhere it is the end of a longer name, or part of a value
            start = at + len(name)
            end = raw.find(b"\x02", start)
            value = raw[start:] if end < 0 else raw[start:end]
            if value:
                return value.decode("utf-8", "replace")
        at = raw.rfind(name, 0, at)
    return None


def indexed_properties(raw: bytes) -> tuple[str | None, str | None, str | None]:
    """Return tags, keys and unique key in *raw*, which queues and index keep, each as `find_property` finds it."""
    bounded = f"\x02{raw.decode('utf-8', 'replace')}\x02"
    return (
        _find_bounded(bounded, "\x02TAGS\x01"),
        _find_bounded(bounded, "\x02KEYS\x01"),
        _find_bounded(bounded, "\x02UNIQ_KEY\x01"),
    )


def _find_bounded(bounded: str, name: str) -> str | None:
    """Find a property without `find_property`'s checks: *bounded* has a separator at both ends, and so has *name*."""
    _, found, rest = bounded.rpartition(name)
    if not found:
        return None
    # Where it is empty, another one of this name counts.
    return rest[: rest.find("\x02")] or parse_properties(bounded).get(name[1:-1])


python_indexed_properties = indexed_properties
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.wire.message._speedups import indexed_properties


def sending_properties(message: Message) -> dict[str, str]:
    """Return all properties that *message* travels with, except those that the producer itself adds."""
    for name in message.properties:
        if name in names.RESERVED:
            raise MQError(f"property {name!r} has a meaning of its own in RocketMQ: choose another name")
    properties = dict(message.properties)
    if message.tags:
        properties[names.TAGS] = message.tags
    if message.keys:
        properties[names.KEYS] = names.KEY_SEPARATOR.join(message.keys)
    if message.delay_level:
        properties[names.DELAY_LEVEL] = str(message.delay_level)
    if message.deliver_time_ms or message.deliver_at:
        properties[names.TIMER_DELIVER_MS] = str(message.deliver_ms)
    if message.delay:
        properties[names.TIMER_DELAY_MS] = str(message.delay_ms)
    if message.ordering_key is not None:
        properties[names.SHARDING_KEY] = message.ordering_key
    properties[names.WAIT_STORED] = "true" if message.wait_stored else "false"
    return properties
