"""Resources that a process holds, and whether they grow: the part of a soak that decides. Pure, but for `read`.

Figures are read when everything that comes and goes has gone, so they should be the same each time. They are not quite
(allocators keep what they have, a listener's thread may be about to start): each has a slack, and a growth counts only
when the last readings lie above those after the warm-up by more than that.
"""

import asyncio
import gc
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

WARM_UP: Final = 0.25  # of all readings: caches fill, allocators find their size
COMPARED: Final = 0.25  # so many of the others, from both ends

_DESCRIPTORS: Final = Path("/proc/self/fd")


class Vitals(NamedTuple):
    """One reading."""

    resident_kib: int
    objects: int  # that the collector knows of
    descriptors: int
    tasks: int  # of this loop
    threads: int


# How much more may be held at the end than after the warm-up. Soon after a kill many tasks try again.
SLACK: Final = Vitals(resident_kib=8 * 1024, objects=1_500, descriptors=4, tasks=16, threads=3)


def read() -> Vitals:
    """Return what this process holds now; to be called in the loop."""
    gc.collect()
    descriptors = len(list(_DESCRIPTORS.iterdir())) if _DESCRIPTORS.exists() else psutil.Process().num_fds()
    return Vitals(
        resident_kib=psutil.Process().memory_info().rss // 1024,
        objects=len(gc.get_objects()),
        descriptors=descriptors,
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
    )


def ends(readings: Sequence[Vitals]) -> tuple[Vitals, Vitals]:
    """Return what was held after the warm-up, and at the end: medians of a few readings each."""
    warm = readings[int(len(readings) * WARM_UP) :]
    count = max(1, int(len(warm) * COMPARED))
    return _middle(warm[:count]), _middle(warm[-count:])


def growth(readings: Sequence[Vitals], slack: Vitals = SLACK) -> list[str]:
    """Return what has grown, one sentence each; none is good."""
    before, after = ends(readings)
    return [
        f"{name} grew from {first} to {last}, allowed are {allowed} more"
        for name, first, last, allowed in zip(Vitals._fields, before, after, slack, strict=True)
        if last - first > allowed
    ]


def _middle(readings: Sequence[Vitals]) -> Vitals:
    return Vitals(*(int(median(column)) for column in zip(*readings, strict=True)))
