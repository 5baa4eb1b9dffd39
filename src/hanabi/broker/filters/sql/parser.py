"""Parser of SQL92 expressions: text to nodes.

    OR                              weakest
    AND
    =  <>  IS [NOT] NULL
    >  >=  <  <=  [NOT] BETWEEN  [NOT] IN  [NOT] CONTAINS  [NOT] STARTSWITH  [NOT] ENDSWITH
    +  -  NOT                       strongest: NOT a = 1 is (NOT a) = 1

Agrees with SelectorParser.jj and with the refusals of rocketmq-filter's expression classes (5.3.3). As there, an
expression ends where it cannot continue, and the rest is ignored; `Parsed.end` says where, so that the broker can warn.
The three words that 5.x made keywords may still be names of properties, as in 4.9.8.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hanabi.broker.filters.sql.java_numbers import INT_MAX, LONG_MAX
from hanabi.broker.filters.sql.lexer import FLOAT, INTEGER, NAME, TEXT, Lexer, Token, error_at
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
    is_boolean,
)
from hanabi.errors import SubscriptionParseFailed

CHARACTERS_MAX: Final = 64 * 1024  # with the limit of operators at most 50 ms, on the event loop's thread
OPERATORS_MAX: Final = 2_048  # all of them may be evaluated for each message: a millisecond
SEARCHES_MAX: Final = 128  # of those, CONTAINS and the like: each may scan 32 KB of text
DEPTH_MAX: Final = 100  # nested parentheses, signs and chains; Python's own stack ends at 1,000 calls

_OR, _AND, _EQUALITY, _COMPARISON = 1, 2, 3, 4
_SEARCHES: Final = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_NEGATABLE: Final = frozenset({"BETWEEN", "IN"}) | _SEARCHES
_LEVELS: Final = (
    {"OR": _OR, "AND": _AND}
    | dict.fromkeys(("=", "<>", "IS"), _EQUALITY)
    | dict.fromkeys((">", ">=", "<", "<=", "NOT", *_NEGATABLE), _COMPARISON)
)
_DOUBLE_MIN: Final = 5e-324
_OPERANDS: Final = "a property's name, a number, a text in quotes, TRUE, FALSE, NULL or '('"


class Parsed(NamedTuple):
    """An expression, and the position where it ended."""

    node: Node
    end: int


class _Operand(NamedTuple):
    node: Node
    depth: int  # of the nodes below it
    start: int


Calls = Callable[[str, Sequence[Property | Constant]], Property]


def parse(expression: str, calls: Calls | None = None) -> Parsed:
    """Return the nodes of *expression*; raise SubscriptionParseFailed with the position of an error.

    *calls*, if given, returns the property that stands for `name(arguments)`, or raises ValueError; SQL92 has no calls.
    With it all numbers are compared as floating-point numbers.
    """
    if len(expression) > CHARACTERS_MAX:
        raise SubscriptionParseFailed(f"the SQL92 expression has {len(expression)} characters, limit {CHARACTERS_MAX}")
    parser = _Parser(expression, calls)
    node = parser.boolean(parser.expression(_OR, 0))
    return Parsed(node, parser.token.start)


class _Parser:
    """One pass over one text. `token` is the next unread one."""

    def __init__(self, text: str, calls: Calls | None) -> None:
        self._text, self._calls = text, calls
        self._lexer = Lexer(text)
        self._operators = self._searches = 0
        self.token = self._lexer.read(0)

    def expression(self, weakest: int, depth: int) -> _Operand:
        """Parse an operand and all operators behind it that bind at least as strongly as *weakest*."""
        left = self._operand(depth)
        strongest = _COMPARISON
        while weakest <= (level := _LEVELS.get(self.token.kind, 0)) <= strongest:
            operator = self._take()
            if level <= _AND:
                left = self._logic(left, operator, level, depth)
            elif level == _EQUALITY:
                left = self._equality(left, operator, depth)
            else:
                left = self._comparison(left, operator, depth)
            strongest = level
        return left

    def boolean(self, operand: _Operand) -> Node:
        """Return *operand* as a condition; raise an error if it cannot be one."""
        node = operand.node
        if isinstance(node, Property):
            return Truth(node)
        if not is_boolean(node):
            raise self._error(operand.start, "what begins here is neither true nor false, but must be one of them")
        return node

    # Operands

    def _operand(self, depth: int) -> _Operand:
        token = self._take()
        if depth >= DEPTH_MAX:
            raise self._too_deep(token.start)
        if token.kind == "(":
            inner = self.expression(_OR, depth + 1)
            self._expect(")")
            return inner
        if token.kind == "+":
            return self._operand(depth + 1)
        if token.kind == "-":
            part = self._operand(depth + 1)
            return self._made(Negate(part.node), token.start, part)
        if token.kind == "NOT":
            part = self._operand(depth + 1)
            return self._made(Not(self.boolean(part)), token.start, part)
        return _Operand(self._literal(token, depth), 0, token.start)

    def _call(self, name: Token, calls: Calls, depth: int) -> Property:
        """Parse the arguments of a call; they are properties, literals and calls."""
        if depth >= DEPTH_MAX:
            raise self._too_deep(name.start)
        self._expect("(")
        arguments: list[Property | Constant] = []
        while self.token.kind != ")":
            if arguments:
                self._expect(",")
            arguments.append(self._literal(self._take(), depth + 1))
        self._take()
        self._operators += 1
        try:
            return calls(name.text, arguments)
        except ValueError as error:
            raise self._error(name.start, str(error)) from error

    def _literal(self, token: Token, depth: int = 0) -> Property | Constant:
        if token.kind == NAME and self._calls is not None and self.token.kind == "(":
            return self._call(token, self._calls, depth)
        if token.kind == NAME or token.kind in _SEARCHES:
            return Property(token.text)
        make = _LITERALS.get(token.kind)
        if make is None:
            raise self._unexpected(token, _OPERANDS)
        constant = make(token.text)
        if constant is None:
            raise self._error(token.start, f"{token} is too large or too small a number")
        if self._calls is not None and constant.kind in NUMBERS:
            return Constant(Kind.DOUBLE, constant.value)  # 120.5 of a JSON body can be compared with 100
        return constant

    # Operators; the operator token is already read

    def _logic(self, left: _Operand, operator: Token, level: int, depth: int) -> _Operand:
        parts = [self.boolean(left)]
        deepest = left
        while True:
            right = self.expression(level + 1, depth)
            parts.append(self.boolean(right))
            deepest = max(deepest, right, key=_depth)
            if self.token.kind != operator.kind:
                return self._made(Logic(level == _AND, tuple(parts)), left.start, deepest)
            self._take()

    def _equality(self, left: _Operand, operator: Token, depth: int) -> _Operand:
        if operator.kind == "IS":
            negated = self.token.kind == "NOT"
            if negated:
                self._take()
            self._expect("NULL")
            is_null = IsNull(left.node)
            return self._made(Not(is_null) if negated else is_null, left.start, left)
        right = self.expression(_COMPARISON, depth)
        for operand in (left, right):
            if isinstance(operand.node, Constant) and operand.node.kind is Kind.NOTHING:
                raise self._error(operand.start, f"NULL cannot be compared with {operator}: write IS NULL")
        if _is_boolean_literal(left.node) and isinstance(right.node, Constant) and not _is_boolean_literal(right.node):
            raise self._error(left.start, "TRUE and FALSE cannot be compared with another literal")
        equal = Equal(left.node, right.node)
        return self._made(Not(equal) if operator.kind == "<>" else equal, left.start, left, right)

    def _comparison(self, left: _Operand, operator: Token, depth: int) -> _Operand:
        negated = operator.kind == "NOT"
        if negated:
            operator = self._take()
            if operator.kind not in _NEGATABLE:
                raise self._unexpected(operator, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH behind NOT")
        if operator.kind in _SEARCHES:
            self._searches += 1
            if self._searches > SEARCHES_MAX:
                raise self._error(operator.start, f"more than {SEARCHES_MAX} CONTAINS, STARTSWITH and ENDSWITH")
            search = Search(operator.kind, left.node, self._quoted(), negated)
            return self._made(search, left.start, left)
        if operator.kind == "IN":
            return self._in(left, negated)
        if operator.kind == "BETWEEN":
            return self._between(left, negated, depth)
        right = self._operand(depth)
        self._check_ordered(left, right)
        return self._made(Order(operator.kind, left.node, right.node), left.start, left, right)

    def _in(self, left: _Operand, negated: bool) -> _Operand:
        self._expect("(")
        texts = {self._quoted()}
        while self.token.kind == ",":
            self._take()
            texts.add(self._quoted())
        self._expect(")")
        if not isinstance(left.node, Property):
            raise self._error(left.start, "only a property can be IN a list")
        return self._made(In(left.node, frozenset(texts), negated), left.start, left)

    def _between(self, left: _Operand, negated: bool, depth: int) -> _Operand:
        low = self._operand(depth)
        self._expect("AND")
        high = self._operand(depth)
        self._check_ordered(left, low, high)
        # Apache checks only literals without a sign, and not behind NOT.
        if not negated and _is_above(low.node, high.node):
            raise self._error(low.start, "the first number of BETWEEN is larger than the second")
        return self._made(Between(left.node, low.node, high.node, negated), left.start, left, low, high)

    def _check_ordered(self, *operands: _Operand) -> None:
        for operand in operands:
            node = operand.node
            if is_boolean(node) or (isinstance(node, Constant) and node.kind not in NUMBERS):
                raise self._error(operand.start, "what begins here is no number, and can only be compared with = or <>")

    # Tokens and errors

    def _take(self) -> Token:
        token = self.token
        self.token = self._lexer.read(token.end)
        return token

    def _expect(self, kind: str) -> Token:
        if self.token.kind != kind:
            raise self._unexpected(self.token, kind if kind == TEXT else repr(kind))
        return self._take()

    def _quoted(self) -> str:
        return _unquote(self._expect(TEXT).text)

    def _made(self, node: Node, start: int, *parts: _Operand) -> _Operand:
        depth = 1 + max(map(_depth, parts))
        if depth > DEPTH_MAX:
            raise self._too_deep(start)
        self._operators += 1
        if self._operators > OPERATORS_MAX:
            raise self._error(start, f"more than {OPERATORS_MAX} operators; a list of texts can be one: IN ('a', 'b')")
        return _Operand(node, depth, start)

    def _too_deep(self, position: int) -> SubscriptionParseFailed:
        return self._error(position, f"more than {DEPTH_MAX} levels of expressions within each other")

    def _unexpected(self, token: Token, expected: str) -> SubscriptionParseFailed:
        return self._error(token.start, f"expected {expected}, found {token}")

    def _error(self, position: int, reason: str) -> SubscriptionParseFailed:
        return error_at(self._text, position, reason)


def _depth(operand: _Operand) -> int:
    return operand.depth


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _integer(text: str) -> Constant | None:
    digits = text.rstrip("lL")
    if len(digits) > 19 or (number := int(digits)) > LONG_MAX:
        return None
    return Constant(Kind.INT if number <= INT_MAX else Kind.LONG, number)


def _float(text: str) -> Constant | None:
    number = float(text)
    # Apache refuses even 0.0.
    return Constant(Kind.DOUBLE, number) if _DOUBLE_MIN <= number < float("inf") else None


def _is_boolean_literal(node: Node) -> bool:
    return isinstance(node, Constant) and node.kind is Kind.BOOLEAN


def _is_above(low: Node, high: Node) -> bool:
    if not isinstance(low, Constant) or not isinstance(high, Constant):
        return False
    first, second = low.value, high.value
    if not isinstance(first, int | float) or not isinstance(second, int | float):
        return False
    if Kind.DOUBLE in (low.kind, high.kind):
        return float(first) > float(second)
    return first > second


_LITERALS: Final[dict[str, Callable[[str], Constant | None]]] = {
    TEXT: lambda text: Constant(Kind.TEXT, _unquote(text)),
    INTEGER: _integer,
    FLOAT: _float,
    "TRUE": lambda _: Constant(Kind.BOOLEAN, True),
    "FALSE": lambda _: Constant(Kind.BOOLEAN, False),
    "NULL": lambda _: Constant(Kind.NOTHING, None),
}
