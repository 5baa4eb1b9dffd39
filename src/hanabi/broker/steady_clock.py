"""Time of day in milliseconds, without short-lived leaps ahead.

A clock that is set 100 days ahead for seconds (a wrong time server, a machine that boots with a wrong battery clock)
would make the broker deliver messages due in 100 days, delete all messages but the newest, and stamp new ones with
times that all later ones must follow. So a leap of more than an hour counts only after a minute; until then the time
follows the monotonic clock. For an hour after a leap `is_settled` is false: nothing is deleted by age. A step back
counts at once.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from hanabi.clock import monotonic_ms

LEAP_MS: Final = 3_600_000
HELD_MS: Final = 60_000
UNSETTLED_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_MS_NS: Final = 1_000_000
_LEAP_NS: Final = LEAP_MS * _MS_NS

logger = logging.getLogger(__name__)


class SteadyClock:
    """Callable clock. Any thread may call it; it must be called at least every few seconds."""

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = monotonic_ms) -> None:
        self._wall_ns, self._monotonic = wall_ns, monotonic
        self._leap_at_ns = 0  # times from here on are leaps: an hour after the last returned time
        self._held_leap_at_ns = 0  # `_leap_at_ns` at the start of a leap: another value means that it is over
        self._held_since_ms = 0  # by the monotonic clock
        self._unsettled_until_ms = 0  # by the monotonic clock
        self._take(wall_ns(), monotonic())

    def __call__(self) -> int:
        now_ns = self._wall_ns()
        if now_ns < self._leap_at_ns:
            self._leap_at_ns = now_ns + _LEAP_NS
            return now_ns // _MS_NS
        return self._leapt(now_ns)

    @property
    def is_settled(self) -> bool:
        """Return whether the last leap is long enough ago for deletion by age."""
        return self._monotonic() >= self._unsettled_until_ms

    def unsettle(self, reason: str) -> None:
        """Suspend deletion by age for the next hour."""
        self._unsettled_until_ms = self._monotonic() + UNSETTLED_MS
        logger.warning("%s: no message is deleted for its age in the next %d minutes", reason, UNSETTLED_MS // 60_000)

    def _leapt(self, now_ns: int) -> int:
        now_ms, before_ms, monotonic_ms = now_ns // _MS_NS, (self._leap_at_ns - _LEAP_NS) // _MS_NS, self._monotonic()
        if now_ms < monotonic_ms + self._ahead_ms + LEAP_MS:  # it was not called for an hour
            return self._take(now_ns, monotonic_ms)
        if self._held_leap_at_ns != self._leap_at_ns:
            self._held_leap_at_ns, self._held_since_ms = self._leap_at_ns, monotonic_ms
            leap = f"the clock went ahead by {_span(now_ms - before_ms)}"
            self.unsettle(f"{leap}; the new time counts if it stays for {HELD_MS // 1000} s")
        held_ms = monotonic_ms - self._held_since_ms
        if held_ms < HELD_MS:
            return before_ms + held_ms
        logger.warning("the clock stays %s ahead: its time counts from now on", _span(now_ms - before_ms))
        return self._take(now_ns, monotonic_ms)

    def _take(self, now_ns: int, monotonic_ms: int) -> int:
        """Accept the time of day."""
        now_ms = now_ns // _MS_NS
        self._leap_at_ns = now_ns + _LEAP_NS
        self._ahead_ms = now_ms - monotonic_ms  # of the monotonic clock
        return now_ms


def _span(ms: int) -> str:
    return f"{ms // _DAY_MS} days" if ms >= 2 * _DAY_MS else f"{ms / LEAP_MS:.1f} hours"
