"""Times on the command line: how people write them, and how they read them. All are UTC."""

from datetime import UTC, datetime, timedelta

from hanabi.errors import ConfigError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(time_ms: int | None) -> str:
    """A time as people read it, UTC. One that no calendar has, as damage makes them, stays a number."""
    if time_ms is None:
        return "-"
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(option: str, text: str) -> int:
    """Milliseconds since 1970, from these or from a date. A date without a zone is UTC, as those that we write."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: must be a time such as 2026-11-15T06:45:00, or milliseconds") from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
