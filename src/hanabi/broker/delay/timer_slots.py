"""The entries of the near future, in memory, by the tenth of a second in which they are to be looked at.

An entry is its 32 bytes, no object: a second may have a hundred thousand of them. Within a slot they keep the order in
which they came, but for cancellations, which go first. Knows no clock, no files and no messages.
"""

import heapq

from hanabi.broker.delay.timer_files import ENTRY, SLOT_MS, Entry


class Slots:
    """Add entries to any slot; work through them from the first on, one at a time."""

    def __init__(self) -> None:
        self._waiting: dict[int, bytearray] = {}
        self._heap: list[int] = []
        self._cancelling: set[int] = set()  # slots with a cancellation in them
        self._current, self._at = bytearray(), 0

    def __len__(self) -> int:
        """Return how many slots have entries, without the one that is being worked on."""
        return len(self._waiting)

    @property
    def first(self) -> int | None:
        """The first slot that nobody works on yet."""
        return self._heap[0] if self._heap else None

    def add(self, slot: int, entry: bytes, *, cancels: bool) -> None:
        waiting = self._waiting.get(slot)
        if waiting is None:
            waiting = self._waiting[slot] = bytearray()
            heapq.heappush(self._heap, slot)
        waiting += entry
        if cancels:
            self._cancelling.add(slot)

    def due(self, now_ms: int) -> Entry | None:
        """Return the entry that is next, if its slot has come; the same again until it is `done`."""
        if self._at == len(self._current):
            if not self._heap or self._heap[0] * SLOT_MS > now_ms:
                return None
            self._take(heapq.heappop(self._heap))
        slot, queue_offset, log_offset, size, _ = ENTRY.unpack_from(self._current, self._at)
        return Entry(slot, queue_offset, log_offset, size)

    def done(self) -> None:
        """Go on behind the entry that `due` told."""
        self._at += ENTRY.size

    def _take(self, slot: int) -> None:
        raw = self._waiting.pop(slot)
        if slot in self._cancelling:
            self._cancelling.discard(slot)
            pieces = [raw[at : at + ENTRY.size] for at in range(0, len(raw), ENTRY.size)]
            pieces.sort(key=lambda piece: ENTRY.unpack(piece)[3] > 0)
            raw = bytearray().join(pieces)
        self._current, self._at = raw, 0
