"""The log of a slave: bytes of its master, dispatched to queues and index when their records are whole.

    append ─> record chain (is it the same log?) ─> commit log ─> consume queue ─> key index ─> on_append

The copy is a prefix of the master's log. It may end in a partial record, which a restart cuts off.
"""

import logging
from typing import Final

from hanabi.errors import RemoteProtocolError, StoreError
from hanabi.store.files.segment import Buffer
from hanabi.store.indexer import Indexer
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.log.record_chain import RecordChain
from hanabi.wire.message.record import BLANK_BYTES_MIN, MAGIC_BLANK, decode_dispatch

logger = logging.getLogger(__name__)

_MAGIC_AT: Final = 4
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")


class CopiedLog:
    """Appends the bytes that a master sends. Call it from the thread that puts; a store either puts or copies."""

    def __init__(self, commit_log: CommitLog, indexer: Indexer) -> None:
        self._commit_log, self._log, self._indexer = commit_log, commit_log.log, indexer
        self._chain = self._chain_at(self._log.end_offset)
        self._dispatched_to = self._log.end_offset

    def append(self, log_offset: int, data: Buffer) -> None:
        """Store *data*, which must continue this log, and dispatch the records that are whole now.

        Raises LogDiverged if they are of another log, and StoreError if they cannot be stored or dispatched: the next
        call retries that. Without *data* it only retries.
        """
        self._indexer.catch_up()
        if data:
            self._store(log_offset, data)
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
            base = self._dispatched_to
            view = self._log.read_tail(base)
            if view is None:
                raise StoreError(f"the log no longer has the bytes at {base}, which no queue has yet")
            self._dispatch_file(base, view[: self._chain.whole_to - base])

    def _dispatch_file(self, base: int, view: memoryview) -> None:
        """Dispatch the records in *view*, which begin at *base* and end with the file or with the last whole record."""
        position, latest_ms = 0, self._commit_log.store_timestamp_ms
        dispatch = self._indexer.dispatch
        try:
            while position < len(view):
                try:
                    record = decode_dispatch(view, position)
                except RemoteProtocolError as error:
                    position += self._skipped(view, position, base, error)
                else:
                    dispatch(record, notify=True)
                    latest_ms = max(latest_ms, record.store_timestamp_ms)
                    position += record.size
                self._dispatched_to = base + position
        finally:
            self._commit_log.store_timestamp_ms = latest_ms

    def _skipped(self, view: memoryview, position: int, base: int, error: RemoteProtocolError) -> int:
        """Return the size of a filler, or of a record that is damaged inside."""
        if view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] != _BLANK:
            logger.error(
                "the message at %d of the master's log is damaged, no queue gets it: %s", base + position, error
            )
        return int.from_bytes(view[position : position + _MAGIC_AT], "big")
