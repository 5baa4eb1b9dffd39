"""Expressions and messages on which our filters and Apache's must agree: written by hand, and made at random."""

import random
from collections.abc import Iterator, Mapping

Case = tuple[str, Mapping[str, str]]  # an expression and a message's properties

MESSAGES: tuple[dict[str, str], ...] = (
    {},
    {"a": "1", "b": "2"},
    {"a": "true", "b": "TRUE"},
    {"a": "x", "b": "it's", "TAGS": "A"},
    {"a": "1.5", "b": "-1.5", "c": "1e3"},
    {"a": "-7", "b": "+7", "c": "007"},
    {"a": "2147483648", "b": "9223372036854775808", "c": "-2147483649"},
    {"a": "NaN", "b": "Infinity", "c": "-Infinity"},
    {"a": " 1 ", "b": "0x1p3", "c": "1d"},
    {"a": "-0.0", "b": "0.0", "c": "0"},
    {"a": "", "b": "٣", "c": "abcdef"},
)

EXPRESSIONS: tuple[str, ...] = (
    # what a filter is written for
    "a = 1",
    "a <> 1",
    "a > 1",
    "a >= 1",
    "a < 1",
    "a <= 1",
    "a = 'x'",
    "a <> 'x'",
    "a = b",
    "a <> b",
    "a > b",
    "a <= b",
    "a between 1 and 3 AND TAGS is not null",
    "a BETWEEN 0 AND 10",
    "a NOT BETWEEN 0 AND 10",
    "a BETWEEN b AND c",
    "a NOT BETWEEN b AND c",
    "a BETWEEN b AND 5",
    "1 BETWEEN a AND b",
    "a IN ('x', 'y')",
    "a NOT IN ('x', 'y')",
    "a IN ('1','2','3','4','5','6','x')",
    "(a) IN ('x')",
    "a IS NULL",
    "a IS NOT NULL",
    "a CONTAINS 'b'",
    "c CONTAINS 'b'",
    "c NOT CONTAINS 'b'",
    "c STARTSWITH 'abc'",
    "c NOT STARTSWITH 'abc'",
    "c ENDSWITH 'def'",
    "c NOT ENDSWITH 'def'",
    "missing NOT CONTAINS 'b'",
    "c CONTAINS ''",
    "c NOT CONTAINS ''",
    "c STARTSWITH ''",
    "c NOT ENDSWITH ''",
    "a = TRUE",
    "a = FALSE",
    "TRUE = a",
    "a <> TRUE",
    "a = 1 OR b = 2",
    "a = 1 AND b = 2",
    "a = 1 OR b = 2 AND c = 3",
    "(a = 1 OR b = 2) AND c = 3",
    "NOT (a = 1)",
    "NOT (a > 1 OR b > 2)",
    # one of two unknown, and what stands behind the deciding part
    "missing = 1 OR a = 1",
    "missing = 1 AND a = 1",
    "a = 1 OR missing = 1",
    "a = 1 AND missing = 1",
    "missing = missing",
    "missing <> missing",
    "missing = other",
    "(missing > 1) = (other > 1)",
    "(missing > 1) = (a = 1)",
    "(a = 1) = (missing > 1)",
    "(a = 1) = (b = 2)",
    "a = 'x' OR a > 1",
    "a > 1 OR a = 'x'",
    "a = 1 AND a > 'b'",
    "missing > 1 IS NULL",
    "(missing > 1) IS NULL",
    "a IS NULL IS NULL",
    "a IS NOT NULL IS NOT NULL",
    "a IS NULL = TRUE",
    "a IS NULL > 3",
    # a property alone, and NOT
    "a",
    "(a)",
    "NOT a",
    "NOT NOT a",
    "a AND b",
    "a OR TRUE",
    "NOT a = 1",
    "NOT a = 'x'",
    "NOT a IS NULL",
    "NOT a IN ('x')",
    "NOT a BETWEEN 1 AND 2",
    "NOT a CONTAINS 'x'",
    "NOT missing = TRUE",
    # literals alone
    "TRUE",
    "FALSE",
    "NULL",
    "NOT TRUE",
    "NOT NULL",
    "NULL IS NULL",
    "TRUE IS NOT NULL",
    "1 IS NULL",
    "'x' IS NULL",
    "1 = 1",
    "1 = 2",
    "1 = 1.0",
    "1 = '1'",
    "'1' = 1",
    "'x' = 'x'",
    "1 = 'x'",
    "TRUE = TRUE",
    "TRUE = FALSE",
    "TRUE = 1",
    "1 = TRUE",
    "'true' = TRUE",
    "TRUE = 'true'",
    "1 > 0",
    "2 > 10",
    "2.5 > 2",
    "1",
    "'x'",
    "1.5",
    "-a",
    "+a",
    "+TRUE",
    "-TRUE",
    "NOT 1",
    "NOT -a",
    "NOT 'x'",
    "1 AND a",
    "a AND 'x'",
    # what may not be compared
    "a = NULL",
    "NULL = a",
    "a <> NULL",
    "a > NULL",
    "a > TRUE",
    "a > 'x'",
    "'x' > a",
    "a > '5'",
    "TRUE > 1",
    "a > 1 > 2",
    "(a > 1) > 2",
    "a > (b = 1)",
    "a > (NOT b)",
    "a BETWEEN 3 AND 1",
    "a BETWEEN 1 AND 1",
    "a BETWEEN 3.5 AND 1",
    "a BETWEEN 1 AND 0.5",
    "a BETWEEN -1 AND -3",
    "a NOT BETWEEN 3 AND 1",
    "a BETWEEN 9223372036854775807 AND 9223372036854775806",
    "a BETWEEN 'a' AND 'b'",
    "a BETWEEN NULL AND 1",
    "a BETWEEN TRUE AND TRUE",
    "TRUE BETWEEN 1 AND 2",
    "(a = 1) BETWEEN 1 AND 2",
    "1 IN ('1')",
    "'x' IN ('x')",
    "TRUE IN ('x')",
    "-a IN ('x')",
    "a IN (1)",
    "a IN ('x', 1)",
    "a IN ()",
    "a IN 'x'",
    "a IN ('x' 'y')",
    "a IN ('x',)",
    "a IN ('x') IN ('y')",
    "a IN ('x') = TRUE",
    "(a = 1) = 5",
    "5 = (a = 1)",
    "(a = 1) = 'x'",
    "(a = 1) = b",
    "b = (a = 1)",
    "a CONTAINS 5",
    "a CONTAINS b",
    "a CONTAINS",
    "5 CONTAINS '5'",
    "'xyz' CONTAINS 'y'",
    "'xyz' NOT STARTSWITH 'y'",
    "TRUE CONTAINS 'r'",
    "NULL NOT CONTAINS 'r'",
    "(a > 1) CONTAINS 'r'",
    "(a > 1) NOT ENDSWITH ''",
    "a CONTAINS 'x' CONTAINS 'y'",
    "a CONTAINS 'x' = FALSE",
    "a CONTAINS 'x' > 1",
    # signs
    "a > -1",
    "a > - 1",
    "a > +1",
    "a > - -1",
    "a > -+-1",
    "-1 < a",
    "-a > 1",
    "-a IS NULL",
    "-(a = 1) IS NULL",
    "-(a > 1) IS NULL",
    "-(a = 1) > 3",
    "-(a = 1) > a",
    "a < -(b = 1)",
    "a = -b",
    "-a = -b",
    "-TRUE = a",
    "-'x' = a",
    "-NULL IS NULL",
    "a = -7",
    "a = +-7",
    "+",
    "a = +",
    "a > +(b)",
    "a = +'x'",
    "+(a = 1)",
    "a BETWEEN -10 AND +10",
    # numbers
    "a = 0",
    "a = 00",
    "a = 01",
    "a = 1L",
    "a = 1l",
    "a = 0L",
    "a = 2147483647",
    "a = 2147483648",
    "a = -2147483648",
    "a > -2147483648",
    "a = 9223372036854775807",
    "a = 9223372036854775808",
    "a > -9223372036854775808",
    "a = 99999999999999999999999",
    "b = 2147483648",
    "a > 1.5",
    "a = 1.5",
    "a = 1.",
    "a = .5",
    "a = 1e3",
    "c = 1e3",
    "c = 1E+3",
    "a = 1e",
    "a = 1e-400",
    "a = 1e400",
    "a = 0.0",
    "a = 0.",
    "a = .0",
    "a = 0e5",
    "a > 4.9e-324",
    "a < 1.7976931348623157e308",
    "a = 1.5f",
    "a = 5d",
    "a = 0x1F",
    "a = 1_000",
    "a > 9223372036854775807 OR a = 2147483648",
    "a = 01.5",
    "a = 1.5.5",
    "a < 1e400",
    "b > 1e300",
    "c < 1.5",
    "a >= 1.5",
    # texts and quotes
    "b = 'it''s'",
    "b = ''''",
    "a = ''",
    "a = '''",
    "a = 'x",
    "a = 'x' 'y'",
    'a = "x"',
    "a = 'x\ny'",
    "a = 'ü漢😀'",
    "a = 'x'''",
    "b CONTAINS ''''",
    "a IN ('it''s', '''')",
    # blanks, comments, case
    "",
    " ",
    "  a=1  ",
    "\ta\n=\r1\f",
    "a\u00a0= 1",
    "a = 1 -- comment",
    "a = 1 -- comment\n",
    "-- comment\na = 1",
    "-- comment\r\na = 1",
    "-- comment\ra = 1",
    "a -- comment\n = 1",
    "a = 1 /* comment */",
    "/* comment */ a = 1",
    "a /**/ = /***/ 1",
    "a = /* ** / */ 1",
    "a = 1 /* comment",
    "a = 1 /*/",
    "a = --1",
    "a = - - 1",
    "a = 1 --",
    "a iS nOt nUlL",
    "a Between 1 aNd 3",
    "a nOt In ('x')",
    "a contains 'x' oR b sTartsWith 'y'",
    "tRuE",
    "nUll iS NULL",
    # what stands behind an expression
    "a = 1 b",
    "a = 1 b = 2",
    "a = 1 )",
    "a = 1 (",
    "a = 1 'x'",
    "a = 1 5",
    "a = 1 ,",
    "a = 1 +",
    "a = 1 + 1",
    "a - b",
    "a-b = 1",
    "a.b = 1",
    "a.5 = 1",
    "a = 1 @",
    "a = 1 b @",
    "a = 1 & b",
    "a = 1 && b = 2",
    "a = 1 || b = 2",
    "a == 1",
    "a != 1",
    "a => 1",
    "a =< 1",
    "a > = 1",
    "a < > 1",
    "a LIKE 'x%'",
    "a = 1 NOT",
    "a = 1 NOT b",
    "a NOT",
    "a NOT NULL",
    "a NOT = 1",
    "a IS",
    "a IS 1",
    "a IS NOT",
    "a IS NOT 1",
    "a IS TRUE",
    "a BETWEEN 1",
    "a BETWEEN 1 AND",
    "a BETWEEN 1 OR 2",
    "a BETWEEN 1, 2",
    "a AND",
    "AND a",
    "a OR",
    "OR",
    "NOT",
    "= 1",
    "a =",
    "a = = 1",
    "()",
    "(a = 1",
    "a = 1)",
    "((a = 1) OR (b = 2)) AND (c = 3)",
    "(((((((((((a = 1)))))))))))",
    "((a)) = ((1))",
    "a = (1)",
    "(1) = a",
    "a BETWEEN (1) AND (3)",
    "a BETWEEN (3) AND (1)",
    # names
    "$a = 1",
    "_a IS NULL",
    "A = 1",
    "a1b2 IS NULL",
    "ä = 1",
    "a-b IS NULL",
    "1a = 1",
    "notes = 'x'",
    "NOTa = 'x'",
    "order IS NULL",
    "INx IS NULL",
    "a = b = c",
    "a = 1 = TRUE",
    "a = 1 = 1",
    "a > 1 = TRUE",
    "TRUE = a > 1",
    "a = b > c",
    "a <> b <> c",
)

# Names of properties that 5.x took for keywords. We take them as names where only a name makes sense, as 4.9 does.
NAMES_OF_4: tuple[str, ...] = (
    "contains = 'x'",
    "a = contains",
    "startswith IS NULL",
    "endsWith IN ('x')",
    "NOT contains",
    "a > startswith",
    "a BETWEEN contains AND endswith",
    "contains",
    "(contains = 1) AND (a = 1)",
)


def _words(text: str) -> list[str]:
    return text.split()


_VALUES = (
    *_words("0 1 2 3 5 -1 +3 007 10 1.0 1.5 -1.5 1e3 .5 5. 1f 2d 1L 0x10 0x1p3 0x.8P-1f NaN -NaN Infinity -Infinity"),
    *_words("+Infinity true TRUE false yes x y abc abcdef it's ''' 2147483647 2147483648 -2147483648 -2147483649"),
    *_words("9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 1e400 -1e400 1e-400"),
    *_words("-0.0 0.0 -0 ٣ １２ 1_0 1e 1e+ 1e+5 1e5000000000 + - . e5 inf nan 0x 0x1 1,5 Ü 漢字 😀 𝟏"),
    *_words("00000000000000000000000000000001 0x1p99999999999 0x0p99999999999 -0x1.fffffffffffff8p1023 0x1.8"),
    *("", " ", " 1", "1 ", "\t1.5\n", "1\u00a0", "a b"),
)
_NAMES = ("a", "b", "c", "TAGS", "missing", "_x", "$y", "a1")
_NUMBERS = (
    *_words("0 1 2 3 5 10 1L 007 1.5 1.0 .5 5. 1e3 1E-2 2147483647 2147483648 9223372036854775807"),
    *_words("9223372036854775808 0.0 1e400 1e-330 4.9e-324 01"),
)
_TEXTS = ("'x'", "'y'", "'abc'", "''", "'it''s'", "'1'", "'true'", "'b'", "''''", "'漢'", "'TRUE'")
_SIGNS = ("=", "<>", ">", ">=", "<", "<=")
_KEYWORDS = _words("NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH")
_PIECES = (*_KEYWORDS, *_SIGNS, *_NAMES, *_NUMBERS[:8], *_TEXTS, *_words("( ) , + - -- /* */ . @ & |"))


def written_cases() -> Iterator[Case]:
    """Return all written expressions on all messages."""
    return ((expression, message) for expression in EXPRESSIONS for message in MESSAGES)


def random_cases(seed: int, count: int) -> Iterator[Case]:
    """Expressions that are mostly well formed, and some that are only made of the right pieces."""
    chance = random.Random(seed)
    for _ in range(count):
        if chance.random() < 0.2:
            expression = " ".join(chance.choices(_PIECES, k=chance.randint(1, 9)))
        else:
            expression = _blanks(chance, _any(chance, chance.randint(0, 4)))
        for _ in range(3):
            yield expression, {name: chance.choice(_VALUES) for name in _NAMES if chance.random() < 0.8}


def _blanks(chance: random.Random, expression: str) -> str:
    """Return the same with another case, or other blanks."""
    kind = chance.random()
    if kind < 0.1:
        return "".join(chance.choice((letter.lower(), letter.upper())) for letter in expression)
    if kind < 0.2:
        return expression.replace(" ", chance.choice((" /* = */ ", "\t", " -- '\n", "\r\n", "  ")))
    return expression


def _any(chance: random.Random, depth: int) -> str:
    """Something true, false or unknown."""
    kind = chance.random()
    if depth > 0 and kind < 0.35:
        return f"{_any(chance, depth - 1)} {chance.choice(('AND', 'OR'))} {_any(chance, depth - 1)}"
    if depth > 0 and kind < 0.45:
        return f"({_any(chance, depth - 1)})"
    if depth > 0 and kind < 0.55:
        return f"NOT {_any(chance, depth - 1)}"
    left, negation = _operand(chance, depth), chance.choice(("", "", "NOT "))
    if kind < 0.75:
        return f"{left} {chance.choice(_SIGNS)} {_operand(chance, depth)}"
    if kind < 0.82:
        return f"{left} {negation}BETWEEN {_operand(chance, depth)} AND {_operand(chance, depth)}"
    if kind < 0.88:
        return f"{left} {negation}IN ({', '.join(chance.choices(_TEXTS, k=chance.randint(1, 7)))})"
    if kind < 0.93:
        return f"{left} IS {negation}NULL"
    if kind < 0.98:
        return f"{left} {negation}{chance.choice(('CONTAINS', 'STARTSWITH', 'ENDSWITH'))} {chance.choice(_TEXTS)}"
    return chance.choice((*_NAMES, "TRUE", "FALSE", "NULL"))


def _operand(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.5:
        return chance.choice(_NAMES)
    if kind < 0.75:
        return chance.choice(_NUMBERS)
    if kind < 0.83:
        return chance.choice(_TEXTS)
    if kind < 0.87:
        return chance.choice(("TRUE", "FALSE", "NULL"))
    if kind < 0.95 or depth == 0:
        return chance.choice("+-") + chance.choice((*_NAMES, *_NUMBERS))
    return f"{chance.choice(('', '-', 'NOT '))}({_any(chance, depth - 1)})"
