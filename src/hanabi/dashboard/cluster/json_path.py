"""Conditions on JSON bodies by paths, for the live tail. Pure. They are data and never code.

    $.order.lines[0].price > 100 and $.colour == 'red'
    $.customer.email ~ 'example' or $.lines[*].sku == "a-1"
    $.coupon                                                    is there

A path with `[*]` holds if it holds for one of the elements.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from hanabi.errors import InvalidParameter

CONDITIONS_MAX: Final = 20
STEPS_MAX: Final = 30
_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,9}|\*|'[^']*'|\"[^\"]*\")\]")
_OPERATOR: Final = re.compile(r"\s*(==|=|!=|<>|>=|<=|>|<|~)\s*")
_LITERAL: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)\b")
_JOIN: Final = re.compile(r"\s+(and|or|AND|OR)\s+|\s*(&&|\|\|)\s*")
_WORDS: Final = {"true": True, "false": False, "null": None}
_EVERY: Final = object()


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(found: Any, wanted: Any) -> bool:
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (found, wanted))
        return (numbers or (isinstance(found, str) and isinstance(wanted, str))) and compare(found, wanted)

    return holds


def _equal(found: Any, wanted: Any) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "=": _equal,
    "!=": lambda found, wanted: not _equal(found, wanted),
    "<>": lambda found, wanted: not _equal(found, wanted),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    "~": lambda found, wanted: isinstance(found, str) and str(wanted) in found,
}


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and what its value must be; without an operator the path must be there."""

    steps: list[Any]
    operator: str | None = None
    wanted: Any = None

    def holds(self, document: Any) -> bool:
        found = _values(document, self.steps)
        if self.operator is None:
            return any(True for _ in found)
        test = _OPERATORS[self.operator]
        return any(test(value, self.wanted) for value in found)


def json_filter(text: str) -> Callable[[bytes], bool]:
    """Return a filter of bodies. Raise `InvalidParameter` with the place that cannot be read."""
    if not text.strip():
        return lambda _: True
    alternatives = _parsed(text.strip())

    def holds(body: bytes) -> bool:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return False
        return any(all(condition.holds(document) for condition in each) for each in alternatives)

    return holds


def _parsed(text: str) -> list[list[Condition]]:
    alternatives: list[list[Condition]] = [[]]
    at = 0
    for _ in range(CONDITIONS_MAX):
        condition, at = _condition(text, at)
        alternatives[-1].append(condition)
        if at == len(text):
            return alternatives
        join = _JOIN.match(text, at)
        if join is None:
            break
        if (join[1] or join[2]).lower() in ("or", "||"):
            alternatives.append([])
        at = join.end()
    raise InvalidParameter(f"the JSON filter cannot be read from here on: {text[at : at + 40]!r}")


def _condition(text: str, at: int) -> tuple[Condition, int]:
    begin = at
    if text[at : at + 1] != "$":
        raise InvalidParameter(f"a path of the JSON filter begins with $: {text[at : at + 40]!r}")
    at += 1
    steps: list[Any] = []
    while (step := _STEP.match(text, at)) is not None:
        inside = step[2]
        steps.append(
            step[1]
            if inside is None
            else _EVERY
            if inside == "*"
            else int(inside)
            if inside.isdigit()
            else inside[1:-1]
        )
        at = step.end()
        if len(steps) > STEPS_MAX:
            raise InvalidParameter(f"the path {text[begin : begin + 40]!r} is too long")
    found = _OPERATOR.match(text, at)
    if found is None:
        return Condition(steps=steps), at
    literal = _LITERAL.match(text, found.end())
    if literal is None:
        raise InvalidParameter(f"the JSON filter needs a number or a text in quotes here: {text[found.end() :][:40]!r}")
    return Condition(steps=steps, operator=found[1], wanted=_literal(literal)), literal.end()


def _literal(found: re.Match[str]) -> Any:
    if found[4] is not None:
        return _WORDS[found[4]]
    if found[3] is not None:
        return float(found[3]) if any(sign in found[3] for sign in ".eE") else int(found[3])
    return found[1] if found[1] is not None else found[2]


def _values(value: Any, steps: list[Any]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is _EVERY:
        for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
            yield from _values(each, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from _values(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _values(value[step], rest)
