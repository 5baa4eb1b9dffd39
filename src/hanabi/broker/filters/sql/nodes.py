"""The parts of an SQL92 expression, as values.

What a part can be is known before any message is seen: a property is a text or missing, a literal is what it is, and
everything else is true, false or unknown (None). `kind_of` says which, and both the parser's rules about what may be
compared with what, and the evaluator's conversions, follow from it.
"""

from enum import Enum

import msgspec


class Kind(Enum):
    """What a part is when it is not missing, by Java's types."""

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
    """`-part`. What is no number becomes missing."""

    part: "Node"


class Truth(msgspec.Struct, frozen=True):
    """A property alone where true or false is needed: a text is not true, so false or unknown."""

    part: Property


class Not(msgspec.Struct, frozen=True):
    """`NOT part`."""

    part: "Node"


class Logic(msgspec.Struct, frozen=True):
    """`part AND part...` if *all_of*, else `part OR part...`; of as many parts as stand side by side."""

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
    """`left > right` and the other three."""

    sign: str
    left: "Node"
    right: "Node"


class Between(msgspec.Struct, frozen=True):
    """`part BETWEEN low AND high`, both included, or the opposite."""

    part: "Node"
    low: "Node"
    high: "Node"
    negated: bool


class In(msgspec.Struct, frozen=True):
    """`name IN ('a', 'b')`, or the opposite."""

    part: Property
    texts: frozenset[str]
    negated: bool


class Search(msgspec.Struct, frozen=True):
    """`part CONTAINS 'text'`, STARTSWITH or ENDSWITH, or the opposite."""

    how: str
    part: "Node"
    text: str
    negated: bool


Node = Property | Constant | Negate | Truth | Not | Logic | Equal | IsNull | Order | Between | In | Search


def kind_of(node: Node) -> Kind:
    """Return what *node* is when it is not missing."""
    if isinstance(node, Property):
        return Kind.TEXT
    if isinstance(node, Constant):
        return node.kind
    if isinstance(node, Negate):
        kind = kind_of(node.part)
        return kind if kind in NUMBERS else Kind.NOTHING
    return Kind.BOOLEAN


def is_boolean(node: Node) -> bool:
    """Return whether *node* may stand where true or false is needed. The literal NULL may."""
    if isinstance(node, Constant):
        return node.kind in (Kind.BOOLEAN, Kind.NOTHING)
    return not isinstance(node, Property | Negate)
