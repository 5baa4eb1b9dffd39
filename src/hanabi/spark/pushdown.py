"""Filters of a query, as a narrower selection.

Spark checks all of them again on the rows: what is used here only spares reading, so a filter may be used in part.
"""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from hanabi.spark.selection import Selection

_SETS = {"topic": ("topics", str), "queueId": ("queue_ids", int), "tags": ("tags", str)}
_RANGES = {"queueOffset": ("from_offset", "to_offset"), "storeTimestamp": ("from_ms", "to_ms")}


def narrow(selection: Selection, filters: Sequence[Filter]) -> Selection:
    """*selection* with all that *filters*, which all must hold, say about topics, queues, offsets, times and tags."""
    for each in filters:
        narrower = _conditions(each)
        if narrower:
            selection = selection.narrowed(**narrower)
    return selection


def _conditions(each: Filter) -> dict[str, Any]:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    if len(path) != 1:
        return {}
    (column,) = path
    if isinstance(each, EqualTo | EqualNullSafe | In):
        values = each.value if isinstance(each, In) else (each.value,)
        if column in _SETS:
            name, kind = _SETS[column]
            return {name: frozenset(values)} if all(isinstance(value, kind) for value in values) else {}
        numbers = [number for value in values if (number := _number(value)) is not None]
        if column in _RANGES and len(numbers) == len(values) and numbers:
            low, high = _RANGES[column]
            return {low: _ceil(min(numbers)), high: _floor(max(numbers)) + 1}
        return {}
    if column not in _RANGES:
        return {}
    low, high = _RANGES[column]
    return _range(each, low, high)


def _range(each: Filter, low: str, high: str) -> dict[str, Any]:
    number = _number(getattr(each, "value", None))
    if number is None:
        return {}
    if isinstance(each, GreaterThan):
        return {low: _floor(number) + 1}
    if isinstance(each, GreaterThanOrEqual):
        return {low: _ceil(number)}
    if isinstance(each, LessThan):
        return {high: _ceil(number)}
    if isinstance(each, LessThanOrEqual):
        return {high: _floor(number) + 1}
    return {}


def _number(value: object) -> Fraction | None:
    """An offset, or a time in milliseconds, which may be between two of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Fraction(round(value.timestamp() * 1_000_000), 1000)
    return None


def _floor(number: Fraction) -> int:
    return number.numerator // number.denominator


def _ceil(number: Fraction) -> int:
    return -(-number.numerator // number.denominator)
