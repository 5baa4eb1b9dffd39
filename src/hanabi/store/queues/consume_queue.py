"""One consume queue: for each message of one topic and queue, where it lies in the commit log.

    +------------------+-----------+--------------------+
    | log offset   i64 | size  i32 | tags code      i64 |     20 bytes an entry, big-endian; entry n at byte 20 n
    +------------------+-----------+--------------------+

An entry is there when its log offset is not negative and its size is positive (ConsumeQueue.java, recover); zeros are
none. A queue that does not begin at 0 has blank entries (0, 2147483647, 0) before its first one in that file. The tags
code is the hash of the tags, a delivery time in the delay topic, or an address in consumequeue_ext.

This class orders and finds entries. It does not know what is in the commit log: times come from a function that is
handed in, and whether the record at an offset is the right message is for the reader to check.
"""

import struct
from collections.abc import Callable
from typing import Final

from hanabi.errors import StoreDamaged
from hanabi.store.queues.consume_queue_ext import ConsumeQueueExt, is_ext_address
from hanabi.store.queues.queue_files import TAIL_BYTES, QueueFamily, QueueFiles

ENTRY: Final = struct.Struct(">qiq")
ENTRY_BYTES: Final = ENTRY.size
BLANK_SIZE: Final = 2**31 - 1
BLANK: Final = ENTRY.pack(0, BLANK_SIZE, 0)

_SCAN_BYTES: Final = 52_000 * ENTRY_BYTES  # about 1 MiB

Entry = tuple[int, int, int]

_pack = ENTRY.pack
_IS_NEGATIVE: Final = bytes(128) + b"\x01" * 128  # by the first byte of a big-endian number


class QueueOrderError(StoreDamaged):
    """An entry that does not follow the last one: something is missing before it, or it was here already."""


def is_present(log_offset: int, size: int) -> bool:
    """Return whether this is an entry at all."""
    return log_offset >= 0 and size > 0


def is_blank(log_offset: int, size: int) -> bool:
    """Return whether this entry only fills the place before the first message."""
    return size == BLANK_SIZE and log_offset == 0


def count_present(data: bytes) -> int:
    """Return the number of entries at the start of *data*. Works on columns, so a megabyte takes 1 ms."""
    count = len(data) // ENTRY_BYTES
    data = data[: count * ENTRY_BYTES]
    signs = data[0::ENTRY_BYTES], data[8::ENTRY_BYTES]
    for column in signs:
        if not column.isascii():
            count = min(count, column.translate(_IS_NEGATIVE).index(1))
    size_is_zero = 0
    for byte in range(8, 12):
        size_is_zero |= int.from_bytes(data[byte::ENTRY_BYTES])
    none_at = size_is_zero.to_bytes(len(signs[0])).find(0)
    return count if none_at < 0 else min(count, none_at)


class ConsumeQueue(QueueFiles):
    """The entries of one queue. Invariant: those in [min_offset, max_offset) can be read; their log offsets ascend.

    Inherits its files instead of having them: there may be 40,000 queues, and a put is on the path of every message.
    """

    __slots__ = ("ext", "max_log_offset", "max_offset", "min_offset")

    def __init__(self, family: QueueFamily, topic: str, queue_id: int, ext: ConsumeQueueExt | None = None) -> None:
        super().__init__(family, topic, queue_id)
        self.ext = ext
        self.min_offset = 0  # in messages, as all queue offsets
        self.max_offset = 0  # the next message gets this one
        self.max_log_offset = -1  # behind the last message; -1: there is none

    # writing

    def put(self, queue_offset: int, log_offset: int, size: int, tags_code: int) -> bool:
        """Add the entry of one message; False if it was here already.

        Raises QueueOrderError if it does not follow the last one. Never fails because of the disk: bytes that cannot be
        written stay in the tail, and the next flush raises the error.
        """
        if queue_offset != self.max_offset or log_offset < self.max_log_offset or size <= 0 or log_offset < 0:
            return self._put_unexpected(queue_offset, log_offset, size, tags_code)
        tail = self.tail
        tail += _pack(log_offset, size, tags_code)
        self.max_offset = queue_offset + 1
        self.max_log_offset = log_offset + size
        # Looks at the tail after the append: another thread that empties it in between finds this entry, or we do.
        if len(tail) == ENTRY_BYTES:
            self.family.dirty.add(self)
        elif not len(tail) % TAIL_BYTES:
            self.write_full_tail()
        return True

    def put_extended(
        self, queue_offset: int, log_offset: int, size: int, tags_code: int, store_time_ms: int, bitmap: bytes | None
    ) -> bool:
        """Put an entry, and the store time and filter bits into the extension, if this queue has one."""
        if self.ext is None or queue_offset != self.max_offset or log_offset < self.max_log_offset:
            return self.put(queue_offset, log_offset, size, tags_code)
        address = self.ext.put(tags_code, store_time_ms, bitmap)
        return self.put(queue_offset, log_offset, size, tags_code if address is None else address)

    def _put_unexpected(self, queue_offset: int, log_offset: int, size: int, tags_code: int) -> bool:
        if not is_present(log_offset, size) or queue_offset < 0:
            raise ValueError(f"entry {queue_offset} of {self.topic}/{self.queue_id}: offset {log_offset}, size {size}")
        if log_offset + size <= self.max_log_offset:
            return False
        if queue_offset < self.max_offset:
            existing = self.entry(queue_offset)
            if existing is not None and existing[:2] == (log_offset, size):
                return False
        if queue_offset > self.max_offset and self.max_log_offset < 0 and self.first == self.end:
            self.skip_to(queue_offset)
            return self.put(queue_offset, log_offset, size, tags_code)
        raise QueueOrderError(
            f"queue {self.topic}/{self.queue_id}: message {queue_offset} at log offset {log_offset} does not follow "
            f"{self.max_offset - 1}, which ends at {self.max_log_offset}"
        )

    def skip_to(self, queue_offset: int) -> None:
        """Let *queue_offset* be the next one. The gap is filled with blanks, for messages that are gone.

        An empty queue begins with the file that holds *queue_offset* (as ConsumeQueue.java, fillPreBlank).
        """
        if queue_offset < self.max_offset:
            raise ValueError(f"skip to {queue_offset} in a queue that has {self.max_offset} messages")
        position = queue_offset * ENTRY_BYTES
        if self.first == self.end:
            base = position - position % self.family.file_bytes
            if base != self.first:
                self.delete_all()
                self.set_range(base, base)
            self.min_offset = queue_offset
        while self.end < position:
            self.append_bytes(BLANK * min((position - self.end) // ENTRY_BYTES, _SCAN_BYTES // ENTRY_BYTES))
        self.max_offset = queue_offset

    # reading

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return the bytes of at most *count* entries from *queue_offset* on; none if it is not in [min_offset,
        max_offset).

        Fewer than there should be if a file is damaged, which is logged. Take them apart with `ENTRY.iter_unpack`.
        """
        if not self.min_offset <= queue_offset < self.max_offset:
            return b""
        # Not beyond max_offset: the tail may be an entry ahead of it for a moment.
        data = self.read_bytes(queue_offset * ENTRY_BYTES, min(count, self.max_offset - queue_offset) * ENTRY_BYTES)
        return data if not len(data) % ENTRY_BYTES else data[: -(len(data) % ENTRY_BYTES)]

    def entries(self, queue_offset: int, count: int) -> list[Entry]:
        """Read entries decoded: log offset, size, tags code."""
        return list(ENTRY.iter_unpack(self.read(queue_offset, count)))

    def entry(self, queue_offset: int) -> Entry | None:
        """Return one entry that lies in the files or the tail, even below `min_offset`."""
        data = self.read_bytes(queue_offset * ENTRY_BYTES, ENTRY_BYTES)
        if len(data) < ENTRY_BYTES:
            return None
        log_offset, size, tags_code = ENTRY.unpack(data)
        return log_offset, size, tags_code

    def next_file(self, queue_offset: int) -> int:
        """Return the first queue offset in the file after that of *queue_offset*: where a reader goes on behind
        damage."""
        per_file = self.family.file_bytes // ENTRY_BYTES
        return queue_offset + per_file - queue_offset % per_file

    def first_where(self, low: int, high: int, holds: Callable[[int, int], bool]) -> int:
        """Return the first offset in [low, high) whose log offset and size *holds* accepts, or *high*.

        Binary search: *holds* must be false, then true. An entry that cannot be read counts as accepted.
        """
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is None or holds(entry[0], entry[1]):
                high = middle
            else:
                low = middle + 1
        return low

    # keeping in step with the commit log

    def truncate(self, log_offset: int) -> int:
        """Forget the messages that do not end by *log_offset*, the end of the log; return how many. For recovery."""
        first = self.first // ENTRY_BYTES

        def is_beyond(offset: int, size: int) -> bool:
            # Not only where it begins, as Apache: a last entry with a damaged size would bar the way for the next ones.
            return not is_present(offset, size) or (offset + size > log_offset and not is_blank(offset, size))

        # From the end backwards in growing steps: usually there is nothing to do, or little.
        high, step = self.max_offset, 1
        while high > first:
            last = self.entry(high - 1)
            if last is not None and not is_beyond(last[0], last[1]):
                break
            high, step = max(high - step, first), step * 2
        kept = self.first_where(high, min(high + step, self.max_offset), is_beyond)
        dropped = self.max_offset - kept
        if dropped:
            self.truncate_to_offset(kept)
        return dropped

    def truncate_to_offset(self, queue_offset: int) -> None:
        """Forget the messages from *queue_offset* on. For recovery only."""
        if queue_offset * ENTRY_BYTES < self.first:
            self.destroy()
            return
        self.truncate_to(queue_offset * ENTRY_BYTES)
        self.max_offset = queue_offset
        self.min_offset = min(self.min_offset, queue_offset)
        self._end_changed()
        if self.ext is not None:
            self.ext.truncate_behind(self._last_ext_address())

    def correct_min(self, log_offset_min: int) -> None:
        """Move `min_offset` to the first message at or behind *log_offset_min*, where the log now begins.

        As Apache 5.x: if all are gone, it becomes `max_offset`. (4.9.8 left it where it was, and lag looked too large.)
        """
        low = self.min_offset
        if low >= self.max_offset:
            return

        def is_alive(log_offset: int, size: int) -> bool:
            # An entry that is none is damage. Counted as alive it only leaves the minimum too low, which is harmless.
            return not is_present(log_offset, size) or (log_offset >= log_offset_min and not is_blank(log_offset, size))

        oldest = self.entry(low)
        if oldest is None or is_alive(oldest[0], oldest[1]):
            return
        self.min_offset = self.first_where(low, self.max_offset, is_alive)

    def delete_expired(self, log_offset_min: int) -> int:
        """Delete the files whose messages all lie below *log_offset_min*, but not the last; return how many."""
        position = self.first
        for base in self.bases()[:-1]:
            last = self.entry((base + self.family.file_bytes) // ENTRY_BYTES - 1)
            if last is None or not is_present(last[0], last[1]) or last[0] >= log_offset_min:
                break
            position = base + self.family.file_bytes
        count = self.delete_before(position)
        self.min_offset = max(self.min_offset, self.first // ENTRY_BYTES)
        self.correct_min(log_offset_min)
        if self.ext is not None:
            oldest = self.entry(self.min_offset) if self.min_offset < self.max_offset else None
            if oldest is not None and is_ext_address(oldest[2]):
                self.ext.delete_before_address(oldest[2])
        return count

    def destroy(self) -> None:
        """Delete everything. The queue is then as new."""
        self.delete_all()
        self.min_offset = self.max_offset = 0
        self.max_log_offset = -1
        if self.ext is not None:
            self.ext.delete_all()

    # loading

    def load(self, bases: list[int], *, thorough: bool) -> str | None:
        """Load the content of the files at *bases*; return the fault in them, if there is one.

        Looks at the last file only, and there searches for the end. *thorough*, after a crash, reads the last three
        from their beginning, as any page that was not synced may be missing. Bytes behind the end are removed, so
        that they cannot come back as entries later.
        """
        problem = None
        whole = contiguous(bases, self.family.file_bytes)
        if whole < len(bases):
            problem = f"{self.path(bases[whole - 1] + self.family.file_bytes)} is missing"
        end, last, is_clean = self._find_end(bases[:whole], thorough=thorough)
        if not is_clean and problem is None:
            problem = f"{self.path(last)} is damaged at byte {end - last}"
        for base in reversed(bases):  # so that a kill leaves no hole
            if base > last:
                self.delete_file(base)
        self.set_range(bases[0], end)
        if problem is not None:
            self.cut_file(last, end - last)  # which also gives it its full size
        self.min_offset, self.max_offset = bases[0] // ENTRY_BYTES, end // ENTRY_BYTES
        self._end_changed()
        return problem

    def load_ext(self, bases: list[int]) -> None:
        """Load the extension's files: everything up to the unit of the last entry."""
        if self.ext is not None:
            self.ext.load(bases, self._last_ext_address())

    def _end_changed(self) -> None:
        last = self._last_entry()
        self.max_log_offset = -1 if last is None or is_blank(last[0], last[1]) else last[0] + last[1]

    def _last_entry(self) -> Entry | None:
        return self.entry(self.max_offset - 1) if self.max_offset * ENTRY_BYTES > self.first else None

    def _last_ext_address(self) -> int | None:
        last = self._last_entry()
        return last[2] if last is not None and is_ext_address(last[2]) else None

    def _find_end(self, bases: list[int], *, thorough: bool) -> tuple[int, int, bool]:
        """Return the end of the entries, the last file with entries, and whether no damage was found."""
        file_bytes = self.family.file_bytes
        if thorough:
            for base in bases[-3:]:
                used, zeros_follow = self._scan_file(base)
                if used < file_bytes:
                    return base + used, base, zeros_follow and base == bases[-1]
            return bases[-1] + file_bytes, bases[-1], True
        is_clean = True
        for base in reversed(bases):
            used, zeros_follow = self._search_file(base)
            is_clean = is_clean and zeros_follow and (base == bases[-1] or used == file_bytes)
            if used:
                break
        return base + used, base, is_clean

    def _scan_file(self, base: int) -> tuple[int, bool]:
        used, ask = 0, TAIL_BYTES
        while used < self.family.file_bytes:
            data = self.read_in_file(base, used, ask)
            ask = min(ask * 4, _SCAN_BYTES)  # most queues are short, and zeros cost as much to read as entries
            present = count_present(data) * ENTRY_BYTES
            used += present
            if present < len(data) or not data:
                return used, not data[present:].strip(b"\0")
        return used, True

    def _search_file(self, base: int) -> tuple[int, bool]:
        """Search one file for its end, by binary search over the first entry of each block."""
        data = self.read_in_file(base, 0, TAIL_BYTES)
        low, high = 0, -(-self.family.file_bytes // TAIL_BYTES)
        if count_present(data) * ENTRY_BYTES == TAIL_BYTES:
            while high - low > 1:
                middle = (low + high) // 2
                if count_present(self.read_in_file(base, middle * TAIL_BYTES, ENTRY_BYTES)):
                    low = middle
                else:
                    high = middle
            data = self.read_in_file(base, low * TAIL_BYTES, TAIL_BYTES)
        present = count_present(data) * ENTRY_BYTES
        return low * TAIL_BYTES + present, not data[present:].strip(b"\0")


def contiguous(bases: list[int], file_bytes: int) -> int:
    """Return the number of *bases* that follow each other without a hole."""
    for index in range(1, len(bases)):
        if bases[index] != bases[0] + index * file_bytes:
            return index
    return len(bases)
