"""Topic attributes of 5.x: `+name=value` sets one, `-name` removes it.

Pure. Agrees with AttributeParser, AttributeUtil and TopicAttributes of 5.3.3, in names, values and errors. Two values
are refused, because this broker does not implement them: queue.type=BatchCQ and cleanup.policy=COMPACTION.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from hanabi.errors import InvalidParameter


class _Attribute(NamedTuple):
    values: frozenset[str] | None  # None: a whole number from -1 on
    changeable: bool


_MESSAGE_TYPES: Final = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
_KNOWN: Final = {
    "queue.type": _Attribute(frozenset({"SimpleCQ"}), changeable=False),
    "cleanup.policy": _Attribute(frozenset({"DELETE"}), changeable=False),
    "message.type": _Attribute(_MESSAGE_TYPES, changeable=True),
    "reserve.time": _Attribute(None, changeable=True),
}


def changed_attributes(current: Mapping[str, str] | None, text: str | None, *, is_new: bool) -> dict[str, str] | None:
    """Return the attributes of a topic after the changes in *text*; None if it has none."""
    attributes = dict(current or {})
    seen: set[str] = set()
    for change in text.split(",") if text else ():
        sign, name, value = _parse(change)
        if name in seen:
            raise InvalidParameter(f"alter duplication key. key: {name}")
        seen.add(name)
        known = _KNOWN.get(name)
        if known is None:
            raise InvalidParameter(f"unsupported key: {name}")
        if is_new and sign == "-":
            raise InvalidParameter(f"only add attribute is supported while creating topic. key: {name}")
        if sign == "-" and name not in attributes:
            raise InvalidParameter(f"attempt to delete a nonexistent key: {name}")
        if not is_new and not known.changeable:
            raise InvalidParameter(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            del attributes[name]
        else:
            _check(name, value, known)
            attributes[name] = value
    return attributes or None


def _parse(change: str) -> tuple[str, str, str]:
    key, equals, value = change.strip().partition("=")
    sign, name = key[:1], key[1:]
    if equals and sign != "+":
        raise InvalidParameter(f"add/alter attribute format is wrong: {key}")
    if not equals and sign != "-":
        raise InvalidParameter(f"delete attribute format is wrong: {key}")
    if not name or "+" in name or "-" in name:
        raise InvalidParameter("kv string format wrong.")
    return sign, name, value


def _check(name: str, value: str, known: _Attribute) -> None:
    if known.values is not None:
        if value not in known.values:
            raise InvalidParameter(f"{name} must be one of {', '.join(sorted(known.values))}, not {value[:50]!r}")
    elif not (value == "-1" or (value.isascii() and value.isdigit() and len(value) <= 18)):
        raise InvalidParameter(f"{name} must be a number from -1 on, not {value[:50]!r}")
