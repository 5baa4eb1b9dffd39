"""A trace as a timeline: rows of bars with places and lengths. Pure."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

WIDTH: Final = 600.0
LEAST: Final = 3.0  # a bar that is shorter cannot be seen


class Event(Protocol):
    """The part of a trace's event that a bar needs."""

    @property
    def event(self) -> str: ...

    @property
    def time(self) -> int: ...

    @property
    def group(self) -> str | None: ...

    @property
    def cost_ms(self) -> int | None: ...

    @property
    def success(self) -> bool | None: ...


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One event: from `x`, `width` long, in a line of its own."""

    label: str
    x: float
    width: float
    failed: bool
    after_ms: int
    cost_ms: int | None


def bars(events: Sequence[Event]) -> list[Bar]:
    """Return the bars of a trace, in the order of time."""
    if not events:
        return []
    first = min(event.time for event in events)
    whole = max(max(event.time - first + (event.cost_ms or 0) for event in events), 1)
    return [
        Bar(
            label=f"{event.event} {event.group or ''}".strip(),
            x=round((event.time - first) / whole * (WIDTH - LEAST), 1),
            width=round(max((event.cost_ms or 0) / whole * WIDTH, LEAST), 1),
            failed=event.success is False,
            after_ms=event.time - first,
            cost_ms=event.cost_ms,
        )
        for event in sorted(events, key=lambda each: each.time)
    ]
