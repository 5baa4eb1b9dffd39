"""Reads of messages that came since the store was opened, with queue entries read for several pulls at a time."""

from typing import TYPE_CHECKING, Final

from hanabi.errors import StoreError
from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.read.queue_reader import GetResult, QueueReader

if TYPE_CHECKING:
    from hanabi.store.fast_path._reads import RecordRun

_ENTRIES_AHEAD: Final = 256
_QUEUES_MAX: Final = 2_000


class _Entries:
    """Entries of a queue: those of `first` and the next ones."""

    __slots__ = ("data", "first")

    def __init__(self) -> None:
        self.data, self.first = b"", 0


class ReadAhead:
    """Reads the queues of one store. Entries never change, so those that were read ahead stay right."""

    def __init__(self, reader: QueueReader, queues: ConsumeQueues) -> None:
        self._reader, self._queues = reader, queues
        self._known: dict[ConsumeQueue, _Entries] = {}

    def has(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether the queue has a message at *offset*."""
        queue = self._queues.find(topic, queue_id)
        return queue is not None and queue.min_offset <= offset < queue.max_offset

    def find(self, topic: str, queue_id: int, offset: int, count: int) -> tuple[GetResult, "RecordRun"] | None:
        """Find at most *count* messages from *offset* on, as `QueueReader.fresh` does; None if `get` must decide."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        count = min(max(count, 1), self._reader.count_max, queue.max_offset - offset)
        known = self._known.get(queue) or self._new(queue)
        start = (offset - known.first) * ENTRY_BYTES
        if start < 0 or start + count * ENTRY_BYTES > len(known.data):
            try:
                known.data, known.first, start = queue.read(offset, max(count, _ENTRIES_AHEAD)), offset, 0
            except StoreError:
                return None  # the handler meets the same error, and answers with it
            if len(known.data) < count * ENTRY_BYTES:
                return None
        return self._reader.fresh(queue, known.data, start, offset, count)

    def _new(self, queue: ConsumeQueue) -> _Entries:
        if len(self._known) >= _QUEUES_MAX:  # some may have been deleted long ago
            self._known.clear()
        entries = self._known[queue] = _Entries()
        return entries
