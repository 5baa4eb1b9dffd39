"""The slow-path reader of fastjson's dialect: text to plain values, in one pass, without types.

It reads what fastjson 1.2 reads from a careful peer, beyond JSON: bare and single-quoted keys, objects as keys,
single-quoted text, commas too many, references to earlier values, a few words for null. Depth, size and what
references unfold to are bounded. `wire.fastjson` knows the types and comes here only when msgspec cannot.
"""

import re
from typing import Any, NamedTuple

import msgspec

from hanabi.errors import RemoteProtocolError
from hanabi.message import MessageQueue

DEPTH_MAX = 64  # the deepest body of RocketMQ has 6 levels
# Escapes counted, references followed; half a second at worst. 20,000 queues with their offsets fit in.
VALUES_MAX = 1 << 17
NUMBER_CHARACTERS_MAX = 400  # a double written out has some 310; reading digits takes the square of their number

_TOKEN = re.compile(
    r"""[ \t\r\n\f]*+(?:
        "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"
      | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'
      | (?P<number>[+-]?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)
      | (?P<mark>[{}\[\]:]|,[, \t\r\n\f]*+)     # fastjson does not mind commas too many
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_TEXT = {"double", "single"}
_BARE = {"number", "word"}
_WORDS = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", **{c: c for c in "\"'\\/"}}
_SURROGATE = re.compile("[\ud800-\udfff]")
_REFERENCE = "$ref"
_REFERENCE_STEP = re.compile(r"\.((?:\\.|[^.\[\\])++)|\[([0-9]++)\]", re.DOTALL)
_BACKSLASHED = re.compile(r"\\(.)", re.DOTALL)


def parse_dialect(data: bytes, *, quoted_object_keys: bool = False, values_max: int = VALUES_MAX) -> Any:
    """Parse *data* into at most *values_max* plain values. Keys are text or message queues; null members are left out.

    With *quoted_object_keys*, a key that is an object written out as text is a message queue as well.
    """
    try:
        text = data.decode().removeprefix("\ufeff")
        return _Reader(text, quoted_object_keys, values_max).whole()
    except (ValueError, RecursionError) as error:  # not UTF-8, half a surrogate pair, not a message queue
        raise RemoteProtocolError(f"bad JSON: {error}") from error


class _Container(NamedTuple):
    """A list or an object that is not closed yet, and its key or its index in the one around it."""

    step: Any
    value: Any


class _Reader:
    """Recursive descent over one text. Invariant: everything before `_position` has been read."""

    def __init__(self, text: str, quoted_object_keys: bool, values_max: int) -> None:
        self._text = text
        self._values_max = values_max
        self._quoted_object_keys = quoted_object_keys
        self._position = 0
        self._values = 0
        self._open: list[_Container] = []  # outermost first

    def whole(self) -> Any:
        value = self._value(*self._token(), step=None)
        kind, text = self._token()
        if kind != "end":
            raise self._error(f"{text!r} after the end")
        return value

    def _error(self, problem: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"bad JSON: {problem[:100]} before character {self._position}")

    def _token(self) -> tuple[str, str]:
        """Return the next token: its kind, which is the mark itself for a mark, and its text."""
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise self._error(f"{self._text[self._position : self._position + 10]!r}")
        self._position = match.end()
        kind = str(match.lastgroup)
        text = match[kind]
        return (text[0] if kind == "mark" else kind), text

    def _value(self, kind: str, text: str, step: Any) -> Any:
        """Return the value that begins with this token, at *step* in the container around it."""
        self._count(1)
        if kind in _TEXT:
            return self._unescaped(text)
        if kind == "number":
            if len(text) > NUMBER_CHARACTERS_MAX:
                raise self._error(f"a number of {len(text)} characters")
            return _number(text)
        if kind == "{":
            return self._object(step)
        if kind == "[":
            return self._list(step)
        if kind == "word" and text in _WORDS:
            return _WORDS[text]
        raise self._error(f"{text!r} where a value must be")

    def _list(self, step: Any) -> list[Any]:
        items: list[Any] = []
        self._enter(step, items)
        while True:
            kind, text = self._token()
            if kind == ",":
                continue
            if kind == "]":
                break
            items.append(self._value(kind, text, len(items)))
            if self._separator("]") == "]":
                break
        self._open.pop()
        return items

    def _object(self, step: Any) -> Any:
        members: dict[Any, Any] = {}
        self._enter(step, members)
        while True:
            kind, text = self._token()
            if kind == ",":
                continue
            if kind == "}":
                break
            key = self._key(kind, text)
            kind, text = self._token()
            if kind != ":":
                raise self._error(f"{text!r} where : must be")
            value = self._value(*self._token(), key)
            if value is not None:
                members[key] = value
            if self._separator("}") == "}":
                break
        self._open.pop()
        if len(members) == 1 and _REFERENCE in members:
            return self._referred(members[_REFERENCE])
        return members

    def _separator(self, closing: str) -> str:
        kind, text = self._token()
        if kind != "," and kind != closing:
            raise self._error(f"{text!r} where , or {closing} must be")
        return kind

    def _key(self, kind: str, text: str) -> Any:
        if kind in _TEXT:
            key = self._unescaped(text)
            if self._quoted_object_keys and key.startswith('{"'):
                return msgspec.json.decode(key, type=MessageQueue)
            return key
        if kind in _BARE:
            return text
        if kind == "{":
            return msgspec.convert(self._value(kind, text, None), MessageQueue, strict=False)
        raise self._error(f"{text!r} where a key must be")

    def _enter(self, step: Any, container: Any) -> None:
        if len(self._open) == DEPTH_MAX:
            raise self._error(f"more than {DEPTH_MAX} levels")
        self._open.append(_Container(step, container))

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > self._values_max:
            raise self._error(f"more than {self._values_max} values")

    def _unescaped(self, text: str) -> str:
        escapes = text.count("\\")
        if not escapes:
            return text
        self._count(escapes)  # each takes as long as a value
        text = _ESCAPE.sub(self._escape, text)
        if _SURROGATE.search(text):  # a pair becomes one character; half a pair is none, and an error
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return text

    def _escape(self, match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            return chr(int(code, 16))
        if match[3] in _ESCAPED:
            return _ESCAPED[match[3]]
        raise self._error(f"the escape {match[0]!r}")

    def _referred(self, path: Any) -> Any:
        """Return the earlier value at *path*, such as `$.brokerDatas[0]`. Forward and circular ones are refused."""
        if not isinstance(path, str) or not path.startswith("$") or not self._open:
            raise self._error(f"the reference {path!r}")
        value, level, position = self._open[0].value, 0, 1
        while position < len(path):
            match = _REFERENCE_STEP.match(path, position)
            if match is None:
                raise self._error(f"the reference {path!r}")
            position = match.end()
            step = _step_into(value, match)
            if level + 1 < len(self._open) and self._open[level].value is value and self._open[level + 1].step == step:
                level += 1  # a container that is not closed yet is not in the one around it
                value = self._open[level].value
                continue
            try:
                value = value[step]
            except (LookupError, TypeError):
                raise self._error(f"the reference {path!r} to nothing") from None
        if any(value is container.value for container in self._open):
            raise self._error(f"the reference {path!r} to what contains it")
        self._count_unfolded(value)
        return value

    def _count_unfolded(self, value: Any) -> None:
        """Charge for all that a reference repeats: a few of them in a row could otherwise unfold without end."""
        level, depth = [value], len(self._open)
        while level := [child for item in level for child in _children(item)]:
            self._count(len(level))
            depth += 1
            if depth > DEPTH_MAX:
                raise self._error(f"more than {DEPTH_MAX} levels")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # a fraction
        return float(text)


def _step_into(value: Any, step: re.Match[str]) -> Any:
    """Return the part of *value* that one step of a reference selects. In maps from numbers, `[7]` is a key."""
    number = step[2]
    if number is not None:
        return int(number) if isinstance(value, list) and len(number) < 10 else number
    return _BACKSLASHED.sub(r"\1", step[1])


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
