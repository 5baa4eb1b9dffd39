"""Interfaces of a log for replication, and the message store as such a log.

The two Protocols are all that master and slave know of a store; tests give them logs in memory.
"""

from typing import Protocol

from hanabi.store.message_store import MessageStore


class LogSource(Protocol):
    """Log of a master."""

    @property
    def min_offset(self) -> int:
        """First available offset."""

    @property
    def end_offset(self) -> int:
        """Offset of the next byte to be written."""

    @property
    def file_bytes(self) -> int:
        """Size of each of its files (mappedFileSizeCommitLog)."""

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        """Return the bytes at *offset*, at most *bytes_max* and of one file, without a copy; None outside the log."""


class LogSink(Protocol):
    """Log of a slave."""

    @property
    def end_offset(self) -> int:
        """Offset of the next byte to be written; 0 for an empty log."""

    @property
    def file_bytes(self) -> int:
        """Size of each of its files (mappedFileSizeCommitLog)."""

    def append_raw(self, offset: int, data: memoryview) -> None:
        """Append bytes of the master's log. An empty log begins at *offset*. Raise StoreError on failure.

        A heartbeat is an append without bytes: it retries what could not be completed before."""


class StoreLog:
    """Log of a message store, for a master and for a slave. Call it from the thread that puts.

    A slave becomes a master by a restart, which cuts off an incomplete record at the end of its log and restores its
    queue offsets. Without a restart both would be necessary: see `MessageStore.restore_queue_offsets`. Slices are
    passed to the kernel unread, which returns an error for an unreadable page; with TLS they are read here, where such
    a page ends the process.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.file_bytes = store.config.commit_log_segment_bytes

    @property
    def min_offset(self) -> int:
        return self._store.min_log_offset

    @property
    def end_offset(self) -> int:
        return self._store.max_log_offset

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        tail = self._store.read_log(offset)
        return None if tail is None else tail[:bytes_max]

    def append_raw(self, offset: int, data: memoryview) -> None:
        self._store.append_copy(offset, data)
