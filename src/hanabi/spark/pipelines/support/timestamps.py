"""Text of timestamps in tables: ISO 8601, UTC, to the millisecond. Pure."""

from datetime import UTC, datetime


def moment(time_ms: int) -> str | None:
    """Return the text of a time; None if there is none."""
    if time_ms <= 0:
        return None
    return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
