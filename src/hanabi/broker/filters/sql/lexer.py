"""Lexer of SQL92 expressions, one token at a time.

Agrees with the tokens of SelectorParser.jj (5.3.3; 4.9.8 has the same but for three keywords): the longest match wins,
keywords in any case, names in ASCII, two quotes in a text for one, `-- to the end of a line` and `/* */` as comments.
Nothing is read ahead: any text may follow an expression, as with Apache.
"""

import re
from typing import Final, NamedTuple

from hanabi.errors import SubscriptionParseFailed

END: Final = "the end"
NAME: Final = "a property's name"
INTEGER: Final = "a whole number"
FLOAT: Final = "a number with a fraction"
TEXT: Final = "a text in quotes"

KEYWORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)

_BLANKS = re.compile(r"(?:[ \t\n\r\f]|/\*.*?\*/)*+", re.DOTALL)
_BLANKS_AND_LINES = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*(?:\r\n|\n|\r)|/\*.*?\*/)*+", re.DOTALL)
# The quotes are unrolled, so that an unterminated text is detected in one pass.
_TOKEN = re.compile(
    r"""(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      |(?P<integer>0|[1-9][0-9]*[lL]?)
      |(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      |(?P<text>'[^']*(?:''[^']*)*')
      |(?P<mark><>|>=|<=|[=><(),+-])
    """,
    re.VERBOSE,
)
_KINDS: Final = {"float": FLOAT, "integer": INTEGER, "name": NAME, "text": TEXT}


class Token(NamedTuple):
    """`kind` is a keyword in capitals, a mark such as `<=`, or one of the names above; `text` is as written."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return self.kind if self.kind == END else repr(self.text if len(self.text) <= 40 else self.text[:40] + "...")


class Lexer:
    """Reader of the tokens of one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        # Dashes without a line end behind them are marks, not a comment. Searched once, as repeated searches would be
        # slow.
        self._last_line_end = max(expression.rfind("\n"), expression.rfind("\r"))

    def read(self, position: int) -> Token:
        """Return the first token at or behind *position*."""
        expression = self._expression
        blanks = (_BLANKS_AND_LINES if position < self._last_line_end else _BLANKS).match(expression, position)
        start = blanks.end() if blanks is not None else position
        if start == len(expression):
            return Token(END, "", start, start)
        match = _TOKEN.match(expression, start)
        if match is None:
            raise error_at(expression, start, _what_is_wrong(expression, start))
        text, group = match[0], match.lastgroup or ""
        kind = text if group == "mark" else _KINDS[group]
        if kind == NAME and (word := text.upper()) in KEYWORDS:
            kind = word
        return Token(kind, text, start, match.end())


def error_at(expression: str, position: int, reason: str) -> SubscriptionParseFailed:
    """Return the error to raise, with line and column counted from 1."""
    line = expression.count("\n", 0, position)
    column = position - (expression.rfind("\n", 0, position) + 1) + 1
    place = f"line {line + 1}, column {column}" if "\n" in expression else f"column {column}"
    return SubscriptionParseFailed(f"the SQL92 expression is wrong at {place}: {reason}")


def _what_is_wrong(expression: str, start: int) -> str:
    if expression[start] == "'":
        return "the text that begins here has no closing quote"
    if expression.startswith("/*", start):
        return "the comment that begins here has no end"
    return f"no expression has the character {expression[start]!r} outside of texts"
