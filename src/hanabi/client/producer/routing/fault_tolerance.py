"""Avoidance of brokers that were slow or failed. Makes decisions without I/O; the clock is passed in.

Agrees with Java's MQFaultStrategy and LatencyFaultToleranceImpl (4.9). Off unless `latency_fault_tolerance` is set.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

# Latency of a response (seconds) -> how long to avoid the broker (seconds).
AVOID_SECONDS: Final = (
    (15.0, 600.0),
    (3.0, 180.0),
    (2.0, 120.0),
    (1.0, 60.0),
    (0.55, 30.0),
)
_FAILED_COUNTS_AS_SECONDS: Final = 30.0


def avoid_seconds(latency: float) -> float:
    """Return how long to avoid a broker that took *latency* seconds to respond."""
    return next((avoid for at_least, avoid in AVOID_SECONDS if latency >= at_least), 0.0)


class _Past(NamedTuple):
    latency: float
    usable_from: float


class FaultTolerance:
    """Last latency of each broker."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pasts: dict[str, _Past] = {}

    def record(self, broker_name: str, latency: float, *, failed: bool) -> None:
        """Record that *broker_name* responded or failed after *latency* seconds."""
        avoid = avoid_seconds(_FAILED_COUNTS_AS_SECONDS if failed else latency)
        self._pasts[broker_name] = _Past(latency, self._now() + avoid)

    def is_usable(self, broker_name: str) -> bool:
        past = self._pasts.get(broker_name)
        return past is None or past.usable_from <= self._now()

    def least_bad(self, broker_names: Collection[str]) -> str:
        """Choose the best of brokers that should all be avoided."""
        return min(broker_names, key=self._badness)

    def _badness(self, broker_name: str) -> tuple[bool, float, float]:
        past = self._pasts.get(broker_name, _Past(0.0, 0.0))
        return (past.usable_from > self._now(), past.latency, past.usable_from)
