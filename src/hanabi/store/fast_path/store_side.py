"""The store's side of a run of appends: what the run needs when it begins, and what changes when it ends.

The run itself (`_appends.RunWriter`) only writes records behind `Segment.written`, where no reader looks.
"""

from collections.abc import Callable, Sequence
from mmap import mmap

from hanabi.store.files.segment import Segment
from hanabi.store.index.index_file import IndexFile
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Dispatched, Indexer
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.queues.consume_queue import ENTRY, ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.wire.message.record import BLANK_BYTES_MIN, record_properties
from hanabi.wire.system_names import SCHEDULE_TOPIC

# The mapped log file; in it the end of what is written, its base offset, the end of the room for records; the limit of
# a body; the store time; how many index entries fit (-1: there is no index).
RunStart = tuple[mmap, int, int, int, int, int, int]
QueueEntries = tuple[ConsumeQueue, bytes, int]  # its new entries, and where the last message ends in the log
StoredInQueue = tuple[str, int, int, int, int]  # topic, messages, their bytes, queue id, frames that brought them


class StoreSide:
    """Begins and ends the runs of one store."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        indexer: Indexer,
        takes_messages: Callable[[], bool],
        appended: Callable[[int], None],
    ) -> None:
        """*takes_messages* tells whether a put would not be refused; *appended* gets the new end of the log."""
        self._commit_log, self._log, self._queues, self._indexer = commit_log, commit_log.log, queues, indexer
        self._index, self._takes_messages, self._appended = index, takes_messages, appended
        self._segment: Segment | None = None
        self._index_file: IndexFile | None = None

    def begin(self) -> RunStart | None:
        """Return what a run needs to know; None if messages cannot be appended as usual."""
        segment, index = self._log.active, self._index
        if segment is None or self._log.failure is not None or not self._takes_messages():
            return None
        written, base_offset, keyed_max = segment.written, segment.base_offset, -1
        if index is not None:
            self._index_file = file = index.file_behind(base_offset + written)
            keyed_max = file.allocated_entries - file.next_entry if file is not None else 0
        self._segment = segment
        room = min(segment.size - BLANK_BYTES_MIN, segment.allocated)
        log = self._commit_log
        return segment.map, written, base_offset, room, log.message_bytes_max, log.next_store_ms(), keyed_max

    def queue(self, topic: str, queue_id: int, log_end: int) -> tuple[ConsumeQueue, int] | None:
        """Return the queue for messages from *log_end* on, and what hashes of its keys begin with; None if it is not
        as usual."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.ext is not None or topic == SCHEDULE_TOPIC or log_end < queue.max_log_offset:
            return None
        if self._commit_log.next_queue_offset(topic, queue_id) != queue.max_offset:
            return None
        return queue, self._index.prefix_of(topic) if self._index is not None else 0

    def finish(self, written: int, now_ms: int, runs: Sequence[QueueEntries], keyed: bytes) -> None:
        """Let readers see what a run wrote. *keyed* is what `IndexFile.put_pairs` takes."""
        segment, commit_log, indexer = self._segment, self._commit_log, self._indexer
        if segment is None:
            raise RuntimeError("a run ends that did not begin")
        segment.written = written
        commit_log.store_timestamp_ms = now_ms  # after the bytes: who reads this and then flushes has flushed them
        for queue, entries, log_end in runs:
            queue.put_entries(entries, log_end)
            commit_log.set_next_queue_offset(queue.topic, queue.queue_id, queue.max_offset)
        indexer.dispatched_ms = now_ms
        if keyed and self._index_file is not None:
            self._index_file.put_pairs(keyed, now_ms)
        for queue, entries, _ in runs:
            if indexer.listens(queue.topic, queue.queue_id):
                self._tell(segment, queue, entries, now_ms)
        self._appended(segment.base_offset + written)

    def _tell(self, segment: Segment, queue: ConsumeQueue, entries: bytes, now_ms: int) -> None:
        """Tell the indexer's listener about each message, as `Indexer.appended` does."""
        first_offset = queue.max_offset - len(entries) // ENTRY.size
        for offset, (log_offset, size, code) in enumerate(ENTRY.iter_unpack(entries), start=first_offset):
            position = log_offset - segment.base_offset
            properties = record_properties(segment.map, position, position + size)
            place = queue.topic, queue.queue_id, offset, log_offset, size
            self._indexer.tell(Dispatched(*place, code, now_ms, properties))
