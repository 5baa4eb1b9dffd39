"""Search for the first message of a time in a queue. Store times never decrease in a log, so it is a binary search."""

from hanabi.errors import RemoteProtocolError
from hanabi.store.inspection.home import FileReader
from hanabi.store.inspection.log_lookup import LogLookup
from hanabi.store.inspection.queues import QueueOnDisk
from hanabi.wire.message.record import decode_dispatch


class TimeBoundary:
    """One point in time in the log. The results of one queue save the next queue most of its reads.

    An unreadable message counts as older if *unknown_is_older*: choose the side on which no message is lost.
    """

    def __init__(self, time_ms: int, log: LogLookup, *, unknown_is_older: bool) -> None:
        self._time_ms, self._log, self._unknown_is_older = time_ms, log, unknown_is_older
        self._older_until = -1  # every message up to this log offset is older
        self._younger_from = 2**63  # no message from this log offset on is older

    def first_in(self, queue: QueueOnDisk, reader: FileReader, low: int, high: int) -> int:
        """Return the first message of [low, high) stored at this time or later, or *high*."""
        while low < high:
            middle = (low + high) // 2
            entry = queue.entry(reader, middle)
            if self._unknown_is_older if entry is None else self._is_older(entry[0]):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_older(self, log_offset: int) -> bool:
        if log_offset <= self._older_until:
            return True
        if log_offset >= self._younger_from:
            return False
        try:
            record = decode_dispatch(self._log.read(log_offset) or b"")
        except RemoteProtocolError:
            return self._unknown_is_older
        if record.store_timestamp_ms < self._time_ms:
            self._older_until = log_offset
            return True
        self._younger_from = log_offset
        return False
