"""Tiers of the ring: fine steps for hours, coarse steps for days; and means of a fine tier for a coarse one. Pure."""

import math
from array import array
from collections.abc import Iterable
from typing import Final

import msgspec

UNKNOWN: Final = math.nan


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """A ring of *slots* values, one each *step_s* seconds."""

    number: int
    step_s: int
    slots: int

    @property
    def span_s(self) -> int:
        return self.step_s * self.slots

    def start(self, time_s: float) -> int:
        """Return when the step that contains *time_s* began."""
        return int(time_s) // self.step_s * self.step_s

    def slot(self, start_s: int) -> int:
        """Return the place of a step in the ring."""
        return start_s // self.step_s % self.slots


TIERS: Final = (
    Tier(number=0, step_s=10, slots=720),  # 2 hours
    Tier(number=1, step_s=60, slots=1_440),  # a day
    Tier(number=2, step_s=600, slots=2_016),  # 14 days
)
SPANS: Final = {"2h": TIERS[0], "1d": TIERS[1], "14d": TIERS[2]}


def packed(values: dict[int, float], size: int) -> bytes:
    """Return values by series number as the bytes of a row; the others are not known."""
    row = array("f", [UNKNOWN]) * size
    for number, value in values.items():
        row[number] = value
    return row.tobytes()


def unpacked(data: bytes) -> "array[float]":
    """Return the values of a row."""
    row = array("f")
    row.frombytes(data[: len(data) // 4 * 4])
    return row


def means(rows: Iterable[bytes], size: int) -> bytes:
    """Return the mean of each series over some rows; unknown values do not count, and all unknown stay unknown."""
    sums, counts = array("d", [0.0]) * size, array("i", [0]) * size
    for data in rows:
        for number, value in enumerate(unpacked(data)):
            if value == value and number < size:  # not NaN
                sums[number] += value
                counts[number] += 1
    return array(
        "f", [total / count if count else UNKNOWN for total, count in zip(sums, counts, strict=True)]
    ).tobytes()
