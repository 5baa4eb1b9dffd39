"""The log's next pages, made before they are written.

The first write to a page of a mapped file waits until the kernel has found memory for it and cleared it: a quarter of
what a send costs, and much more where memory is short. A thread does that ahead of the end of the log. Only where
something is written at all: a broker that idles has no use for the memory, and neither has a disk for the zeros, as
what the kernel writes back meanwhile is written twice.
"""

from typing import Final

from hanabi.store.flush import Repeater
from hanabi.store.log import Log
from hanabi.store.mapped_pages import populate

AHEAD_BYTES: Final = 8 << 20
_WAIT_SECONDS: Final = 3600.0  # it is woken when there is something to do
_NEVER: Final = 1 << 62


class PagesAhead:
    """Invariant: who has written beyond `due_at`, an offset of the log, calls `wake`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._made_to = 0
        self.due_at = log.end_offset + AHEAD_BYTES // 2
        self._thread = Repeater("hanabi-pages-ahead", self.step)
        self.wake = self._thread.wake

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def step(self) -> float:
        """Make what is due; return the seconds until the next step, unless it is woken."""
        segment = self._log.active
        if segment is not None and segment.base_offset + segment.written > self.due_at:
            base = segment.base_offset
            start = max(segment.written, self._made_to - base)
            end = min(segment.written + AHEAD_BYTES, segment.size)
            self._made_to = base + end
            self.due_at = self._made_to - (AHEAD_BYTES // 2 if end < segment.size else 0)
            if end > start and not populate(segment._map, start, end):
                self.due_at = _NEVER
        return _WAIT_SECONDS
