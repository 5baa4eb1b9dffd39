"""Walking over the records of a log from a given place on, to the first that is not whole and valid.

A log ends where a write was torn. But a bad bit in the middle of an old file is not its end: what follows was flushed
long ago and must not be given up. The two are told apart by time. If a valid record follows that was certainly flushed,
the place before it is damage, which is reported and passed over; if none does, the log ends there.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.store.log import Log
from hanabi.store.torn_writes import looks_torn
from hanabi.wire.record import (
    BLANK_BYTES_MIN,
    MAGIC,
    MAGIC_BLANK,
    MAGIC_LONG_TOPIC,
    Dispatch,
    decode_dispatch,
)

_SEARCH_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 4
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC, MAGIC_LONG_TOPIC))
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")


class Damage(NamedTuple):
    """Bytes of the log that hold no valid record, though valid ones follow."""

    start: int
    end: int
    reason: str


def record_at(log: Log, log_offset: int, *, check_crc: bool = False) -> Dispatch | None:
    """The record at *log_offset* if a whole and valid one begins there."""
    view = log.read_tail(log_offset)
    if view is None:
        return None
    try:
        return _decode(view, 0, log_offset, check_crc=check_crc)
    except RemoteProtocolError:
        return None


class LogWalk:
    """Iterate over it once. Then `end` is where the log ends, and `damages` is what was passed over."""

    def __init__(
        self,
        log: Log,
        start: int,
        *,
        check_crc: bool,
        flushed_before_ms: int,
        certain_before_ms: int = 0,
        may_be_torn: bool = False,
    ) -> None:
        """Records stored before *flushed_before_ms* are known to have been on the disk, so they were never torn.

        *certain_before_ms*: of those stored later, `uncertain_from` tells where the first lies. *may_be_torn*: the
        writer crashed, so properties that look torn count only if a whole record follows."""
        self._log, self._check_crc, self._flushed_before_ms = log, check_crc, flushed_before_ms
        self._certain_before_ms, self._may_be_torn = certain_before_ms, may_be_torn
        self.start = self.end = start
        self.end_reason = "the last file is full"
        self.is_torn = False  # something lies where the log ends, and it is no record
        self.last_store_ms = 0
        self.uncertain_from: int | None = None
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[Dispatch]:
        log, check_crc, may_be_torn = self._log, self._check_crc, self._may_be_torn
        while (segment := log.find(self.end)) is not None:
            base, position = segment.base_offset, self.end - segment.base_offset
            view = segment.tail(0)
            limit = len(view)
            while position < limit:
                try:
                    record = _decode(view, position, base + position, check_crc=check_crc)
                    if may_be_torn and looks_torn(record.properties) and not self._is_followed(record):
                        raise RemoteProtocolError(f"record at {position}: its properties were not written to the end")
                except RemoteProtocolError as error:
                    if view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] == _BLANK:
                        position = log.segment_bytes
                    else:
                        reason = f"{segment.path}: {error}"
                        resumed = self._resume_after(base + position, reason)
                        if resumed is None:
                            self.end_reason = reason
                            self.is_torn = any(view[position : position + BLANK_BYTES_MIN])
                            return
                        position = resumed - base
                    self.end = base + position
                    continue
                yield record
                self.last_store_ms = record.store_timestamp_ms
                if self.uncertain_from is None and self.last_store_ms >= self._certain_before_ms:
                    self.uncertain_from = record.log_offset
                position += record.size
                self.end = base + position
            if position < log.segment_bytes:
                return  # what is readable ends before the file does

    def _is_followed(self, record: Dispatch) -> bool:
        """Whether a whole record of the same age or younger lies directly behind *record*."""
        following = record_at(self._log, record.log_offset + record.size, check_crc=True)
        return following is not None and following.store_timestamp_ms >= record.store_timestamp_ms

    def _resume_after(self, log_offset: int, reason: str) -> int | None:
        """Where the walk goes on behind what lies at *log_offset*; None if that is the end of the log."""
        if self.last_store_ms >= self._flushed_before_ms:
            return None
        following = _next_record(self._log, log_offset + 1)
        if following is None or following.store_timestamp_ms >= self._flushed_before_ms:
            return None
        self.damages.append(Damage(log_offset, following.log_offset, reason))
        return following.log_offset


def _decode(view: memoryview, position: int, log_offset: int, *, check_crc: bool) -> Dispatch:
    record = decode_dispatch(view, position, check_crc=check_crc)
    if record.log_offset != log_offset:
        raise RemoteProtocolError(f"record at {position}: says it is at log offset {record.log_offset}")
    if record.queue_id < 0 or record.queue_offset < 0 or not record.topic:
        raise RemoteProtocolError(
            f"record at {position}: cannot be message {record.queue_offset} of {record.topic!r}/{record.queue_id}"
        )
    if "\0" in record.topic:  # the CRC covers the body alone; what a torn write leaves of the rest are zeros
        raise RemoteProtocolError(f"record at {position}: its topic was not written to the end")
    return record


def _next_record(log: Log, log_offset: int) -> Dispatch | None:
    """The first whole and valid record at or behind *log_offset*, found by its magic number."""
    for segment in log.segments:
        if segment.base_offset + segment.size <= log_offset:
            continue
        view = segment.tail(0)
        position = max(log_offset - segment.base_offset, 0)
        while position < len(view):
            found = _find_magic(view, position + _MAGIC_AT)
            if found is None:
                break
            position = found - _MAGIC_AT
            record = record_at(log, segment.base_offset + position, check_crc=True)
            if record is not None:
                return record
            position += 1
    return None


def _find_magic(view: memoryview, start: int) -> int | None:
    while start < len(view):
        chunk = bytes(view[start : start + _SEARCH_BYTES])
        places = [place for place in map(chunk.find, _MAGICS) if place >= 0]
        if places:
            return start + min(places)
        start += max(len(chunk) - 3, 1)  # a magic number may lie across two chunks
    return None
