"""Times on the command line: how people write them, and how they read them. All are UTC."""

import re
from datetime import UTC, datetime, timedelta

from hanabi.errors import ConfigError

MILLISECONDS_MIN = 10**12
MILLISECONDS_MAX = 10**13
DAYS_MAX = 36_500
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(time_ms: int | None) -> str:
    """Return a time as people read it, UTC. One that no calendar has, as damage makes them, stays a number."""
    if time_ms is None:
        return "-"
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_plausible(time_ms: int) -> bool:
    """Return whether a bare number is one of milliseconds: a moment from 2001 to 2286."""
    return MILLISECONDS_MIN <= time_ms < MILLISECONDS_MAX


def _plausible(option: str, number: int) -> int:
    if is_plausible(number):
        return number
    if is_plausible(number * 1000):
        raise ConfigError(f"{option} {number} is in seconds: {time_text(number * 1000)} is {option} {number}000")
    raise ConfigError(f"{option} {number}: as milliseconds since 1970 that is {time_text(number)}, write it as a date")


def parse_time(option: str, text: str) -> int:
    """Milliseconds since 1970, from these or from a date. A date without a zone is UTC, as those that we write.

    A number that is no moment of messages, as an offset or seconds are, is refused.
    """
    if is_number(text):
        return _plausible(option, int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: must be a time such as 2026-11-15T06:45:00, or milliseconds") from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(option: str, text: str) -> timedelta:
    """Return the time that *text* means: 90s, 1.5h, 1h30m, 250ms, 2d."""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ConfigError(f"{option} {text}: must be a time such as 90s, 5m or 1h30m; units are {', '.join(_UNITS)}")
    length = sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    if length > timedelta(days=DAYS_MAX):
        raise ConfigError(f"{option} {text}: longer than {DAYS_MAX} days")
    return length
