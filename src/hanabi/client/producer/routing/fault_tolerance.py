"""Which brokers to avoid for a while, because they were slow or failed. Decides; does no I/O; the clock is passed in.

Agrees with Java's MQFaultStrategy and LatencyFaultToleranceImpl (4.9). Off unless `latency_fault_tolerance` is set.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

# An answer that took so long (seconds) makes us avoid its broker for so long.
AVOID_SECONDS: Final = (
    (15.0, 600.0),
    (3.0, 180.0),
    (2.0, 120.0),
    (1.0, 60.0),
    (0.55, 30.0),
)
_FAILED_COUNTS_AS_SECONDS: Final = 30.0


def avoid_seconds(latency: float) -> float:
    """For how long a broker is avoided that took *latency* seconds to answer."""
    return next((avoid for at_least, avoid in AVOID_SECONDS if latency >= at_least), 0.0)


class _Past(NamedTuple):
    latency: float
    usable_from: float


class FaultTolerance:
    """Remembers how each broker did the last time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pasts: dict[str, _Past] = {}

    def record(self, broker_name: str, latency: float, *, failed: bool) -> None:
        """*broker_name* answered, or failed, after *latency* seconds."""
        avoid = avoid_seconds(_FAILED_COUNTS_AS_SECONDS if failed else latency)
        self._pasts[broker_name] = _Past(latency, self._now() + avoid)

    def is_usable(self, broker_name: str) -> bool:
        past = self._pasts.get(broker_name)
        return past is None or past.usable_from <= self._now()

    def least_bad(self, broker_names: Collection[str]) -> str:
        """Of brokers that are all to be avoided, the one to ask nevertheless."""
        return min(broker_names, key=self._badness)

    def _badness(self, broker_name: str) -> tuple[bool, float, float]:
        past = self._pasts.get(broker_name, _Past(0.0, 0.0))
        return (past.usable_from > self._now(), past.latency, past.usable_from)
