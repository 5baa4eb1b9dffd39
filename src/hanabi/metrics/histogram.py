"""A histogram of durations. Adding one is a search in a short tuple and two additions."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts by class; `counts` has one class more than there are *bounds*, for values above all of them."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.seconds = 0.0  # of all together

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds
