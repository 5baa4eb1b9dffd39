"""The base of bodies: a struct that travels as JSON in fastjson's dialect.

A body is described once, as a class. Three rules make what leaves us look as if fastjson had written it, with
msgspec doing all of the work:

* Names are Java's camel case, and fields are declared in the alphabetical order of those names.
* A field whose default is None is left out while it is None, as fastjson leaves out nulls.
* Every other field is written even when it has its default: declare it with `always_written` or `always_written_new`.

Unknown fields are ignored, so a newer peer may send more than we know.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all bodies and of the values inside them. A field without a default must be sent."""


def always_written(value: T, *, name: str | None = None) -> T:
    """Return a default for a field that is written even when it has its default.

    `omit_defaults` recognises plain defaults and empty built-in containers, but not the result of a function.
    *name* is for what Java does not spell in plain camel case.
    """
    default: T = msgspec.field(default_factory=lambda: value, name=name)
    return default


def always_written_new(make: Callable[[], T], *, name: str | None = None) -> T:
    """Declare a field as `always_written` does, with a new default for each instance: a list, a dict, another body."""
    default: T = msgspec.field(default_factory=lambda: make(), name=name)  # a bare `list` would be recognised
    return default
