"""Times by the million in a few kilobytes: counted in buckets, each at most 0.8 % wide. Pure.

Times below 256 us have a bucket each; above, 128 buckets share every doubling, as in HdrHistogram. The largest time and
the sum are exact.
"""

from typing import Final

_EXACT_BITS: Final = 8
_HALF: Final = 1 << (_EXACT_BITS - 1)


def bucket_of(us: int) -> int:
    """Return which bucket counts *us*; it grows with *us*."""
    shift = max(us.bit_length() - _EXACT_BITS, 0)
    return (shift * _HALF) + (us >> shift)


def largest_in(bucket: int) -> int:
    """Return the largest time that *bucket* counts."""
    if bucket < 2 * _HALF:
        return bucket
    shift = bucket // _HALF - 1
    return ((bucket % _HALF + _HALF + 1) << shift) - 1


class Histogram:
    """Counts of observed times, in microseconds."""

    def __init__(self) -> None:
        self.count = self.sum_us = self.max_us = 0
        self._counts: dict[int, int] = {}

    def add(self, us: int) -> None:
        us = max(us, 0)  # clocks of two machines: what arrives may seem not to be sent yet
        bucket = bucket_of(us)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.count += 1
        self.sum_us += us
        self.max_us = max(self.max_us, us)

    def merge(self, other: "Histogram") -> None:
        """Count what *other* has counted, too."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.count += other.count
        self.sum_us += other.sum_us
        self.max_us = max(self.max_us, other.max_us)

    def percentile(self, percent: float) -> int:
        """Return the time that *percent* of those counted do not exceed; 0 if there is none."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(largest_in(bucket), self.max_us)
        return 0
