"""Reads of messages by queue: a range of a queue as slices of the log, and the first and last offset of a queue.

Statuses, limits and the next offset agree with Java's DefaultMessageStore.getMessage. But a read looks at no more
entries than those limits allow messages, or 800, even if it was asked for more. It ends when its filter expression has
taken a few milliseconds; its next offset says where to resume.

In addition every entry is verified: the record at its offset must be the requested message, or it is reported and
skipped. So a bad bit in a queue never delivers a wrong message. The CRC of a body is checked for messages that were in
the log when the store was opened; later ones have not come back from a disk yet. (Apache checks neither.)
"""

import enum
import logging
import struct
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.config import StoreConfig
from hanabi.store.fast_path.loading import record_run
from hanabi.store.log.commit_log import CommitLog
from hanabi.store.queues.consume_queue import ENTRY, ConsumeQueue, is_blank
from hanabi.store.queues.consume_queue_ext import ExtUnit, is_ext_address
from hanabi.store.queues.consume_queues import ConsumeQueues
from hanabi.wire.message.record import is_record, topic_field
from hanabi.wire.message.sysflag import BORN_HOST_V6

if TYPE_CHECKING:
    from hanabi.store.fast_path._reads import RecordRun

logger = logging.getLogger(__name__)

NO_LIMIT: Final = 1 << 62
_FILTERED_ENTRIES_MAX: Final = 800  # how many entries one read looks at when a filter takes few; Apache's 16,000 bytes
_FILTER_SECONDS_MAX: Final = 0.005
_REPORTS_MAX: Final = 1_000
_MANY_SLICES: Final = 4  # from this number on slices are joined by copying, if they are short: see `_join`
_SHORT_SLICE_BYTES: Final = 4096

# Of a record: its system flag, then the born time, the born host of 8 or 20 bytes, and the store time.
_TIME = struct.Struct(">q")
_SYS_FLAG_AT: Final = 36
_STORE_TIME_AT: Final = 56
_STORE_TIME_AT_V6: Final = 68

Run = tuple[memoryview, int, int]  # a part of a log file: from where, to where

EntryFilter = Callable[[int | None, ExtUnit | None], bool]  # (tags code, None if unknown; extension); False: not wanted
RecordFilter = Callable[[memoryview], bool]


_NO_VIEW: Final = memoryview(b"")


class GetStatus(enum.Enum):
    """The result of a read, by RocketMQ's names."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


FOUND: Final = GetStatus.FOUND  # for hot paths: an attribute lookup in the enum takes a call


class GetResult(msgspec.Struct, gc=False):
    """The answer to a read. `slices` hold whole records, one or several in each, in order; they keep the log alive."""

    status: GetStatus
    next_offset: int  # where to read next
    min_offset: int
    max_offset: int
    slices: list[bytes | memoryview] = []
    count: int = 0
    size: int = 0
    last_store_ms: int = 0  # when the last of them was stored
    behind_bytes: int = 0  # of the log, behind the last message that was looked at
    suggests_slave: bool = False  # so far behind that the disk must be read: a slave should do that


class FilterBudget:
    """The time that one read may spend on the expression of a filter: the reader goes on behind it with its next read.

    The thread's own time counts, so that a busy machine does not make reads shorter.
    """

    __slots__ = ("_began", "_look_at")

    def __init__(self) -> None:
        self._began = time.thread_time()
        self._look_at = time.monotonic() + _FILTER_SECONDS_MAX

    def is_enough(self) -> bool:
        now = time.monotonic()  # a tenth of the cost of the thread's time
        if now < self._look_at:
            return False
        self._look_at = now + _FILTER_SECONDS_MAX / 4
        return time.thread_time() - self._began >= _FILTER_SECONDS_MAX


class QueueReader:
    """Reads queues. May be used by any thread."""

    def __init__(
        self, commit_log: CommitLog, queues: ConsumeQueues, config: StoreConfig, *, physical_memory_bytes: int
    ) -> None:
        self._log, self._queues = commit_log.log, queues
        self._opened_at = self._log.end_offset
        self._physical_memory_bytes = physical_memory_bytes
        self._record_run = record_run()
        self.use(config)
        self._reported: set[tuple[str, int, int]] = set()
        self.corrects_offsets = True  # off on a slave that may lack messages of its master
        self.confirmed = NO_LIMIT  # log offset below which messages may be read: replicas hold them
        self._recovered_ends: dict[ConsumeQueue, int] | None = None  # of the queues that a crash has left

    def note_recovered_ends(self) -> None:
        """Note where the queues end after a crash, which may have cost their last messages.

        A consumer that survived the crash has an offset behind such an end. It continues at that end: messages stored
        since have the offsets of messages that it has consumed.
        """
        self._recovered_ends = {queue: queue.max_offset for queue in self._queues}

    def is_lost(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether all before *offset* can have been consumed only before the crash that cost the end of the
        queue."""
        ends, queue = self._recovered_ends, self._queues.find(topic, queue_id)
        end = queue.max_offset if queue is not None else 0  # also of messages that are not confirmed yet
        return ends is not None and self.corrects_offsets and offset > end

    def _end_at_start(self, queue: ConsumeQueue, end: int) -> int:
        """Return the end of *queue* when the store was opened after a crash; *end* if there was no crash."""
        ends = self._recovered_ends
        return end if ends is None else ends.get(queue, 0)

    def use(self, config: StoreConfig) -> None:
        """Keep to these limits from now on."""
        self.memory_bytes = self._physical_memory_bytes * config.memory_ratio_percent // 100
        self._memory_limits = config.memory_transfer_bytes_max, config.memory_transfer_count_max
        disk_limits = config.disk_transfer_bytes_max, config.disk_transfer_count_max
        # The limits for messages in memory, and for those on the disk.
        self._limits = tuple(zip(self._memory_limits, disk_limits, strict=True))
        self.count_max = max(config.memory_transfer_count_max, config.disk_transfer_count_max)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        entry_filter: EntryFilter | None = None,
        record_filter: RecordFilter | None = None,
    ) -> GetResult:
        """Read at most *max_count* messages from *offset* on that pass the filters, and at least one if there is one.

        StoreError if the system refuses to read the queue: no offset is corrected then.
        """
        max_count = max(min(max_count, self.count_max), 1)
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return self._nothing(GetStatus.NO_MATCHED_LOGIC_QUEUE, offset, 0, 0, 0)
        low, high = queue.min_offset, self.readable_end(queue)
        if not low <= offset < high:
            return self._outside(queue, offset, low, high)
        max_count = min(max_count, high - offset)
        entries = queue.read(offset, max_count)
        if not entries:
            logger.warning("queue %s/%d has no readable entry %d", topic, queue_id, offset)
            return self._nothing(GetStatus.OFFSET_FOUND_NULL, offset, min(queue.next_file(offset), high), low, high)
        if entry_filter is None and record_filter is None:
            found = self._found_at_once(queue, entries, offset, max_count)
            if found is not None:
                return found
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high)
        self._collect(queue, result, entries, max_count, entry_filter, record_filter)
        if result.count:
            result.status = GetStatus.FOUND
        return result

    def _outside(self, queue: ConsumeQueue, offset: int, low: int, high: int) -> GetResult:
        """Answer a read that no message from *low* to *high* can satisfy."""
        if high < offset <= queue.max_offset:  # not confirmed yet: the consumer waits there
            return self._nothing(GetStatus.OFFSET_OVERFLOW_ONE, offset, offset, low, high)
        if high == 0:
            return self._nothing(GetStatus.NO_MESSAGE_IN_QUEUE, offset, 0, low, high)
        if offset < low:
            return self._nothing(GetStatus.OFFSET_TOO_SMALL, offset, low, low, high)
        if offset == high:
            return self._nothing(GetStatus.OFFSET_OVERFLOW_ONE, offset, offset, low, high)
        resumed = max(low, min(high, self._end_at_start(queue, high)))
        return self._nothing(GetStatus.OFFSET_OVERFLOW_BADLY, offset, resumed, low, high)

    def _nothing(self, status: GetStatus, offset: int, corrected: int, low: int, high: int) -> GetResult:
        return GetResult(status, corrected if self.corrects_offsets else offset, low, high)

    def _collect(
        self,
        queue: ConsumeQueue,
        result: GetResult,
        entries: bytes,
        max_count: int,
        entry_filter: EntryFilter | None,
        record_filter: RecordFilter | None,
    ) -> None:
        """Go over *entries* and those behind them, and add the messages that pass to *result*."""
        log, queue_id, opened_at = self._log, queue.queue_id, self._opened_at
        topic = _topic_field(queue.topic)
        log_end, offset = log.end_offset, result.next_offset
        in_disk_below = log_end - self.memory_bytes
        look_until = min(offset + max(_FILTERED_ENTRIES_MAX, max_count), result.max_offset)
        view, base, limit = _NO_VIEW, 0, 0  # a segment, and the log offsets between which it can be read
        picked: list[Run] = []
        count = total = log_offset = 0
        bytes_max, count_max = self._limits
        work = FilterBudget() if record_filter is not None else None
        while entries:
            for log_offset, size, tags_code in ENTRY.iter_unpack(entries):
                if (work is not None and work.is_enough()) or (
                    count
                    and (
                        count >= max_count
                        or total + size > bytes_max[log_offset < in_disk_below]
                        or count >= count_max[log_offset < in_disk_below]
                    )
                ):
                    look_until = offset
                    break
                offset += 1
                if entry_filter is not None and not self._passes(queue, tags_code, entry_filter):
                    continue
                if log_offset < base or log_offset + size > limit:
                    view, base, limit = self._part_with(log_offset, size, in_disk_below, found=count)
                if limit < 0:
                    offset -= 1
                    look_until = offset
                    break
                position = log_offset - base
                if not limit or not is_record(
                    view, position, size, topic, queue_id, offset - 1, log_offset, log_offset < opened_at
                ):
                    self._pass_over(queue, offset - 1, log_offset, size, result)
                    continue
                if record_filter is None or record_filter(view[position : position + size]):
                    picked.append((view, position, position + size))
                    total += size
                    count += 1
            is_done = offset >= look_until or count >= max_count
            entries = b"" if is_done else _next_entries(queue, offset, look_until - offset, found=count)
        result.slices, result.count, result.size, result.next_offset = _join(picked), count, total, offset
        result.last_store_ms = _store_time(picked)
        result.behind_bytes = log_end - log_offset
        result.suggests_slave = result.behind_bytes > self.memory_bytes

    def fresh(
        self, queue: ConsumeQueue, entries: bytes, entries_at: int, offset: int, max_count: int, run: "RecordRun"
    ) -> int | None:
        """Find the messages of the *entries* from byte *entries_at* on without a look at each: all came since the store
        was opened, are in memory and in one log file. None if one of them needs that look.

        *run* has the records then. Return how many bytes of the log are behind the last one.
        """
        (log_offset,) = _TIME.unpack_from(entries, entries_at)
        log_end, log_offset_min = self._log.end_offset, self._opened_at
        if log_offset_min < log_end - self.memory_bytes:
            log_offset_min = log_end - self.memory_bytes
        segment = self._log.find(log_offset)
        if log_offset < log_offset_min or segment is None:
            return None
        bytes_max, count_max = self._memory_limits
        if not run.find(
            segment.tail(0),
            segment.base_offset,
            entries,
            entries_at,
            _topic_field(queue.topic),
            queue.queue_id,
            offset,
            log_offset_min,
            max_count if max_count < count_max else count_max,
            bytes_max,
        ):
            return None
        return log_end - run.last_log_offset

    def _found_at_once(self, queue: ConsumeQueue, entries: bytes, offset: int, max_count: int) -> GetResult | None:
        if self._record_run is None:
            return None
        run = self._record_run()
        behind = self.fresh(queue, entries, 0, offset, max_count, run)
        if behind is None:
            return None
        ends = queue.min_offset, self.readable_end(queue)
        found = run.count, run.total, run.last_store_ms, behind
        return GetResult(FOUND, offset + run.count, *ends, run.slices(), *found, behind > self.memory_bytes)

    def _part_with(self, log_offset: int, size: int, in_disk_below: int, *, found: int) -> tuple[memoryview, int, int]:
        """Return the readable part of the segment with this record, and between which log offsets it lies; empty if the
        record is not there.

        Where the disk may have to be read, it is limited to readable pages: access to any other page is a SIGBUS. If
        this record cannot be read, the messages *found* so far are delivered (the last number is -1); the next read
        raises the error.
        """
        segment = self._log.find(log_offset)
        view, base = (segment.tail(0), segment.base_offset) if segment is not None else (_NO_VIEW, 0)
        if segment is None or log_offset + size > base + len(view):
            return _NO_VIEW, 0, 0
        if log_offset >= max(in_disk_below, self._opened_at):
            return view, base, base + len(view)
        try:
            start, end = self._log.readable_around(log_offset, log_offset + size)
        except StoreDamaged:
            if not found:
                raise
            return _NO_VIEW, 0, -1
        return view[start - base : end - base], start, end

    def _passes(self, queue: ConsumeQueue, tags_code: int, entry_filter: EntryFilter) -> bool:
        if queue.ext is None or not is_ext_address(tags_code):
            return entry_filter(tags_code, None)
        unit = queue.ext.get(tags_code)
        # A unit that is lost: the code is unknown, and the client looks at the tags itself.
        return entry_filter(None if unit is None else unit.tags_code, unit)

    def _pass_over(self, queue: ConsumeQueue, offset: int, log_offset: int, size: int, result: GetResult) -> None:
        """Skip a message that the log does not have: it was deleted, or there is damage."""
        if 0 <= log_offset < self._log.min_offset or is_blank(log_offset, size):
            result.status = GetStatus.MESSAGE_WAS_REMOVING
            return
        if self._log.failure is not None and log_offset + size > self._log.flushed_offset:
            self._log.check_usable()  # the kernel may have dropped pages that a flush could not write: do not skip
        place = (queue.topic, queue.queue_id, offset)
        if place in self._reported:
            return
        if len(self._reported) >= _REPORTS_MAX:
            self._reported.clear()
        self._reported.add(place)
        logger.error(
            "message %d of %s/%d is skipped: the record at log offset %d is damaged or another message",
            offset,
            queue.topic,
            queue.queue_id,
            log_offset,
        )

    # Where a queue begins and ends

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first message that is still there. 0 for a queue that does not exist, as Apache answers."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset behind the last message, which the next one will get."""
        queue = self._queues.find(topic, queue_id)
        return self.readable_end(queue) if queue is not None else 0

    def readable_end(self, queue: ConsumeQueue) -> int:
        """Return the offset behind the last message of *queue* that may be read."""
        if queue.max_log_offset <= self.confirmed:
            return queue.max_offset
        confirmed = self.confirmed
        return queue.first_where(
            queue.min_offset, queue.max_offset, lambda log_offset, size: log_offset + size > confirmed
        )

    def log_offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return the log offset of a message; None if it is not there."""
        queue = self._queues.find(topic, queue_id)
        entries = queue.entries(offset, 1) if queue is not None else []
        return entries[0][0] if entries else None

    def is_on_disk(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a message is so far behind that it has probably left the memory."""
        log_offset = self.log_offset(topic, queue_id, offset)
        return log_offset is not None and self._log.end_offset - log_offset > self.memory_bytes


@lru_cache(10_000)
def _topic_field(topic: str) -> bytes:
    return topic_field(topic.encode())


def _next_entries(queue: ConsumeQueue, offset: int, count: int, *, found: int) -> bytes:
    """Continue the read. If that fails, the messages *found* are delivered, and the next read raises the error."""
    try:
        return queue.read(offset, count)
    except StoreError:
        if not found:
            raise
        return b""


def _store_time(picked: list[Run]) -> int:
    """Return the store time of the last of these records."""
    if not picked:
        return 0
    view, position, _ = picked[-1]
    at = position + (_STORE_TIME_AT_V6 if view[position + _SYS_FLAG_AT + 3] & BORN_HOST_V6 else _STORE_TIME_AT)
    store_time: int = _TIME.unpack_from(view, at)[0]
    return store_time


def _join(picked: list[Run]) -> list[bytes | memoryview]:
    """Return the records as slices, those that lie side by side as one; and many short ones copied into one: to hand
    32 of 1 KiB to the socket one by one takes longer (30 us) than to copy them (19 us, measured with uvloop)."""
    if not picked:
        return []
    slices: list[bytes | memoryview] = []
    view, start, end = picked[0]
    for other, next_start, next_end in picked[1:]:
        if next_start == end and other is view:
            end = next_end
        else:
            slices.append(view[start:end])
            view, start, end = other, next_start, next_end
    slices.append(view[start:end])
    if len(slices) >= _MANY_SLICES and sum(map(len, slices)) <= _SHORT_SLICE_BYTES * len(slices):
        return [b"".join(slices)]
    return slices
