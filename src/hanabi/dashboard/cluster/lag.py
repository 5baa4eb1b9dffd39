"""Lag of a group as time, its time to drain, and skew of queues. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hanabi.admin.groups import QueueProgress

DRAIN_SECONDS_MIN: Final = 5.0  # observations closer together say nothing about a rate
SKEW_FACTOR: Final = 2.0  # a queue with twice the mean, or less than half of it, is uneven
SKEW_MESSAGES_MIN: Final = 100  # of the mean: small queues are uneven by chance


class Observation(NamedTuple):
    """Lag of a group at a moment."""

    at_ms: int
    lag: int


class Drain(NamedTuple):
    """Time until the lag is gone: `seconds`, or never, or not known."""

    seconds: float | None
    never: bool = False


def behind_ms(queues: Iterable[QueueProgress], now_ms: int) -> int | None:
    """Return how old the oldest unconsumed message is at most: 0 without lag, None if no broker knows.

    A broker tells the store time of the last consumed message of a queue, so the next one is younger than that.
    """
    waiting = [queue for queue in queues if queue.lag > 0]
    if not waiting:
        return 0
    known = [queue.last_consumed for queue in waiting if queue.last_consumed > 0]
    return max(now_ms - min(known), 0) if known else None


def worst_queue(queues: Iterable[QueueProgress]) -> QueueProgress | None:
    """Return the queue with the largest lag, if there is any lag."""
    worst = max(queues, key=lambda queue: queue.lag, default=None)
    return worst if worst is not None and worst.lag > 0 else None


def drain(observations: Sequence[Observation]) -> Drain:
    """Return how long the lag lasts if it goes on to fall as it did between the first and the last observation."""
    if not observations:
        return Drain(None)
    first, last = observations[0], observations[-1]
    if last.lag <= 0:
        return Drain(0.0)
    seconds = (last.at_ms - first.at_ms) / 1000
    if seconds < DRAIN_SECONDS_MIN:
        return Drain(None)
    rate = (first.lag - last.lag) / seconds
    return Drain(last.lag / rate) if rate > 0 else Drain(None, never=True)


def uneven(counts: Sequence[int]) -> list[bool]:
    """Return which of these queues have much more or much less than the others."""
    mean = sum(counts) / len(counts) if counts else 0.0
    if mean < SKEW_MESSAGES_MIN:
        return [False] * len(counts)
    return [count > mean * SKEW_FACTOR or count < mean / SKEW_FACTOR for count in counts]
