"""JSON of the tables in `config/` as fastjson writes it with PrettyFormat: tabs, a member a line, no final line end.

    {
        "offsetTable":{
                "Orders@billing":{0:5,1:3
                }
        }
    }

Maps with numbers for keys stay on one line up to their closing brace, empty maps and lists have no line at all, and
lists of numbers (Java's arrays) stay on one line. Agrees with MapSerializer and ListSerializer of fastjson 1.2, as
used by RemotingSerializable.toJson(object, true).
"""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def pretty(value: Any, *, depth: int = 0) -> bytes:
    """Return *value*, a body or plain values, formatted for a depth of *depth* levels in a file."""
    return _pretty(msgspec.to_builtins(value), b"\n" + b"\t" * depth)


def _pretty(value: Any, line: bytes) -> bytes:
    """Return *value* formatted; *line* is a line end and the indent around it."""
    if isinstance(value, dict) and value:
        inner = line + b"\t"
        members = [
            (b"%b%b:%b" % (inner, _encode_key(key), _pretty(member, inner)))
            if isinstance(key, str)
            else (b"%d:%b" % (key, _pretty(member, inner)))
            for key, member in value.items()
        ]
        return b"{%b%b}" % (b",".join(members), line)
    if isinstance(value, list) and value and not isinstance(value[0], int):
        inner = line + b"\t"
        return b"[%b%b]" % (b",".join([inner + _pretty(item, inner) for item in value]), line)
    return _encode(value)


def _encode_key(key: str) -> bytes:
    """Return *key* in quotes. The key that fastjson's dialect reserves is escaped, or a reader would follow it."""
    return rb'"\u0024ref"' if key == "$ref" else _encode(key)
