"""In-memory entries of the near future, by the tenth of a second in which they are due for a look.

An entry is 32 bytes, not an object: a second may have a hundred thousand of them. A slot keeps the order of arrival,
except that cancellations go first. Does not know the clock, files or messages.
"""

import heapq

from hanabi.broker.delay.timer_files import ENTRY, SLOT_MS, Entry


class Slots:
    """Entries by slot: add to any slot, consume from the first on, one at a time."""

    def __init__(self) -> None:
        self._waiting: dict[int, bytearray] = {}
        self._heap: list[int] = []
        self._cancelling: set[int] = set()  # slots with a cancellation in them
        self._current, self._at = bytearray(), 0

    def __len__(self) -> int:
        """Return the number of slots with entries, without the current one."""
        return len(self._waiting)

    @property
    def first(self) -> int | None:
        """The first slot after the current one."""
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
        """Return the next entry if its slot has come; the same one until it is `done`."""
        if self._at == len(self._current):
            if not self._heap or self._heap[0] * SLOT_MS > now_ms:
                return None
            self._take(heapq.heappop(self._heap))
        slot, queue_offset, log_offset, size, _ = ENTRY.unpack_from(self._current, self._at)
        return Entry(slot, queue_offset, log_offset, size)

    def done(self) -> None:
        """Advance behind the entry that `due` returned."""
        self._at += ENTRY.size

    def _take(self, slot: int) -> None:
        raw = self._waiting.pop(slot)
        if slot in self._cancelling:
            self._cancelling.discard(slot)
            pieces = [raw[at : at + ENTRY.size] for at in range(0, len(raw), ENTRY.size)]
            pieces.sort(key=lambda piece: ENTRY.unpack(piece)[3] > 0)
            raw = bytearray().join(pieces)
        self._current, self._at = raw, 0
