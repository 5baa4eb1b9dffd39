"""A thread that prepares disk blocks, pages in memory and the next log file before messages need them.

    blocks    of the log and of the key index, a step at a time: see `blocks`
    pages     the first write to a page of a mapped file waits until the kernel has found memory for it and cleared it:
              a quarter of what a send costs, and much more where memory is short. Only where something is written at
              all: a broker that idles has no use for the memory, and neither has a disk for the zeros, as what the
              kernel writes back meanwhile is written twice.
    a file    once the active one is half full: early enough for the thread, late enough for a log that hardly grows

The writer does not depend on it: it makes missing parts itself, and waits for them. A failure here is logged and
retried a second later, long before the writer needs the part.
"""

from typing import Final

from hanabi.store.files.segment import Segment
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.log import Log
from hanabi.store.upkeep.flush import Repeater

AHEAD_BYTES: Final = 8 << 20  # of pages
_WAIT_SECONDS: Final = 3600.0  # it is woken when there is something to do
_NEVER: Final = 1 << 62


class Preallocation:
    """Invariant: a writer that has written beyond `due_at`, an offset of the log, calls `wake`."""

    def __init__(self, log: Log, index: KeyIndex | None = None) -> None:
        self._log, self._index = log, index
        self.makes_pages = True  # False: the writer does not write through the map
        self._pages_made_to = 0
        self._pages_due_at = log.end_offset + AHEAD_BYTES // 2
        self.due_at = 0
        self._thread = Repeater("hanabi-work-ahead", self.step)
        self.wake = self._thread.wake

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def step(self) -> float:
        """Allocate what is due; return the seconds until the next step, unless it is woken."""
        segment = self._log.active
        if segment is not None:
            written = segment.written
            self.due_at = next_due(segment.base_offset, written, segment.size)
            self._make_pages(segment, written)  # first: the writer needs them next, and blocks may take long
            segment.allocate_ahead()
            if self._index is not None:
                self._index.allocate_ahead()
            if written > segment.size // 2:
                self._log.prepare_next()
        return _WAIT_SECONDS

    def _make_pages(self, segment: Segment, written: int) -> None:
        base = segment.base_offset
        if base + written <= self._pages_due_at or not self.makes_pages:
            return
        start = max(written, self._pages_made_to - base)
        end = min(written + AHEAD_BYTES, segment.allocated)
        self._pages_made_to = base + end
        self._pages_due_at = self._pages_made_to - (AHEAD_BYTES // 2 if end < segment.size else 0)
        if end > start and not segment.populate(start, end):
            self._pages_due_at = _NEVER


def next_due(base: int, written: int, size: int) -> int:
    """Return the log offset beyond which there is something to do again: a few megabytes on, in the middle of the
    file, and in the next one."""
    middle = size // 2
    ends = (written + AHEAD_BYTES // 2, size, middle if written <= middle else size)
    return base + min(ends)
