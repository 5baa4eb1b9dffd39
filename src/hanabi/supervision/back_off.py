"""Pauses between the starts of a process that ends again and again. Pure."""

from typing import Final

FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0  # a process that lived so long is not one that fails at its start


def failures_after(failures: int, lived_seconds: float) -> int:
    """Return the count of failures in a row, after a further life of *lived_seconds*."""
    return 1 if lived_seconds >= STEADY_SECONDS else failures + 1


def pause_seconds(failures: int) -> float:
    """Return the pause before the next start: twice as long after each failure in a row, and bounded."""
    doublings = min(max(failures - 1, 0), 16)  # a larger power would only be cut off
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0**doublings)
