"""Text of bodies and times in tables of reports. Pure."""

from datetime import UTC, datetime
from typing import Final

SHOWN: Final = 120


def body_text(body: bytes | None, shown: int = SHOWN) -> str:
    """Return the beginning of *body* as text; a few bytes of it if it is binary."""
    if not body:
        return ""
    try:
        text = bytes(body).decode()
    except UnicodeDecodeError:
        start = bytes(body[: shown // 2])
        return f"0x{start.hex()}{'...' if len(body) > len(start) else ''}"
    return text if len(text) <= shown else f"{text[:shown]}..."


def moment(time_ms: int) -> str | None:
    """Return the text of a time: ISO 8601, UTC, to the millisecond; None if there is none."""
    if time_ms <= 0:
        return None
    return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
