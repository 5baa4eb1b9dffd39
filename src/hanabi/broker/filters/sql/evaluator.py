"""Compiler of expression nodes to functions that evaluate messages.

Each node becomes a function of the values of the properties that the expression names, in a fixed order; None is a
missing property. A function returns True, False or None (unknown). It raises ValueError where Java throws: for a text
that should be a number and is not.

The kinds of a comparison are known at compile time (see `nodes`), so there are no look-ups per message.
Agrees with the expression classes of rocketmq-filter: ComparisonExpression, LogicExpression, UnaryExpression.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hanabi.broker.filters.sql.java_numbers import (
    compare_doubles,
    java_boolean,
    java_double,
    java_int,
    java_long,
)
from hanabi.broker.filters.sql.nodes import (
    NUMBERS,
    Between,
    Constant,
    Equal,
    In,
    IsNull,
    Kind,
    Logic,
    Negate,
    Node,
    Not,
    Order,
    Property,
    Search,
    Truth,
    kind_of,
)

Values = Sequence[str | None]
Evaluate = Callable[[Values], Any]
Compare = Callable[[Any, Any], bool]

_PARSERS: Final[dict[Kind, Callable[[str], Any]]] = {
    Kind.INT: java_int,
    Kind.LONG: java_long,
    Kind.DOUBLE: java_double,
}
_ORDERS: Final[dict[str, Compare]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Program(NamedTuple):
    """A compiled expression. `run` takes the values of `names`, in that order."""

    names: tuple[str, ...]
    run: Evaluate


def compile_node(node: Node) -> Program:
    """Return the function for *node*, which must be true, false or unknown for every message."""
    slots: dict[str, int] = {}
    run = _compile(node, slots)
    return Program(tuple(slots), run)


def _compile(node: Node, slots: dict[str, int]) -> Evaluate:
    return _COMPILERS[type(node)](node, slots)


def _property(node: Property, slots: dict[str, int]) -> Evaluate:
    return operator.itemgetter(slots.setdefault(node.name, len(slots)))


def _constant(node: Constant, _: dict[str, int]) -> Evaluate:
    value = node.value
    return lambda values: value


def _negate(node: Negate, slots: dict[str, int]) -> Evaluate:
    part = _compile(node.part, slots)
    if kind_of(node) in NUMBERS:  # a literal at the bottom, so never missing
        return lambda values: -part(values)

    def nothing(values: Values) -> None:
        part(values)  # evaluated for its errors

    return nothing


def _truth(node: Truth, slots: dict[str, int]) -> Evaluate:
    part = _compile(node.part, slots)
    return lambda values: None if part(values) is None else False


def _not(node: Not, slots: dict[str, int]) -> Evaluate:
    part = _compile(node.part, slots)

    def negation(values: Values) -> bool | None:
        value = part(values)
        return None if value is None else not value

    return negation


def _logic(node: Logic, slots: dict[str, int]) -> Evaluate:
    """Compile AND or OR: AND is false once one part is, OR true once one is; later parts are not evaluated."""
    parts = [_compile(part, slots) for part in node.parts]
    ordinary, decisive = node.all_of, not node.all_of

    def junction(values: Values) -> bool | None:
        result: bool | None = ordinary
        for part in parts:
            value = part(values)
            if value is decisive:
                return not ordinary
            if value is None:
                result = None
        return result

    return junction


def _is_null(node: IsNull, slots: dict[str, int]) -> Evaluate:
    part = _compile(node.part, slots)
    return lambda values: part(values) is None


def _equal(node: Equal, slots: dict[str, int]) -> Evaluate:
    left, right = _compile(node.left, slots), _compile(node.right, slots)
    same = _equality(kind_of(node.left), kind_of(node.right))
    if _is_fixed(node.right):
        return _with_constant(left, same, right(()))

    def equality(values: Values) -> bool | None:
        first, second = left(values), right(values)
        if first is None:
            return True if second is None else None
        return False if second is None else same(first, second)

    return equality


def _is_fixed(node: Node) -> bool:
    """Return whether *node* is the same for all messages and never missing. All numbers are literals, perhaps
    signed."""
    return kind_of(node) in NUMBERS or (isinstance(node, Constant) and node.kind is not Kind.NOTHING)


def _with_constant(left: Evaluate, compare: Compare, constant: Any) -> Evaluate:
    """Compile a comparison with a constant, the most common kind."""

    def comparison(values: Values) -> bool | None:
        value = left(values)
        return None if value is None else compare(value, constant)

    return comparison


def _order(node: Order, slots: dict[str, int]) -> Evaluate:
    left, right = _compile(node.left, slots), _compile(node.right, slots)
    compare = _ordering(node.sign, kind_of(node.left), kind_of(node.right))
    if _is_fixed(node.right):
        return _with_constant(left, compare, right(()))

    def comparison(values: Values) -> bool | None:
        first = left(values)
        if first is None:
            return None  # the right side is not evaluated
        second = right(values)
        return None if second is None else compare(first, second)

    return comparison


def _between(node: Between, slots: dict[str, int]) -> Evaluate:
    """Compile `part >= low AND part <= high`, or `part < low OR part > high`, evaluating the part once."""
    part, low, high = _compile(node.part, slots), _compile(node.low, slots), _compile(node.high, slots)
    part_kind, decisive = kind_of(node.part), node.negated
    first_sign, second_sign = ("<", ">") if node.negated else (">=", "<=")
    first = _ordering(first_sign, part_kind, kind_of(node.low))
    second = _ordering(second_sign, part_kind, kind_of(node.high))

    def range_check(values: Values) -> bool | None:
        value = part(values)
        if value is None:
            return None
        limit = low(values)
        by_low = None if limit is None else first(value, limit)
        if by_low is decisive:
            return decisive
        limit = high(values)
        by_high = None if limit is None else second(value, limit)
        if by_high is decisive:
            return decisive
        return None if by_low is None or by_high is None else not decisive

    return range_check


def _in(node: In, slots: dict[str, int]) -> Evaluate:
    part, texts, negated = _compile(node.part, slots), node.texts, node.negated

    def membership(values: Values) -> bool | None:
        value = part(values)
        return None if value is None else (value in texts) is not negated

    return membership


def _search(node: Search, slots: dict[str, int]) -> Evaluate:
    """Compile a search. It is False, never unknown, if the text or the pattern is missing; also behind NOT."""
    if not node.text:
        return lambda values: False
    part, find, text, found = _compile(node.part, slots), _SEARCHES[node.how], node.text, not node.negated
    if kind_of(node.part) is Kind.TEXT:

        def search(values: Values) -> bool:
            value = part(values)
            return value is not None and find(value, text) is found

        return search

    def no_text(values: Values) -> bool:
        part(values)  # evaluated for its errors
        return False

    return no_text


_COMPILERS: Final[dict[type, Callable[[Any, dict[str, int]], Evaluate]]] = {
    Property: _property,
    Constant: _constant,
    Negate: _negate,
    Truth: _truth,
    Not: _not,
    Logic: _logic,
    IsNull: _is_null,
    Equal: _equal,
    Order: _order,
    Between: _between,
    In: _in,
    Search: _search,
}


# Comparisons by kind. Values are never None here.


def _equality(left: Kind, right: Kind) -> Compare:
    if left is right is not Kind.DOUBLE:
        return operator.eq
    if left is Kind.TEXT and right is Kind.BOOLEAN:
        return lambda first, second: java_boolean(first) is second
    if left is Kind.BOOLEAN and right is Kind.TEXT:
        return _refuse
    if Kind.BOOLEAN in (left, right) or Kind.NOTHING in (left, right):
        return lambda first, second: False  # numbers are never TRUE or FALSE, and missing values are never compared
    return _numeric(operator.eq, left, right)


def _refuse(first: bool, second: str) -> bool:
    """Raise ValueError: Java's code for this case casts the wrong operand, so it always throws."""
    raise ValueError(f"{first} = {second[:40]!r} is never answered: the property must stand on the left")


def _ordering(sign: str, left: Kind, right: Kind) -> Compare:
    compare = _ORDERS[sign]
    if Kind.NOTHING in (left, right):
        return compare  # never called
    if left is right is Kind.TEXT:  # both are properties, read as floating-point numbers
        return lambda first, second: compare(compare_doubles(java_double(first), java_double(second)), 0)
    return _numeric(compare, left, right)


def _numeric(compare: Compare, left: Kind, right: Kind) -> Compare:
    """Compare two numbers, or a number and a text that is read as one of the same type."""
    if Kind.DOUBLE not in (left, right):
        if left is Kind.TEXT:
            parse = _PARSERS[right]
            return lambda first, second: compare(parse(first), second)
        if right is Kind.TEXT:
            parse = _PARSERS[left]
            return lambda first, second: compare(first, parse(second))
        return compare
    first_double = java_double if left is Kind.TEXT else float
    second_double = java_double if right is Kind.TEXT else float
    return lambda first, second: compare(compare_doubles(first_double(first), second_double(second)), 0)
