"""The base of typed headers: a struct whose fields travel as strings.

A header is described once, as a class. Names on the wire are Java's camel case. Numbers and booleans arrive
as strings and leave as strings; their ranges are Java's, so that what was accepted also fits into a record.
"""

from functools import cache
from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all typed headers. A field without a default must be sent."""


class NoHeader(Header, frozen=True, kw_only=True):
    """The header of requests that have no fields of their own."""


@cache
def _wire_names(kind: type[Header]) -> tuple[tuple[str, str], ...]:
    return tuple((item.name, item.encode_name) for item in msgspec.structs.fields(kind))


def header_fields(header: Header) -> dict[str, str]:
    """Return the fields of *header* as they travel. None is left out; all other values are sent, defaults too."""
    fields: dict[str, str] = {}
    for name, wire_name in _wire_names(type(header)):
        value = getattr(header, name)
        if value is None:
            continue
        if value is True:
            fields[wire_name] = "true"
        elif value is False:
            fields[wire_name] = "false"
        else:
            fields[wire_name] = str(value)
    return fields
