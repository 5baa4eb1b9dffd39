"""Lookups of messages other than by queue: by log offset, by key and time, by unique key, by store time.

The index knows hashes only, so every record that it points at is read and its keys are compared. (Apache leaves that to
the client.)

Lookups for clients find nothing behind the confirm offset of the reader: replicas may not hold it, and then it is lost
with its master. Lookups for the broker's own work (`queued_record`, `indexed_record`, `unconfirmed`) find everything.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from hanabi.store.index.key_index import KeyIndex
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.log.walk import record_at
from hanabi.store.queues.consume_queue_ext import ExtUnit, is_ext_address
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.store.read.offset_by_time import BoundaryType, offset_by_time
from hanabi.store.read.queue_reader import NO_LIMIT, QueueReader
from hanabi.wire.message.record import Dispatch

_INDEX_STEP_MS: Final = 1_000  # the index keeps seconds

GoesOn = Callable[[], bool]


def without_limit() -> bool:
    """Let a search run to its end."""
    return True


class KeyQuery(NamedTuple):
    """The messages with a key, oldest first, and the index's fields in the answer."""

    records: list[memoryview]
    last_update_ms: int
    last_update_log_offset: int
    is_complete: bool = True  # False if the search was stopped: older messages may have the key, too


class QueueEntry(NamedTuple):
    """A consume queue's entry of one message. `ext` is None if there is no extension or its data is lost."""

    log_offset: int
    size: int
    tags_code: int  # or the address of `ext`
    ext: ExtUnit | None

    @property
    def is_extended(self) -> bool:
        return is_ext_address(self.tags_code)

    @property
    def known_tags_code(self) -> int | None:
        """The tags code itself, wherever it is kept; None if it is lost."""
        if self.is_extended:
            return self.ext.tags_code if self.ext is not None else None
        return self.tags_code


class Queries:
    """Looks messages up. May be used by any thread."""

    def __init__(
        self, commit_log: CommitLog, queues: ConsumeQueues, index: KeyIndex | None, reader: QueueReader
    ) -> None:
        self._log, self._queues, self._index, self._reader = commit_log.log, queues, index, reader

    # By place

    def record(self, log_offset: int) -> memoryview | None:
        """Return the message at *log_offset*; None if no whole and valid one begins there."""
        found = self._dispatch_at(log_offset)
        if found is None or log_offset + found.size > self._reader.confirmed:
            return None
        return self._log.read(log_offset, found.size)

    def queued_record(self, log_offset: int) -> memoryview | None:
        """Return the message at *log_offset*, if its queue points there; None otherwise.

        The body of a message may hold bytes that are a valid record for the place where they lie. A request that acts
        on the message at an offset must not take them for one.
        """
        found = self._dispatch_at(log_offset)
        queue = self._queues.find(found.topic, found.queue_id) if found is not None else None
        if found is None or queue is None:
            return None
        entries = queue.entries(found.queue_offset, 1)
        return self._log.read(log_offset, found.size) if entries and entries[0][0] == log_offset else None

    def indexed_record(self, log_offset: int, goes_on: GoesOn = without_limit) -> memoryview | None:
        """Return the message at *log_offset* if the key index points there, else None.

        Like `queued_record`, for a message whose queue was deleted with its topic. A message without keys is not found.
        """
        found = self._dispatch_at(log_offset)
        if found is None or self._index is None or not (key := found.unique_key or found.keys.partition(" ")[0]):
            return None
        begin_ms, end_ms = found.store_timestamp_ms - _INDEX_STEP_MS, found.store_timestamp_ms + _INDEX_STEP_MS
        is_it = log_offset.__eq__
        matches = self._index.search(found.topic, key, begin_ms, end_ms, 1, is_wanted=is_it, goes_on=goes_on)
        return self._log.read(log_offset, found.size) if matches.log_offsets else None

    def entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> list[QueueEntry] | None:
        """Return the entries of a queue from *offset* on, as they stand there; None if there is no such queue."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return None
        max_count = min(max_count, max(self._reader.readable_end(queue) - offset, 0))
        return [
            QueueEntry(log_offset, size, code, queue.ext.get(code) if queue.ext is not None else None)
            for log_offset, size, code in queue.entries(offset, max_count)
        ]

    # By key

    def by_key(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, goes_on: GoesOn = without_limit
    ) -> KeyQuery:
        """Return the newest messages with *key*, a key or the unique key, stored in [begin_ms, end_ms].

        A search may read millions of entries; it ends when *goes_on*, called every millisecond, returns False.
        """
        below = self._reader.confirmed
        return self._search(topic, key, max_count, begin_ms, end_ms, goes_on, unique_only=False, below=below)

    def by_unique_key(
        self,
        topic: str,
        unique_key: str,
        max_count: int = 1,
        begin_ms: int = 0,
        end_ms: int = 2**63 - 1,
        goes_on: GoesOn = without_limit,
        *,
        unconfirmed: bool = False,
    ) -> KeyQuery:
        """Return the messages that a producer sent under this id. More than one if it sent again after a timeout.

        With *unconfirmed* also those that clients may not see yet."""
        below = NO_LIMIT if unconfirmed else self._reader.confirmed
        return self._search(topic, unique_key, max_count, begin_ms, end_ms, goes_on, unique_only=True, below=below)

    def _search(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        goes_on: GoesOn,
        *,
        unique_only: bool,
        below: int,
    ) -> KeyQuery:
        if self._index is None:
            return KeyQuery([], 0, 0)

        sizes: dict[int, int] = {}

        def is_wanted(log_offset: int) -> bool:  # other keys have the same hash
            record = self._dispatch_at(log_offset)
            if record is None or record.topic != topic or not _has_key(record, key, unique_only=unique_only):
                return False
            if log_offset + record.size > below:
                return False
            sizes[log_offset] = record.size
            return True

        found = self._index.search(topic, key, begin_ms, end_ms, max_count, is_wanted=is_wanted, goes_on=goes_on)
        views = (self._log.read(log_offset, sizes[log_offset]) for log_offset in reversed(found.log_offsets))
        records = [view for view in views if view is not None]
        return KeyQuery(records, found.last_update_ms, found.last_update_log_offset, found.is_complete)

    # By time

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, boundary: BoundaryType | None = None) -> int:
        """Return the queue offset for *time_ms*; see `offset_by_time.offset_by_time`. 0 for a queue that does not
        exist."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        log_offset_min = self._log.min_offset
        return offset_by_time(
            queue,
            time_ms,
            self._store_time_at,
            log_offset_min=log_offset_min,
            end=self._reader.readable_end(queue),
            boundary=boundary,
        )

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of a message; -1 if it is not there."""
        queue = self._queues.find(topic, queue_id)
        entries = queue.entries(offset, 1) if queue is not None else []
        return self._store_time_at(entries[0][0], entries[0][1]) if entries else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of a queue's oldest message; -1 if there is none."""
        queue = self._queues.find(topic, queue_id)
        return self.store_time(topic, queue_id, queue.min_offset) if queue is not None else -1

    def latest_store_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of a queue's newest message; -1 if there is none."""
        queue = self._queues.find(topic, queue_id)
        return self.store_time(topic, queue_id, self._reader.readable_end(queue) - 1) if queue is not None else -1

    def store_time_at(self, log_offset: int) -> int:
        """Return the store time of the message at *log_offset*; -1 if none begins there."""
        return self._store_time_at(log_offset, 0)

    def earliest_store_time_in_log(self) -> int:
        """Return the store time of the oldest message of all; -1 if there is none."""
        return self._store_time_at(self._log.min_offset, 0)

    def _store_time_at(self, log_offset: int, _size: int) -> int:
        record = self._dispatch_at(log_offset)
        return record.store_timestamp_ms if record is not None else -1

    def _dispatch_at(self, log_offset: int) -> Dispatch | None:
        return record_at(self._log, log_offset, check_crc=True)


def _has_key(record: Dispatch, key: str, *, unique_only: bool) -> bool:
    return record.unique_key == key or (not unique_only and key in record.keys.split(" "))
