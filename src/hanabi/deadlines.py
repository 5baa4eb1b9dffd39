"""Deadlines of many items with one timer, which is set to the earliest.

Deadlines are rounded up to a few milliseconds, so that items of one time share a bucket: adding and removing an item
are one dictionary operation each, and nothing polls.
"""

import asyncio
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

STEP_MS: Final = 20
_TIMER_SECONDS_MAX: Final = 60.0
_STALE_MAX: Final = 1_000

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Items by their deadline. *on_due* gets the items whose time has come, in the loop's thread."""

    def __init__(self, now_ms: Callable[[], int], on_due: Callable[[list[T]], None], *, step_ms: int = STEP_MS) -> None:
        self._now_ms, self._on_due, self._step_ms = now_ms, on_due, step_ms
        self._buckets: dict[int, dict[T, None]] = {}
        self._keys: list[int] = []  # a heap of the keys of `_buckets`, including some stale ones
        self._timer: asyncio.TimerHandle | None = None
        self._timer_key = 0
        self._is_started = False

    def __iter__(self) -> Iterator[T]:
        """Iterate over all items. A copy: they may be removed meanwhile."""
        return iter([item for bucket in self._buckets.values() for item in bucket])

    def add(self, item: T, due_ms: int, step_ms: int = 0) -> int:
        """Add *item*, which is due at *due_ms*, rounded up to a multiple of *step_ms*; return the key for `discard`."""
        step_ms = step_ms or self._step_ms
        key = -(-due_ms // step_ms) * step_ms
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._new_bucket(key)
        bucket[item] = None
        return key

    def discard(self, item: T, key: int) -> None:
        """Remove *item*, if it is still there."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.pop(item, None)
            if not bucket:
                del self._buckets[key]

    def start(self) -> None:
        """Set the timer from now on; the loop runs."""
        self._is_started = True
        self.look_again()

    def stop(self) -> None:
        """Call nothing any more."""
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look_again(self) -> None:
        """Set the timer anew: the clock was set, or the items were added before the start."""
        if self._is_started and self._keys:
            self._set_timer(self._keys[0])

    def take_due(self) -> list[T]:
        """Remove and return the items whose deadline has passed."""
        now_ms, keys, buckets = self._now_ms(), self._keys, self._buckets
        due: list[T] = []
        while keys and (keys[0] <= now_ms or keys[0] not in buckets):
            due.extend(buckets.pop(heappop(keys), ()))
        return due

    def _new_bucket(self, key: int) -> dict[T, None]:
        bucket = self._buckets[key] = {}
        heappush(self._keys, key)
        if len(self._keys) > 2 * len(self._buckets) + _STALE_MAX:
            self._keys = list(self._buckets)
            heapify(self._keys)
        if self._is_started and (self._timer is None or key < self._timer_key):
            self._set_timer(key)
        return bucket

    def _set_timer(self, key: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = max(0.0, (key - self._now_ms()) / 1000)
        self._timer = asyncio.get_running_loop().call_later(min(seconds, _TIMER_SECONDS_MAX), self._time_has_come)
        self._timer_key = key

    def _time_has_come(self) -> None:
        self._timer = None
        try:
            due = self.take_due()
            if due:
                self._on_due(due)
        finally:
            if self._keys and self._is_started and self._timer is None:
                self._set_timer(self._keys[0])
