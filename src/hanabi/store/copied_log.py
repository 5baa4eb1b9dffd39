"""The log of a slave: bytes of its master, dispatched to queues and index when their records are whole.

    append ─> record chain (is it the same log?) ─> commit log ─> consume queue ─> key index ─> on_append

The copy is a prefix of the master's log. It may end in a partial record, which a restart cuts off.
"""

import logging
from typing import TYPE_CHECKING, Final

from hanabi.errors import MQError, RemoteProtocolError, StoreError
from hanabi.store.files.segment import Buffer
from hanabi.store.indexer import Indexer
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.log.record_chain import RecordChain
from hanabi.store.queues.consume_queue import QueueOrderError
from hanabi.store.queues.consume_queues import QueueNameError
from hanabi.wire.message.record import BLANK_BYTES_MIN, MAGIC_BLANK, decode_dispatch

if TYPE_CHECKING:
    from hanabi.store.fast_path._copies import CopyRun

logger = logging.getLogger(__name__)

_MAGIC_AT: Final = 4
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")


class CopiedLog:
    """Appends the bytes that a master sends. Call it from the thread that puts; a store either puts or copies."""

    def __init__(self, commit_log: CommitLog, indexer: Indexer, run: "CopyRun | None" = None) -> None:
        """*run* dispatches ordinary records, faster; None where it is not compiled."""
        self._commit_log, self._log, self._indexer, self._run = commit_log, commit_log.log, indexer, run
        self._chain = self._chain_at(self._log.end_offset)
        self._dispatched_to = self._log.end_offset

    @property
    def whole_to(self) -> int:
        """End of the last whole record."""
        is_current = self._chain.received_to == self._log.end_offset
        return self._chain.whole_to if is_current else self._log.end_offset

    def append(self, log_offset: int, *pieces: Buffer) -> None:
        """Store *pieces*, which must continue this log, and dispatch the records that are whole now.

        Raises LogDiverged if they are of another log, and StoreError if they cannot be stored or dispatched: the next
        call retries that. Without *pieces* it only retries.
        """
        self._indexer.catch_up()
        try:
            for piece in pieces:
                if piece:
                    self._store(log_offset, piece)
                    log_offset += len(piece)
        finally:
            self._dispatch()

    def _chain_at(self, offset: int) -> RecordChain:
        return RecordChain.at(offset, self._log.segment_bytes)

    def _store(self, log_offset: int, data: Buffer) -> None:
        log, is_first = self._log, self._log.active is None
        if is_first or self._chain.received_to != log.end_offset:  # messages were put or cut off since
            self._chain = self._chain_at(log_offset if is_first else log.end_offset)
            self._dispatched_to = self._chain.whole_to
        if log_offset != self._chain.received_to:
            raise StoreError(f"the log ends at {log.end_offset}, so a copy cannot go on at {log_offset}")
        before, after = self._chain, self._chain.after(data)
        try:
            self._commit_log.append_copy(log_offset, data)
        except StoreError:  # a part may be stored: the bytes that fitted into the file before the next
            self._chain = before.after(data[: max(log.end_offset - log_offset, 0)])
            raise
        self._chain = after

    def _dispatch(self) -> None:
        """Add the complete records to queues and index, and notify the listeners."""
        while self._dispatched_to < self._chain.whole_to:
            segment = self._log.find(self._dispatched_to)
            if segment is None:
                raise StoreError(f"the log no longer has the bytes at {self._dispatched_to}, which no queue has yet")
            end = min(self._chain.whole_to - segment.base_offset, segment.written)
            position = self._dispatched_to - segment.base_offset
            if self._run is not None:
                position = self._run.dispatch(segment, position, end)
                self._dispatched_to = segment.base_offset + position
            if position < end:
                self._dispatched_to += self._dispatch_one(segment.base_offset, segment.tail(0)[:end], position)

    def _dispatch_one(self, base: int, view: memoryview, position: int) -> int:
        """Dispatch the record at *position* of a file that begins at *base*; return its size."""
        try:
            record = decode_dispatch(view, position)
            if record.queue_offset < 0:
                raise QueueOrderError(f"message {record.queue_offset} of queue {record.topic}/{record.queue_id}")
            self._indexer.dispatch(record, notify=True)
        except (RemoteProtocolError, QueueNameError, QueueOrderError) as error:  # no retry would help
            return self._skipped(view, position, base, error)
        commit_log = self._commit_log
        commit_log.store_timestamp_ms = max(commit_log.store_timestamp_ms, record.store_timestamp_ms)
        return record.size

    def _skipped(self, view: memoryview, position: int, base: int, error: MQError) -> int:
        """Return the size of a filler, or of a record that is damaged inside."""
        if view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] != _BLANK:
            logger.error(
                "the message at %d of the master's log is damaged, no queue gets it: %s", base + position, error
            )
        return int.from_bytes(view[position : position + _MAGIC_AT], "big")
