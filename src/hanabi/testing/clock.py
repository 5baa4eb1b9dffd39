"""Clocks that a test controls; call one for the time.

ManualClock    stands still until a test sets or advances it MovableClock   the machine's time of day, plus the time
that a test has advanced it by
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

START_MS: Final = 1_700_000_000_000


class ManualClock:
    """Milliseconds that pass only when a test says so. `ms` may be set."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def seconds(self) -> float:
        """Return the same time in seconds, for code that counts in them."""
        return self.ms / 1_000


class MovableClock:
    """The time of day in milliseconds, which a test can advance. `on_move` is called after each step."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self.on_move: Callable[[], None] = lambda: None

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the clock ahead: timers up to then are due now."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if step < timedelta(0):
            raise ValueError(f"a clock that is advanced by {step} would go back")
        self._ahead_ms += step // timedelta(milliseconds=1)
        self.on_move()
