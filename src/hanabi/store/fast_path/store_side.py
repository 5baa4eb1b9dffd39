"""The store's side of a run of appends: the parts that a run reads when it begins and changes when it ends.

The run (`_appends.RunWriter`) writes records behind `Segment.written`, where no reader looks, and only then changes
the parts, by their public attributes and methods.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hanabi.store.files.segment import Segment
from hanabi.store.index.key_index import KeyIndex
from hanabi.store.indexer import Dispatched, Indexer
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.queues.consume_queue import ENTRY, ConsumeQueue
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.wire.message.record import record_properties

StoredInQueue = tuple[str, int, int, int, int]  # topic, messages, their bytes, queue id, frames that brought them


@dataclass(frozen=True, slots=True)
class StoreSide:
    """The parts of one store."""

    commit_log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex | None
    indexer: Indexer
    takes_messages: Callable[[], bool]  # whether a put would not be refused
    appended: Callable[[int], None]  # gets the new end of the log


def notify_listener(indexer: Indexer, segment: Segment, queue: ConsumeQueue, entries: bytes, now_ms: int) -> None:
    """Notify the listener of each message of the last *entries* of a queue, as `Indexer.appended` does."""
    first_offset = queue.max_offset - len(entries) // ENTRY.size
    for offset, (log_offset, size, code) in enumerate(ENTRY.iter_unpack(entries), start=first_offset):
        position = log_offset - segment.base_offset
        properties = record_properties(segment.map, position, position + size)
        place = queue.topic, queue.queue_id, offset, log_offset, size
        indexer.notify(Dispatched(*place, code, now_ms, properties))
