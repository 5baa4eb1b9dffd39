"""Functions of filter rules: texts made from properties and from the body of a message. Pure.

    UPPER(x)  LOWER(x)  TRIM(x)  LENGTH(x)  SUBSTRING(x, start[, count])     start counts from 1
    BODY()                                                                   the body as text
    BODY('$.customer.address[0].city')                                       a value of a JSON body

*x* is a property, a text or a call. A call is compiled to a function of one message; a value that is not there is
missing, as a property is. Nothing is executed that a consumer sends, and each call works on a bounded text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hanabi.broker.filters.sql.nodes import Constant, Kind, Property

BODY_BYTES_MAX: Final = 64 * 1024  # a larger body has no text and no values: parsing it would hold up other clients
CASE_CHARACTERS_MAX: Final = 4 * BODY_BYTES_MAX  # that UPPER and LOWER convert for one message: 5 ms
PATH_STEPS_MAX: Final = 32
_STEP: Final = re.compile(r"\.([A-Za-z_$][\w$-]*)|\[([0-9]{1,6})\]|\['([^'\]]*)'\]")
_MISSING: Final = object()

Argument = Property | Constant


class Subject:
    """One message as calls see it. The body is unpacked and parsed once, and only if a call needs it."""

    __slots__ = ("_body", "_converted", "_parsed", "_text", "_unpack", "properties")

    def __init__(self, properties: Mapping[str, str], body: Callable[[], bytes | None]) -> None:
        """*body* returns the body, decompressed; None if it is too large or unreadable."""
        self.properties, self._unpack = properties, body
        self._body: Any = _MISSING
        self._text: Any = _MISSING
        self._parsed: Any = _MISSING
        self._converted = 0

    def converted(self, text: str) -> str:
        """Return *text*, whose case is converted next. Raise ValueError if that is too much for one message."""
        self._converted += len(text)
        if self._converted > CASE_CHARACTERS_MAX:
            raise ValueError(f"UPPER and LOWER convert more than {CASE_CHARACTERS_MAX} characters of one message")
        return text

    def _bytes(self) -> bytes | None:
        if self._body is _MISSING:
            self._body = self._unpack()
        body: bytes | None = self._body
        return body

    def text(self) -> str | None:
        """Return the body as text; None if it is none."""
        if self._text is _MISSING:
            body = self._bytes()
            try:
                self._text = None if body is None else body.decode()
            except UnicodeDecodeError:
                self._text = None
        text: str | None = self._text
        return text

    def parsed(self) -> Any:
        """Return the value of a JSON body; None if it is none."""
        if self._parsed is _MISSING:
            body = self._bytes()
            try:
                self._parsed = None if body is None else msgspec.json.decode(body)
            except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
                self._parsed = None
        return self._parsed


Call = Callable[[Subject], str | None]


def compile_call(name: str, arguments: Sequence[Argument], calls: Mapping[str, Call]) -> Call:
    """Return the function for `name(arguments)`; raise ValueError with the reason. *calls* are those compiled before,
    by the names under which they are arguments."""
    if name == "BODY":
        return _body(arguments)
    if name == "SUBSTRING":
        return _substring(arguments, calls)
    convert = _CONVERSIONS.get(name)
    if convert is None:
        raise ValueError(f"there is no function {name[:40]}; there are {', '.join(sorted(NAMES))}")
    if len(arguments) != 1:
        raise ValueError(f"{name} takes one value, not {len(arguments)}")
    return _converted(_value(arguments[0], calls), convert, counts=name in _CASES)


def _converted(value: Call, convert: Callable[[str], str], *, counts: bool = False) -> Call:
    def call(subject: Subject) -> str | None:
        text = value(subject)
        return None if text is None else convert(text)

    def counted(subject: Subject) -> str | None:
        text = value(subject)
        return None if text is None else convert(subject.converted(text))

    return counted if counts else call


def _value(argument: Argument, calls: Mapping[str, Call]) -> Call:
    if isinstance(argument, Constant):
        if argument.kind is not Kind.TEXT:
            raise ValueError("a function takes a property, a text in quotes or another function")
        text = str(argument.value)
        return lambda _: text
    name = argument.name
    return calls[name] if name in calls else lambda subject: subject.properties.get(name)


def _substring(arguments: Sequence[Argument], calls: Mapping[str, Call]) -> Call:
    if not 2 <= len(arguments) <= 3:
        raise ValueError(f"SUBSTRING takes a value, a start and perhaps a count, not {len(arguments)} values")
    numbers: list[int] = []
    for argument in arguments[1:]:
        number = argument.value if isinstance(argument, Constant) else None
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("start and count of SUBSTRING must be whole numbers")
        numbers.append(number)
    start = max(numbers[0] - 1, 0)
    end = start + numbers[1] if len(numbers) > 1 else None
    return _converted(_value(arguments[0], calls), lambda text: text[start:end])


def _body(arguments: Sequence[Argument]) -> Call:
    if not arguments:
        return lambda subject: subject.text()
    argument = arguments[0]
    if len(arguments) > 1 or not isinstance(argument, Constant) or argument.kind is not Kind.TEXT:
        raise ValueError("BODY takes nothing, or a path in quotes such as '$.order.lines[0].sku'")
    steps = _path(str(argument.value))
    return lambda subject: _as_text(_walk(subject.parsed(), steps))


def _path(text: str) -> tuple[str | int, ...]:
    at, steps = 1, []
    while text.startswith("$") and at < len(text) and (match := _STEP.match(text, at)) is not None:
        name, index, quoted = match.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        at = match.end()
    if not text.startswith("$") or at != len(text) or len(steps) > PATH_STEPS_MAX:
        raise ValueError(f"{text[:60]!r} is no path: write '$.name[0].name', with at most {PATH_STEPS_MAX} steps")
    return tuple(steps)


def _walk(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return None
            value = value[step]
        elif not isinstance(value, dict) or step not in value:
            return None
        else:
            value = value[step]
    return value


def _as_text(value: Any) -> str | None:
    """Return a value of JSON as an expression compares it; lists and objects have none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


_CONVERSIONS: Final[Mapping[str, Callable[[str], str]]] = {
    "UPPER": str.upper,
    "LOWER": str.lower,
    "TRIM": str.strip,
    "LENGTH": lambda text: str(len(text)),
}
_CASES: Final = frozenset({"UPPER", "LOWER"})  # a hundred times as slow as the others
NAMES: Final = frozenset({*_CONVERSIONS, "SUBSTRING", "BODY"})
