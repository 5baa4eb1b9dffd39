"""Limits for repeated log lines: a peer that returns every few seconds is worth one line a minute. Pure."""

from collections.abc import Hashable
from typing import Final

_REPEAT_SECONDS: Final = 60.0
_KEYS_MAX: Final = 1_000


class RepeatedWarnings:
    """Times of the last log line of each complaint, for a bounded number of them."""

    def __init__(self) -> None:
        self._logged_at: dict[Hashable, float] = {}
        self._held_back: dict[Hashable, int] = {}

    def is_due(self, key: Hashable, now: float) -> bool:
        """Return whether to log a complaint now; if not, count it."""
        if now - self._logged_at.get(key, float("-inf")) < _REPEAT_SECONDS:
            self._held_back[key] = self._held_back.get(key, 0) + 1
            return False
        if len(self._logged_at) >= _KEYS_MAX:
            oldest = min(self._logged_at, key=self._logged_at.__getitem__)
            del self._logged_at[oldest]
            self._held_back.pop(oldest, None)
        self._logged_at[key] = now
        return True

    def held_back(self, key: Hashable) -> int:
        """Return how often it was suppressed since its last log line, and reset the count."""
        return self._held_back.pop(key, 0)

    def forget(self, key: Hashable) -> None:
        """Log the next complaint at once: the fault was gone in between."""
        self._logged_at.pop(key, None)
        self._held_back.pop(key, None)
