"""The walk over the records of a log from a given offset to the first record that is not whole and valid.

A log ends where a write was torn. But a bad bit is not its end: what follows may have been flushed and acknowledged.
Invalid bytes before a valid record are damage, reported and skipped, if one of these holds. Else the log ends.

- The valid record was certainly flushed, by its time: the checkpoint has a later one.
- It begins where the damaged one says that it ends.
- Between the two there is no sector of zeros, which is what pages leave that never reached the disk.

With ASYNC_FLUSH a power cut may take any page that was not synced. So the second holds only if the damaged record has
no sector of zeros either: what a power cut leaves of the log has no gap. With SYNC_FLUSH the valid record may have been
acknowledged, and then all before it was on the disk: the zeros are damage, and the record is kept.

It must not be older than what lies before the damage: such a record was given up at an earlier crash. A filler up to
the end of the file counts as a valid record.

Every page is read in before it is accessed: an unreadable one raises StoreDamaged with the file's name, and is not
taken for the end of the log.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.store.files.segment import Segment
from hanabi.store.log.log import Log
from hanabi.store.log.torn_writes import looks_torn
from hanabi.wire.message.record import (
    BLANK_BYTES_MIN,
    MAGIC,
    MAGIC_BLANK,
    MAGIC_LONG_TOPIC,
    Dispatch,
    decode_dispatch,
)

_SEARCH_BYTES: Final = 1 << 20
_SECTOR_BYTES: Final = 512
_DAMAGE_BYTES_MAX: Final = 16 << 20  # as far as a search goes: no record is longer
_MAGIC_AT: Final = 4
_PLACE_AT: Final = 28  # of the log offset in a record
_HEAD_BYTES: Final = 88  # the shortest head
_AHEAD_BYTES: Final = 1 << 20
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC, MAGIC_LONG_TOPIC))
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")


class Damage(NamedTuple):
    """Bytes of the log that hold no valid record, though valid ones follow."""

    start: int
    end: int
    reason: str
    claim: Dispatch | None  # the damaged record's own fields, if its parts fit


class Faults(NamedTuple):
    """The possible faults of the newest records, which no checkpoint covers.

    `may_be_torn`: the writer crashed, so properties that look torn count only if a whole record follows.
    `may_lack_pages`: a power cut may have taken any page. `marks_zeros`: the writer marked zeros in properties.
    """

    may_be_torn: bool = False
    may_lack_pages: bool = False
    marks_zeros: bool = False


NO_FAULTS: Final = Faults()


def record_at(log: Log, log_offset: int, *, check_crc: bool = False) -> Dispatch | None:
    """Return the record at *log_offset*; None if no valid one begins there. StoreDamaged if it cannot be read."""
    view = log.read_tail(log_offset)
    if view is None:
        return None
    log.check_readable(log_offset, log_offset + min(_HEAD_BYTES, len(view)))
    log.check_readable(log_offset, log_offset + min(_stated_size(view, 0), len(view)))
    try:
        return _decode(view, 0, log_offset, check_crc=check_crc)
    except RemoteProtocolError:
        return None


class LogWalk:
    """The records, iterable once. Afterwards `end` is the end of the log, and `damages` are the skipped parts."""

    def __init__(
        self,
        log: Log,
        start: int,
        *,
        check_crc: bool,
        flushed_before_ms: int,
        certain_before_ms: int = 0,
        faults: Faults = NO_FAULTS,
    ) -> None:
        """Records stored before *flushed_before_ms* are known to have been on the disk, so they were never torn.

        *certain_before_ms*: `uncertain_from` is the offset of the first record stored later."""
        self._log, self._check_crc, self._flushed_before_ms = log, check_crc, flushed_before_ms
        self._certain_before_ms, self._faults = certain_before_ms, faults
        self.start = self.end = start
        self.end_reason = "the last file is full"
        self.is_torn = False  # something lies where the log ends, and it is no record
        self.last_store_ms = 0
        self.uncertain_from: int | None = None
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[Dispatch]:
        log, check_crc, may_be_torn = self._log, self._check_crc, self._faults.may_be_torn
        while (segment := log.find(self.end)) is not None:
            base, position = segment.base_offset, self.end - segment.base_offset
            view = segment.tail(0)
            limit = len(view)
            checked = position
            while position < limit:
                checked = _check_ahead(segment, view, position, checked)
                try:
                    record = _decode(view, position, base + position, check_crc=check_crc)
                    if may_be_torn and looks_torn(record.properties) and not self._is_kept(segment, record):
                        raise RemoteProtocolError(f"record at {position}: its properties were not written to the end")
                except RemoteProtocolError as error:
                    if view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] == _BLANK:
                        position = log.segment_bytes
                    else:
                        reason = f"{segment.path}: {error}"
                        resumed = self._resume_after(segment, position, reason)
                        if resumed is None:
                            self.end_reason = reason
                            self.is_torn = any(view[position : position + BLANK_BYTES_MIN])
                            return
                        position = resumed
                    self.end = base + position
                    continue
                yield record
                self.last_store_ms = record.store_timestamp_ms
                if self.uncertain_from is None and self.last_store_ms >= self._certain_before_ms:
                    self.uncertain_from = record.log_offset
                position += record.size
                self.end = base + position
            if position < log.segment_bytes:
                return  # the readable part ends before the file does

    def _is_kept(self, segment: Segment, record: Dispatch) -> bool:
        """Return whether *record*, whose properties look torn, counts: a whole one of its age or younger lies behind
        it."""
        end = record.log_offset + record.size
        is_flushed = record.store_timestamp_ms < self._flushed_before_ms
        if (
            self._faults.marks_zeros
            and not is_flushed
            and self._lacks_pages(segment, record.log_offset - segment.base_offset, end)
        ):
            return False
        following = record_at(self._log, end, check_crc=True)
        return following is not None and following.store_timestamp_ms >= record.store_timestamp_ms

    def _resume_after(self, segment: Segment, position: int, reason: str) -> int | None:
        """Return the position in the file at which to resume behind *position*; None if the log ends there."""
        log_offset = segment.base_offset + position
        end = self._end_if_flushed(log_offset)
        if end is None:
            end = self._end_by_size(segment, position)
            if end is not None and self._lacks_pages(segment, position, end):
                return None
        if end is None:
            end = self._end_by_search(segment, position)
        if end is not None:
            self.damages.append(Damage(log_offset, end, reason, _claim(segment, position, end)))
        return None if end is None else end - segment.base_offset

    def _lacks_pages(self, segment: Segment, position: int, end: int) -> bool:
        return self._faults.may_lack_pages and segment.base_offset + _first_unwritten(segment, position) < end

    def _end_if_flushed(self, log_offset: int) -> int | None:
        """Return the beginning of the next record, if it was flushed before the crash."""
        if self.last_store_ms >= self._flushed_before_ms:
            return None
        following = _next_record(self._log, log_offset + 1)
        if following is None or following.store_timestamp_ms >= self._flushed_before_ms:
            return None
        return following.log_offset

    def _end_by_size(self, segment: Segment, position: int) -> int | None:
        """Return the end that the record at *position* states, if a record or a filler begins there."""
        view = segment.tail(position)
        size = _stated_size(view, 0)
        if not BLANK_BYTES_MIN <= size <= len(view) - BLANK_BYTES_MIN:
            return None
        segment.check_readable(position + size, position + size + BLANK_BYTES_MIN)
        end = segment.base_offset + position + size
        if _is_filler(view, size) or self._is_younger(record_at(self._log, end, check_crc=True)):
            return end
        return None

    def _end_by_search(self, segment: Segment, position: int) -> int | None:
        """Return the beginning of the next record, if all before it was written."""
        view, base = segment.tail(0), segment.base_offset
        end = _first_unwritten(segment, position)
        found = _first_record(self._log, base + position + 1, view[position + 1 : end])
        if found is not None:
            return found.log_offset if self._is_younger(found) else None
        filler = position + bytes(view[position:end]).rfind(_BLANK) - _MAGIC_AT
        return base + filler if filler > position and _is_filler(view, filler) else None

    def _is_younger(self, record: Dispatch | None) -> bool:
        return record is not None and record.store_timestamp_ms >= self.last_store_ms


def _stated_size(view: memoryview, position: int) -> int:
    """Return the size that a record at *position* says it has, as far as any record can have it."""
    return min(int.from_bytes(view[position : position + _MAGIC_AT], "big"), _DAMAGE_BYTES_MAX)


def _check_ahead(segment: Segment, view: memoryview, position: int, checked: int) -> int:
    """Check that the record at *position* can be read, if it lies behind *checked*; return the readable end.

    An unreadable page is no end of the log: nothing behind it may be cut off. So it is an error.
    """
    head = min(position + _HEAD_BYTES, len(view))
    if head > checked:
        segment.check_readable(position, head)
    end = min(max(head, position + _stated_size(view, position)), len(view))
    if end <= checked:
        return checked
    end = min(max(end, position + _AHEAD_BYTES), len(view))
    segment.check_readable(position, end)
    return end


def _is_filler(view: memoryview, position: int) -> bool:
    """Return whether a filler lies at *position* that goes up to the end of *view*, that of a file."""
    size = int.from_bytes(view[position : position + _MAGIC_AT], "big")
    return size == len(view) - position and view[position + _MAGIC_AT : position + BLANK_BYTES_MIN] == _BLANK


def _claim(segment: Segment, position: int, end: int) -> Dispatch | None:
    """Return the record at *position* with the size, magic number and offset that it must have; its body may be
    damaged."""
    log_offset = segment.base_offset + position
    record = bytearray(segment.tail(position)[: end - log_offset])
    if len(record) > _HEAD_BYTES:
        place = slice(_PLACE_AT, _PLACE_AT + 8)
        record[:_MAGIC_AT], record[place] = len(record).to_bytes(4, "big"), log_offset.to_bytes(8, "big")
        if bytes(record[_MAGIC_AT:BLANK_BYTES_MIN]) not in _MAGICS:
            record[_MAGIC_AT:BLANK_BYTES_MIN] = _MAGICS[0]
    try:
        return _decode(memoryview(record), 0, log_offset, check_crc=False)
    except RemoteProtocolError:
        return None


def _decode(view: memoryview, position: int, log_offset: int, *, check_crc: bool) -> Dispatch:
    record = decode_dispatch(view, position, check_crc=check_crc)
    if record.log_offset != log_offset:
        raise RemoteProtocolError(f"record at {position}: says it is at log offset {record.log_offset}")
    if record.queue_id < 0 or record.queue_offset < 0 or not record.topic:
        raise RemoteProtocolError(
            f"record at {position}: cannot be message {record.queue_offset} of {record.topic!r}/{record.queue_id}"
        )
    if "\0" in record.topic:  # the CRC covers the body alone; a torn write leaves zeros in the rest
        raise RemoteProtocolError(f"record at {position}: its topic was not written to the end")
    return record


def _next_record(log: Log, log_offset: int) -> Dispatch | None:
    """Return the first whole and valid record at or behind *log_offset*, found by its magic number."""
    for segment in log.segments:
        if segment.base_offset + segment.size > log_offset:
            start = max(log_offset - segment.base_offset, 0)
            record = _first_record(log, segment.base_offset + start, segment.tail(start))
            if record is not None:
                return record
    return None


def _first_record(log: Log, log_offset: int, view: memoryview) -> Dispatch | None:
    """Return the first whole and valid record whose magic number lies in *view*, the bytes at *log_offset* of the
    log."""
    position = 0
    while (found := _find_magic(log, log_offset, view, position + _MAGIC_AT)) is not None:
        position = found - _MAGIC_AT
        record = record_at(log, log_offset + position, check_crc=True)
        if record is not None:
            return record
        position += 1
    return None


def _first_unwritten(segment: Segment, position: int) -> int:
    """Return the first position from *position* on that was never written; the end of the search if there is none.

    Unwritten are a sector that is all zeros, and a zero size and magic number of the record there (a copy may write
    them last), as far as they lie in one sector.
    """
    view = segment.tail(0)[: position + _DAMAGE_BYTES_MAX]
    end = checked = position - position % _SECTOR_BYTES + _SECTOR_BYTES
    head_end = min(position + BLANK_BYTES_MIN, max(end, position + _MAGIC_AT))
    if not any(view[position:head_end]):
        return position
    while end < len(view):
        if end >= checked:
            checked = min(end + _SEARCH_BYTES, len(view))
            segment.check_readable(end, checked)
        if not any(view[end : end + _SECTOR_BYTES]):
            break
        end += _SECTOR_BYTES
    return min(end, len(view))


def _find_magic(log: Log, log_offset: int, view: memoryview, start: int) -> int | None:
    """Find a magic number at or behind *start* in *view*, the bytes at *log_offset* of the log."""
    while start < len(view):
        end = min(start + _SEARCH_BYTES, len(view))
        log.check_readable(log_offset + start, log_offset + end)
        chunk = bytes(view[start:end])
        places = [place for place in map(chunk.find, _MAGICS) if place >= 0]
        if places:
            return start + min(places)
        start += max(len(chunk) - 3, 1)  # a magic number may lie across two chunks
    return None
