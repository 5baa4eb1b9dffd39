"""What a server holds, and whether it holds ever more. Pure, but for `read_vitals`.

Readings are compared where nobody attacks: what an attack needs while it lasts is its own. Tables that fill up to a
limit (topics, groups) grow until they are full, so the first readings do not count.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """One reading."""

    at: float  # of the monotonic clock
    tasks: int
    threads: int
    descriptors: int
    objects: int  # that the collector knows of
    memory_kib: int  # its own: files that are mapped do not count
    busy_s: float  # the most that the loop's thread worked without a break since the reading before, by its own clock


FIELDS: Final = ("tasks", "threads", "descriptors", "objects", "memory_kib")
# How much more there may be at the end than after the warm-up: so much, or this part of it.
SLACK: Final = {"tasks": 5, "threads": 4, "descriptors": 12, "objects": 20_000, "memory_kib": 24 * 1024}
SLACK_PART: Final = 0.15
WARM_UP: Final = 0.34
BUSY_S_MAX: Final = 1.0  # nobody else is served meanwhile


def read_vitals(busy_s: float) -> Vitals:
    """Of this process; to be called in its loop."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return Vitals(
        at=time.monotonic(),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        objects=len(gc.get_objects()),
        memory_kib=int(anonymous.split()[1]),
        busy_s=round(busy_s, 3),
    )


def quiet(readings: Sequence[Vitals], moments: Sequence[tuple[float, float]]) -> list[Vitals]:
    """Return one reading for each quiet time: the middle of those in it, field by field."""
    found: list[Vitals] = []
    for start, end in moments:
        inside = [each for each in readings if start <= each.at <= end]
        if inside:
            middles = {name: int(median(getattr(each, name) for each in inside)) for name in FIELDS}
            found.append(Vitals(at=inside[-1].at, **middles, busy_s=max(each.busy_s for each in inside)))
    return found


def hogged(readings: Sequence[Vitals]) -> list[str]:
    """Times when one piece of work kept all others waiting. Processor time: what a busy machine does is not blamed."""
    return [
        f"the loop worked {each.busy_s:.2f} s without a break, at {each.at:.0f}"
        for each in readings
        if each.busy_s > BUSY_S_MAX
    ]


def growth(readings: Sequence[Vitals]) -> list[str]:
    """What has grown, one sentence each: the median of the last third against that of the second."""
    warm = readings[int(len(readings) * WARM_UP) :]
    half = len(warm) // 2
    if half < 1:
        return []
    found: list[str] = []
    for name in FIELDS:
        before = median(getattr(each, name) for each in warm[:half])
        after = median(getattr(each, name) for each in warm[half:])
        allowed = max(SLACK[name], before * SLACK_PART)
        if after - before > allowed:
            found.append(f"{name} grew from {before:.0f} to {after:.0f}; {allowed:.0f} more would have been allowed")
    return found
