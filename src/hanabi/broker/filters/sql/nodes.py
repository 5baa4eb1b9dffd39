"""Nodes of an SQL92 expression, as values.

The kind of a node is known before any message is read: a property is a text or missing, a literal has its own kind, and
everything else is true, false or unknown (None). `kind_of` returns it; the parser's rules on comparisons and the
evaluator's conversions follow from it.
"""

from enum import Enum

import msgspec


class Kind(Enum):
    """Kind of a node that is not missing, by Java's types."""

    TEXT = "String"
    INT = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NOTHING = "null"  # always missing


NUMBERS = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})


class Property(msgspec.Struct, frozen=True):
    """The value of a message's property."""

    name: str


class Constant(msgspec.Struct, frozen=True):
    """A literal."""

    kind: Kind
    value: str | int | float | bool | None


class Negate(msgspec.Struct, frozen=True):
    """`-part`. A value that is not a number becomes missing."""

    part: "Node"


class Truth(msgspec.Struct, frozen=True):
    """A property alone as a condition: a text is not true, so false or unknown."""

    part: Property


class Not(msgspec.Struct, frozen=True):
    """`NOT part`."""

    part: "Node"


class Logic(msgspec.Struct, frozen=True):
    """`part AND part...` if *all_of*, else `part OR part...`; any number of parts."""

    all_of: bool
    parts: tuple["Node", ...]


class Equal(msgspec.Struct, frozen=True):
    """`left = right`."""

    left: "Node"
    right: "Node"


class IsNull(msgspec.Struct, frozen=True):
    """`part IS NULL`."""

    part: "Node"


class Order(msgspec.Struct, frozen=True):
    """`left > right`, `>=`, `<` or `<=`."""

    sign: str
    left: "Node"
    right: "Node"


class Between(msgspec.Struct, frozen=True):
    """`part BETWEEN low AND high`, inclusive, or its negation."""

    part: "Node"
    low: "Node"
    high: "Node"
    negated: bool


class In(msgspec.Struct, frozen=True):
    """`name IN ('a', 'b')`, or its negation."""

    part: Property
    texts: frozenset[str]
    negated: bool


class Search(msgspec.Struct, frozen=True):
    """`part CONTAINS 'text'`, STARTSWITH or ENDSWITH, or its negation."""

    how: str
    part: "Node"
    text: str
    negated: bool


Node = Property | Constant | Negate | Truth | Not | Logic | Equal | IsNull | Order | Between | In | Search


def kind_of(node: Node) -> Kind:
    """Return the kind of *node* when it is not missing."""
    if isinstance(node, Property):
        return Kind.TEXT
    if isinstance(node, Constant):
        return node.kind
    if isinstance(node, Negate):
        kind = kind_of(node.part)
        return kind if kind in NUMBERS else Kind.NOTHING
    return Kind.BOOLEAN


def is_boolean(node: Node) -> bool:
    """Return whether *node* may be used as a condition. The literal NULL may."""
    if isinstance(node, Constant):
        return node.kind in (Kind.BOOLEAN, Kind.NOTHING)
    return not isinstance(node, Property | Negate)
