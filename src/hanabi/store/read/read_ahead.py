"""Reads of messages that came since the store was opened, with queue entries read for several pulls at a time."""

from typing import TYPE_CHECKING, Final

from hanabi.errors import StoreError
from hanabi.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.read.queue_reader import QueueReader

if TYPE_CHECKING:
    from hanabi.store.fast_path._reads import RecordRun

_ENTRIES_AHEAD: Final = 256
_QUEUES_MAX: Final = 2_000


class ReadAhead:
    """Reads the queues of one store. Entries never change, so those that were read ahead stay right."""

    def __init__(self, reader: QueueReader, queues: ConsumeQueues, run: "RecordRun") -> None:
        """*run* has the records of the last read."""
        self._reader, self._queues, self.run = reader, queues, run
        self._find_queue, self._fresh = queues.find, reader.fresh
        self._entries: dict[ConsumeQueue, tuple[int, bytes]] = {}  # the offset of the first, and all of them

    def find(self, topic: str, queue_id: int, offset: int, count: int) -> tuple[ConsumeQueue, int] | None:
        """Find at most *count* messages from *offset* on; return the queue, and the result of `QueueReader.fresh`.

        None if `QueueReader.get` must decide.
        """
        queue = self._find_queue(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        if queue.max_log_offset > self._reader.confirmed:
            return None
        count = min(count, self._reader.count_max, queue.max_offset - offset) if count > 1 else 1
        first, entries = self._entries.get(queue, (0, b""))
        start = (offset - first) * ENTRY_BYTES
        if start < 0 or start + count * ENTRY_BYTES > len(entries):
            start, entries = 0, self._read(queue, offset, max(count, _ENTRIES_AHEAD))
            if len(entries) < count * ENTRY_BYTES:
                return None
        behind = self._fresh(queue, entries, start, offset, count, self.run)
        return None if behind is None else (queue, behind)

    def has(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether the queue has a message at *offset*."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_log_offset > self._reader.confirmed:
            return queue is not None and offset < self._reader.max_offset(topic, queue_id)
        return queue.min_offset <= offset < queue.max_offset

    def _read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Read and keep entries; none if the system refuses: the handler meets the same error, and answers with it."""
        try:
            entries = queue.read(offset, count)
        except StoreError:
            return b""
        if len(self._entries) >= _QUEUES_MAX:  # some may have been deleted long ago
            self._entries.clear()
        self._entries[queue] = offset, entries
        return entries
