"""Times in forms and URLs: UTC, or a number of minutes, hours or days ago. Pure."""

import re
from datetime import UTC, datetime
from typing import Final

from hanabi.errors import InvalidParameter

_AGO: Final = re.compile(r"(\d{1,6})\s*(m|min|h|d)")
_UNIT_MS: Final = {"m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, now_ms: int) -> int | None:
    """Return a time in milliseconds: "2026-11-16 10:30", "30m", "6h" or "2d" ago, or milliseconds; None for nothing."""
    if not text:
        return None
    if found := _AGO.fullmatch(text):
        return max(now_ms - int(found[1]) * _UNIT_MS[found[2]], 0)
    if text.isascii() and text.isdigit() and len(text) <= 16:
        return int(text)
    try:
        found_time = datetime.fromisoformat(text)
        return int((found_time if found_time.tzinfo else found_time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidParameter(f"{text!r} is not a time: write 2026-11-16 10:30 (UTC), 30m, 6h or 2d") from None
