"""The two clocks of this machine, in milliseconds: the time of day, and one that only goes forward."""

import time


def wall_ms() -> int:
    """Return the time of day, which an operator may set."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return a time for deadlines and silence: setting the time of day does not move it."""
    return time.monotonic_ns() // 1_000_000
