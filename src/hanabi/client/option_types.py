"""Type check for the values of a frozen settings object.

msgspec does not check constructor arguments, and a comparison with a wrong type would be a bare TypeError.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from hanabi.errors import ConfigError


def check_types(settings: msgspec.Struct) -> None:
    """Raise a ConfigError that names the first field with a value of the wrong type."""
    for name, hint in _hints(type(settings)).items():
        value = getattr(settings, name)
        if not has_type(value, hint):
            raise ConfigError(f"{name} must be {_words(hint)}, not {value!r} ({type(value).__name__})")


def has_type(value: object, hint: Any) -> bool:
    """Return True if *value* matches *hint*. Items of containers and parameters of functions are not checked."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(has_type(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    kind = origin or hint
    if kind is Callable or "__call__" in vars(kind):  # a protocol of functions
        return callable(value)
    if kind is Sequence and isinstance(value, str | bytes):
        return False
    if isinstance(value, bool) and kind in (int, float):
        return False
    return isinstance(value, int | float) if kind is float else not isinstance(kind, type) or isinstance(value, kind)


@lru_cache(maxsize=32)
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind)


def _words(hint: Any) -> str:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return " or ".join(_word(kind) for kind in kinds)


def _word(kind: Any) -> str:
    if kind is NoneType:
        return "None"
    if get_origin(kind) is Literal:
        return " or ".join(f'"{each}"' for each in get_args(kind))
    return str(getattr(kind, "__name__", kind))
