"""Java's parsing and comparison of numbers. A text that is not a number raises ValueError.

Agrees with Integer.valueOf, Long.valueOf, Double.valueOf and Double.compare.
"""

import math
import re
from functools import lru_cache
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_INTEGER = re.compile(r"[+-]?\d+").fullmatch  # the digits of all scripts, as in Java
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?").fullmatch
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?").fullmatch
_NAMED: Final = {
    sign + name: value
    for sign in ("", "+", "-")
    for name, value in (("NaN", math.nan), ("Infinity", -math.inf if sign == "-" else math.inf))
}
_SHORT: Final = 64
_SPACES: Final = "".join(map(chr, range(33)))  # removed by String.trim


def java_int(text: str) -> int:
    """Parse as Integer.valueOf: 32 bits, else it is not a number."""
    if len(text) < 10 and text.isascii() and text.isdecimal():
        return int(text)
    return _java_integer(text, INT_MAX)


def java_long(text: str) -> int:
    """Parse as Long.valueOf: 64 bits, else it is not a number."""
    if len(text) < 19 and text.isascii() and text.isdecimal():
        return int(text)
    return _java_integer(text, LONG_MAX)


def _java_integer(text: str, most: int) -> int:
    # Java reads UTF-16 units, so characters beyond them are not digits.
    if not _INTEGER(text) or (not text.isascii() and max(text) > "\uffff"):
        raise ValueError(f"not a whole number: {text[:40]!r}")
    number = int(text)
    if not -most - 1 <= number <= most:
        raise ValueError(f"out of range: {text[:40]!r}")
    return number


def java_double(text: str) -> float:
    """Parse as Double.valueOf: fractions, exponents, hexadecimal, a type suffix, NaN and Infinity, with spaces
    around."""
    return _read_double(text) if len(text) <= _SHORT else _read_long_double(text)


def _read_double(text: str) -> float:
    text = text.strip(_SPACES)
    if _DECIMAL(text):
        return float(text.rstrip("fFdD"))
    if text in _NAMED:
        return _NAMED[text]
    if _HEXADECIMAL(text):
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    raise ValueError(f"not a number: {text[:40]!r}")


# An expression may compare one property a thousand times, and one of 32,000 characters takes 0.2 ms to read.
_read_long_double = lru_cache(maxsize=8)(_read_double)


def java_boolean(text: str) -> bool:
    """Parse as Boolean.valueOf: everything but "true" is false."""
    return len(text) == 4 and text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """Compare as Double.compare: NaN equals itself and is above everything, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left != right:  # includes NaN
        return math.isnan(left) - math.isnan(right)
    if left == 0:
        return int(math.copysign(1, left) - math.copysign(1, right))
    return 0
