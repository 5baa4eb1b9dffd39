"""Limits of one HTTP/2 connection, and the allowance for frames that cost us more than the peer."""

from typing import Final

import msgspec

_A_SECOND: Final = 100


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one peer may ask for. Above a limit a stream is refused, or the connection is closed."""

    streams_max: int = 2_000  # open at the same time
    header_list_bytes_max: int = 32 * 1024  # of one request, by the RFC's count
    header_block_bytes_max: int = 32 * 1024  # as they travel
    continuations_max: int = 8  # of one block
    stream_window_bytes: int = 1024 * 1024
    connection_window_bytes: int = 8 * 1024 * 1024
    resets: int = 1_000  # streams that the peer cancels, or that we refuse: at once, and refilled by 100 a second
    idle_frames: int = 1_000  # frames that carry nothing (pings, settings, priorities, empty data): likewise


class Allowance:
    """A number of events that refills with time."""

    def __init__(self, most: int) -> None:
        self._most, self._left, self._at = most, float(most), 0.0

    def spend(self, now: float) -> bool:
        """Take one; False if there is none left."""
        if self._left < 1:
            self._left = min(self._most, self._left + (now - self._at) * _A_SECOND)
            self._at = now
            if self._left < 1:
                return False
        elif self._left == self._most:
            self._at = now
        self._left -= 1
        return True
