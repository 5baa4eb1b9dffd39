"""Flow limit and transfer rate of a sender. Pure: the caller passes moments in seconds of one clock.

Agrees with FlowMonitor (5.x) in its units. FlowMonitor counts whole seconds, so its limit comes in bursts.
"""

from typing import Final

_BURST_SECONDS: Final = 0.1
_WINDOW_SECONDS: Final = 1.0


class TokenBucket:
    """Token bucket of *bytes_per_second* on average (maxHaTransferByteInSecond)."""

    def __init__(self, bytes_per_second: int, now: float) -> None:
        self._rate = bytes_per_second
        self._full = self._left = max(bytes_per_second * _BURST_SECONDS, 1.0)
        self._filled_at = now

    def allowance(self, now: float) -> int:
        """Return the number of bytes that may be sent at *now*."""
        self._left = min(self._full, self._left + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return int(self._left)

    def take(self, size: int) -> None:
        """Count *size* bytes as sent."""
        self._left -= size

    def seconds_until(self, size: int) -> float:
        """Return the wait, from the last `allowance` on, until *size* bytes may be sent at once."""
        return max(min(size, self._full) - self._left, 0.0) / self._rate


class TransferRate:
    """Bytes a second, over the last whole window of a second."""

    def __init__(self, now: float) -> None:
        self._window_at, self._total_at_window = now, 0
        self._rate = 0.0

    def note(self, total_bytes: int, now: float) -> None:
        """Record that *total_bytes* have been transferred since the beginning."""
        elapsed = now - self._window_at
        if elapsed >= _WINDOW_SECONDS:
            self._rate = (total_bytes - self._total_at_window) / elapsed
            self._window_at, self._total_at_window = now, total_bytes

    def bytes_per_second(self, total_bytes: int, now: float) -> int:
        """Return the rate as of *now*."""
        self.note(total_bytes, now)
        return int(self._rate)
