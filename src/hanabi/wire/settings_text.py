"""The conversion of settings from text, of RocketMQ's files and the wire, into their struct.

One key at a time, so that an error names its key and the expected value.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from hanabi.errors import ConfigError

C = TypeVar("C", bound=msgspec.Struct)

# Java's Integer.parseInt reads these; msgspec would also take 1e3.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def with_properties(config: C, properties: Mapping[str, str]) -> C:
    """Return *config* with the values of *properties*, of which every key must be one of its own."""
    kind = type(config)
    changes: dict[str, Any] = {}
    fields = {item.encode_name: item for item in msgspec.structs.fields(kind)}
    for key, value in properties.items():
        text, name = value.strip(), fields[key].name
        try:
            # One at a time, so that the error is about this key.
            parsed = getattr(msgspec.convert({key: text}, kind, strict=False), name)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{key} must be {_expected(error, fields[key].type)}, not {shortened(text)!r}") from error
        if type(parsed) is int and not _WHOLE_NUMBER.fullmatch(text):
            raise ConfigError(f"{key} must be a whole number, not {shortened(text)!r}")
        changes[name] = parsed
    return msgspec.structs.replace(config, **changes)


def _expected(error: msgspec.ValidationError, kind: Any) -> str:
    """Return msgspec's expectation in words, the middle of "Expected `int` <= 65535 - at `$.listenPort`"."""
    if isinstance(kind, enum.EnumType):  # msgspec's error only repeats the value
        *others, last = map(str, kind.__members__)  # Java's enums are written by name, and ours too
        return f"{', '.join(others)} or {last}"
    wanted = str(error).removeprefix("Expected ").split(" - at ")[0].split(", got ")[0]
    words = {
        "`int`": "a whole number",
        "`bool | null`": "true or false",
        "`bool`": "true or false",
        "`str` of length >= 1": "some text",
        "`str`": "text",
        "length <= 255": "at most 255 characters",
    }
    for word, in_english in words.items():
        wanted = wanted.replace(word, in_english)
    return wanted


def shortened(text: str) -> str:
    """Shorten a value for an error message."""
    return text if len(text) <= 50 else text[:50] + "..."
