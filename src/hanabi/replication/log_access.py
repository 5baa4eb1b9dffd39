"""A log as replication sees it, and the message store as such a log.

The two Protocols are all that master and slave know of a store; tests give them logs in memory.
"""

from typing import Protocol

from hanabi.store.message_store import MessageStore


class LogSource(Protocol):
    """What a master needs of its log."""

    @property
    def min_offset(self) -> int:
        """The first offset there is."""

    @property
    def end_offset(self) -> int:
        """Where the next byte will be written."""

    @property
    def file_bytes(self) -> int:
        """The size of each of its files (mappedFileSizeCommitLog)."""

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        """Return the bytes at *offset*, at most *bytes_max* and of one file, without a copy; None outside the log."""


class LogSink(Protocol):
    """What a slave needs of its log."""

    @property
    def end_offset(self) -> int:
        """Where the next byte will be written; 0 for an empty log."""

    @property
    def file_bytes(self) -> int:
        """The size of each of its files (mappedFileSizeCommitLog)."""

    def append_raw(self, offset: int, data: memoryview) -> None:
        """Append bytes of the master's log. An empty log begins at *offset*. Raises StoreError if it cannot.

        A heartbeat is an append without bytes: what could not be completed before is tried again."""


class StoreLog:
    """The log of a message store, for a master and for a slave. Call it from the thread that puts.

    A slave becomes a master by a restart, which cuts off the part of a record at the end of its log and lets its queues
    go on counting. Without a restart both would be to do: see `MessageStore.restore_queue_offsets`.
    Slices are handed to the kernel unread, which answers with an error for a page that the disk cannot give; with TLS
    they are read here, where such a page ends the process.
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
