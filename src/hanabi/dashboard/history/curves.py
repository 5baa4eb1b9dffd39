"""Curves of a page: which series they show, their values as JSON for the browser, and as a table without it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.history.tiers import SPANS

DEFAULT_SPAN: Final = "2h"
TABLE_ROWS: Final = 12


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a curve. `label` is an English text that pages translate."""

    series: str
    label: str


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of one or more lines with the same unit: count, rate, seconds or ratio."""

    title: str
    unit: str
    lines: list[Line]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table: the last known value of each line in a part of the time."""

    start_s: int
    values: list[float | None]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A curve with its values."""

    curve: Curve
    span: str
    times: list[int]
    values: list[list[float | None]]

    @property
    def known(self) -> bool:
        return any(value is not None for line in self.values for value in line)

    @property
    def last(self) -> list[float | None]:
        return [next((value for value in reversed(line) if value is not None), None) for line in self.values]

    @property
    def most(self) -> list[float | None]:
        return [max((value for value in line if value is not None), default=None) for line in self.values]

    @property
    def table(self) -> list[Row]:
        """Return the curve in twelve rows, for browsers without JavaScript and for screen readers."""
        size = max(len(self.times) // TABLE_ROWS, 1)
        parts = range(0, len(self.times), size)
        return [
            Row(start_s=self.times[at], values=[_mean(line[at : at + size]) for line in self.values]) for at in parts
        ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


async def shown(ring: Ring, curve: Curve, span: str, now_s: float) -> Shown:
    """Read a curve."""
    tier = SPANS.get(span, SPANS[DEFAULT_SPAN])
    times, values = await ring.read([line.series for line in curve.lines], tier, now_s)
    return Shown(curve=curve, span=span if span in SPANS else DEFAULT_SPAN, times=times, values=values)
