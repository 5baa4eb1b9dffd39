"""Figures as text for people. Pure. Unknown is a dash, and never 0."""

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "—"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: float | None) -> str:
    """Return a whole number with separators."""
    return UNKNOWN if value is None else f"{round(value):,}"


def rate(value: float | None) -> str:
    """Return a rate per second."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """Return a ratio as percent; brokers say a negative number for one they do not know."""
    return UNKNOWN if value is None or value < 0 else f"{value:.0%}"


def size(value: float | None) -> str:
    """Return a number of bytes."""
    if value is None:
        return UNKNOWN
    number = float(value)
    for unit in _UNITS:
        if abs(number) < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def moment(value_ms: int | None) -> str:
    """Return a time, in UTC; 0 is one that is not known."""
    if not value_ms or value_ms < 0:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(value_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def span(value_ms: float | None) -> str:
    """Return a length of time in its largest two units."""
    if value_ms is None:
        return UNKNOWN
    seconds = int(value_ms // 1000)
    for unit, smaller, length, part in (("d", "h", 86_400, 3_600), ("h", "min", 3_600, 60), ("min", "s", 60, 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit} {rest} {smaller}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"
