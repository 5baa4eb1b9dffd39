"""Interfaces of a log for replication, and the message store as such a log.

The two Protocols are all that master and slave know of a store; tests give them logs in memory.
"""

from typing import Final, Protocol

from hanabi.store.message_store import MessageStore

_COMPARED_BYTES_MAX: Final = 8 << 20
_COMPARED_BYTES: Final = 64 << 10  # if it is not known where the last message begins


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

    def is_in_memory(self, offset: int, size: int) -> bool:
        """Return whether a slice of *size* bytes at *offset* can be sent without waiting for the disk."""

    def load(self, offset: int, size: int) -> None:
        """Bring the *size* bytes at *offset* into memory. Called in another thread. Raise StoreError on failure."""


class LogSink(Protocol):
    """Log of a slave."""

    @property
    def end_offset(self) -> int:
        """Offset of the next byte to be written; 0 for an empty log."""

    @property
    def file_bytes(self) -> int:
        """Size of each of its files (mappedFileSizeCommitLog)."""

    @property
    def compared_from(self) -> int:
        """Where the last message begins; never 0, which asks for the master's last file, unless the log is empty."""

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        """Return the bytes at *offset*, at most *bytes_max* and of one file, without a copy; None outside the log."""

    def append_raw(self, offset: int, *pieces: memoryview) -> None:
        """Append bytes of the master's log, which are overwritten afterwards. An empty log begins at *offset*. Raise
        StoreError on failure.

        A heartbeat is an append without pieces: it retries what could not be completed before."""


class StoreLog:
    """Log of a message store, for a master and for a slave. Call it from the thread that puts.

    A slave becomes a master by a restart, which cuts off an incomplete record at the end of its log and restores its
    queue offsets. Without a restart both would be necessary: see `MessageStore.restore_queue_offsets`. Slices are
    passed to the kernel unread, which returns an error for an unreadable page. With TLS they are read here, where such
    a page would end the process: `load` finds it first, as it is not in memory.
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

    @property
    def compared_from(self) -> int:
        end, last = self.end_offset, self._store.last_message_offset()
        if last is None or end - last > _COMPARED_BYTES_MAX:  # its queue was deleted, for example
            last = end - _COMPARED_BYTES
        return min(max(last, self.min_offset, 1), end)

    def slice(self, offset: int, bytes_max: int) -> memoryview | None:
        tail = self._store.read_log(offset)
        return None if tail is None else tail[:bytes_max]

    def is_in_memory(self, offset: int, size: int) -> bool:
        return self._store.is_log_in_memory(offset, size)

    def load(self, offset: int, size: int) -> None:
        self._store.load_log(offset, size)

    def append_raw(self, offset: int, *pieces: memoryview) -> None:
        self._store.append_copy(offset, *pieces)

    def cut_partial_record(self) -> None:
        """Remove the bytes behind the last whole record."""
        self._store.cut_partial_record()

    def truncate(self, offset: int) -> None:
        """Forget everything from *offset* on."""
        self._store.truncate(offset)
