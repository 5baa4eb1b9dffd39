"""One file of the key index: a hash table on disk from the hash of "topic#key" to positions in the commit log.

    0    +---------------------------------------------------------------------------+
         | begin time i64 | end time i64 | begin log offset i64 | end log offset i64 |    of the first and last entry
         | slots in use i32 | next entry number i32 |                                     entries count from 1
    40   +---------------------------------------------------------------------------+
         | newest entry number i32 |  x maxHashSlotNum          hash % slots; 0: none
         +---------------------------------------------------------------------------+
         | key hash i32 | log offset i64 | seconds i32 | previous entry number i32 |  x maxIndexNum; number 0 is unused
         +---------------------------------------------------------------------------+

Agrees with IndexFile.java and IndexHeader.java byte for byte, big-endian. `seconds` counts from the begin time. The
hash is Java's of the text, made positive. Only hashes are compared here: the reader compares the keys in the records,
so a damaged file can hide a message from a search but never show a wrong one.

A file is mapped. The blocks of header and slots are allocated when it is made or first changed, those of the entries
in steps (see `blocks`): a full disk is an error of that call, and not a signal later. It is unmapped when the last
reader lets it go, so a file may be deleted while another thread searches it.

An unreadable page, or one behind the end of a truncated file, raises StoreDamaged: pages are checked with the kernel
before access. Puts skip the check for speed: the slots are read when the file is opened.
"""

import array
import contextlib
import logging
import mmap
import os
import struct
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.files import blocks, mapped_pages
from hanabi.store.files.segment import sync_file

HEADER: Final = struct.Struct(">qqqqii")
SLOT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">iqii")
PAIR: Final = struct.Struct(">iq")  # of an entry to come: key hash, log offset

PAUSE_STEPS: Final = 1_024  # of a chain, about a millisecond
CHUNK_BITS: Final = 16  # of a file's chunks, which are looked at only when all of their pages can be read

_INT_MAX: Final = 2**31 - 1
_SLOTS_AT: Final = HEADER.size
_SLOT_BYTES: Final = SLOT.size
_ENTRY_BYTES: Final = ENTRY.size

logger = logging.getLogger(__name__)

_pack_header, _pack_slot, _pack_entry = HEADER.pack_into, SLOT.pack_into, ENTRY.pack_into
_pack_pair = PAIR.pack
_unpack_slot, _unpack_entry = SLOT.unpack_from, ENTRY.unpack_from


def index_file_bytes(slots: int, entries_max: int) -> int:
    """Return the length of an index file: 420,000,040 bytes with Apache's defaults."""
    return HEADER.size + slots * SLOT.size + entries_max * ENTRY.size


class IndexFile:
    """One index file. Invariant: 1 <= next_entry <= entries_max; entries [1, next_entry) are in their slots' chains.

    One thread writes, and only entries below `allocated_entries`; another one may allocate and sync.
    """

    def __init__(self, path: Path, slots: int, entries_max: int, fd: int, *, writable: bool) -> None:
        """Use `create` or `open`. Takes *fd* over."""
        self.path, self.slots, self.entries_max = path, slots, entries_max
        self.is_synced = True
        self.is_sealed = not writable  # nothing may be added
        self._fd = fd
        self._close_fd = weakref.finalize(self, os.close, fd)
        self._entries_at = _SLOTS_AT + slots * SLOT.size
        self.allocated_entries = 0  # 0: not even header and slots are known to have blocks
        self._allocated = 0
        self._allocating = threading.Lock()
        self._file_bytes = index_file_bytes(slots, entries_max)
        self._writable = writable
        self._readable = range(0)  # where entries may begin in the part that was last asked for
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(fd, self._file_bytes, access=access)
        self._check_readable(0, HEADER.size)
        header: tuple[int, int, int, int, int, int] = HEADER.unpack_from(self._map)
        self.begin_ms, self.end_ms, self.begin_log_offset, self.end_log_offset, self.slots_used, next_entry = header
        self.next_entry = min(max(next_entry, 1), entries_max)

    @classmethod
    def create(
        cls, path: Path, slots: int, entries_max: int, *, end_log_offset: int = 0, end_ms: int = 0
    ) -> "IndexFile":
        """Make a new file with the blocks of its first entries. It goes on from where the file before it ends."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError.from_os_error(error, f"creating {path}") from error
        try:
            # The header first: from a file without one, left by a kill, an Apache broker goes on as from an empty index
            # and has the messages of its recovery in it twice. The number of the next entry is 0 as long as there is
            # none, as Apache's.
            os.pwrite(fd, HEADER.pack(end_ms, end_ms, end_log_offset, end_log_offset, 0, 0), 0)
            os.ftruncate(fd, index_file_bytes(slots, entries_max))
        except OSError as error:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise StoreError.from_os_error(error, f"creating {path}") from error
        with contextlib.ExitStack() as undo:
            undo.callback(path.unlink, missing_ok=True)
            try:
                file = cls(path, slots, entries_max, fd, writable=True)
            except OSError as error:
                raise StoreError.from_os_error(error, f"mapping {path}") from error
            file.allocate(2)
            undo.pop_all()
        file.is_synced = False
        return file

    @classmethod
    def open(cls, path: Path, slots: int, entries_max: int, *, writable: bool = True) -> "IndexFile":
        """Open a file that has the right size, and look whether its header agrees with its entries."""
        try:
            fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
            file = cls(path, slots, entries_max, fd, writable=writable)
        except OSError as error:
            raise StoreError.from_os_error(error, f"opening {path}") from error
        if not file.is_full:
            file._check_slots_readable()
        file._check()
        return file

    @property
    def is_full(self) -> bool:
        return self.is_sealed or self.next_entry >= self.entries_max

    def allocate(self, end: int) -> None:
        """Give header, slots and the entries below *end*, at least, their blocks; StoreFull if the disk has none. May
        block. Any thread."""
        with self._allocating:
            if self.allocated_entries < min(end, self.entries_max):
                self._allocate_step(self._entry_at(end))

    def allocate_ahead(self) -> None:
        """Allocate the next step when half of the last one is used, as far as the disk has room. May block."""
        used = (self.next_entry + 1) * ENTRY.size
        with self._allocating:
            if self._allocated < min(self._entries_at + used + _step_bytes(used) // 2, self._file_bytes):
                self._allocate_step(max(self._allocated, self._entries_at))

    def _allocate_step(self, end: int) -> None:
        ahead = _step_bytes(end - self._entries_at)
        try:
            self._allocated = blocks.allocate(self._fd, self._allocated, end, ahead, self._file_bytes)
        except OSError as error:
            raise StoreError.from_os_error(error, f"the entries of {self.path}") from error
        self.allocated_entries = (self._allocated - self._entries_at) // ENTRY.size

    def _entry_at(self, number: int) -> int:
        return self._entries_at + number * _ENTRY_BYTES

    def put(self, hashed_key: int, log_offset: int, store_ms: int) -> None:
        """Add one entry. The file must not be full."""
        self.put_all((hashed_key,), log_offset, store_ms)

    def put_all(self, hashed_keys: Sequence[int], log_offset: int, store_ms: int) -> None:
        """Add the entries of one message. The file must have room for all of them. StoreFull leaves it as it was."""
        self.put_pairs(b"".join([_pack_pair(hashed_key, log_offset) for hashed_key in hashed_keys]), store_ms)

    def put_pairs(self, pairs: bytes, store_ms: int) -> None:
        """Add an entry for each of *pairs*, packed: the hash of a key, and the log offset of its message. As `put_all`,
        for several messages."""
        first, begin_ms = self.next_entry, self.begin_ms
        end = first + len(pairs) // PAIR.size
        if end > self.allocated_entries:
            self.allocate(end)
        if first == 1:
            self.begin_ms, self.begin_log_offset = store_ms, PAIR.unpack_from(pairs)[1]
        self.slots_used, self.end_log_offset = link_entries(
            self._map, self.slots, first, pairs, begin_ms, store_ms, self.slots_used
        )
        self.is_synced = False
        self.next_entry = end
        self.end_ms = store_ms  # last: a sync in another thread notes this time as safe

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Return key hash, log offset, seconds and previous number of an entry."""
        at = self._entries_at + number * _ENTRY_BYTES
        if at not in self._readable:
            self._check_entry_readable(number)
        hashed_key, log_offset, seconds, previous = _unpack_entry(self._map, at)
        return hashed_key, log_offset, seconds, previous

    def has_times_in(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether the file's time overlaps with [begin_ms, end_ms] (IndexFile.java, isTimeMatched)."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    def chain(self, hashed_key: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Yield the log offsets under *hashed_key*, newest first; None after every PAUSE_STEPS steps, for the caller to
        stop.

        Entry numbers must fall along a chain: a damaged link can end a search early but not make it run in a circle. A
        chain may begin with entries that do not count yet: another thread is writing a run of them. StoreDamaged where
        an entry cannot be read.
        """
        slot_at = _SLOTS_AT + hashed_key % self.slots * SLOT.size
        self._check_readable(slot_at, slot_at + SLOT.size)
        number: int = _unpack_slot(self._map, slot_at)[0]
        readable = bytearray((self._file_bytes >> CHUNK_BITS) + 1)
        below, base_ms = self.entries_max, self.begin_ms
        low = min(max(-((base_ms - begin_ms) // 1000), 0), _INT_MAX)  # the seconds of entries in [begin_ms, end_ms]
        high = min(max((end_ms - base_ms) // 1000, -1), _INT_MAX)
        while 0 < number < below:
            chunk = self._entry_at(number) >> CHUNK_BITS
            if not readable[chunk]:
                self._check_entry_readable(number)
                readable[chunk] = True
            log_offset, number, below = follow_chain(
                self._map, self._entries_at, number, below, hashed_key, low, high, PAUSE_STEPS, readable
            )
            yield log_offset if log_offset >= 0 else None

    def _time_of(self, number: int, seconds: int) -> int:
        # The first entry's seconds may count from the end of the file before; its time is the begin time itself.
        return self.begin_ms + seconds * 1000 if number > 1 else self.begin_ms

    def truncate(self, log_offset: int) -> int:
        """Take back the entries from *log_offset* of the log on, newest first; return how many."""
        taken = 0
        if self.is_full and self.end_log_offset >= log_offset:
            self._check_slots_readable()  # in any other file the slots were read at opening
        while self.next_entry > 1:
            number = self.next_entry - 1
            hashed_key, entry_log_offset, seconds, previous = self.entry(number)
            if 0 <= entry_log_offset < log_offset:
                self.end_log_offset = min(self.end_log_offset, entry_log_offset)
                if taken:
                    self.end_ms = min(self.end_ms, self._time_of(number, seconds) + 999)
                break
            self._take_back(number, hashed_key, previous)
            taken += 1
        if taken:
            if self.next_entry == 1:
                self.end_log_offset, self.end_ms = self.begin_log_offset, self.begin_ms = 0, 0
            self._write_header()
        return taken

    def repair_slots(self) -> int:
        """Repair slots that point behind the last entry: point them at their newest entry. Return their number.

        After a power cut: the page of a slot was written and those of its entries were not. Without this the older
        entries of such a slot would be lost to every search.
        """
        numbers = self._slot_numbers()
        if min(numbers) >= 0 and max(numbers) < self.next_entry:
            return 0
        lost = {slot for slot, number in enumerate(numbers) if not 0 <= number < self.next_entry}
        newest = dict.fromkeys(lost, 0)
        for number in range(self.next_entry - 1, 0, -1) if lost else ():
            slot = max(self.entry(number)[0], 0) % self.slots
            if slot in lost:
                newest[slot] = number
                lost.discard(slot)
                if not lost:
                    break
        for slot, number in newest.items():
            _pack_slot(self._map, _SLOTS_AT + slot * SLOT.size, number)
        self.is_synced = self.is_synced and not newest
        return len(newest)

    def _slot_numbers(self) -> "array.array[int]":
        self._check_slots_readable()
        slots = array.array("i", self._map[_SLOTS_AT : self._entries_at])
        if sys.byteorder == "little":
            slots.byteswap()
        return slots

    def _take_back(self, number: int, hashed_key: int, previous: int) -> None:
        slot_at = _SLOTS_AT + max(hashed_key, 0) % self.slots * SLOT.size
        if _unpack_slot(self._map, slot_at)[0] == number:
            _pack_slot(self._map, slot_at, previous if 0 < previous < number else 0)
            if previous <= 0:
                self.slots_used -= 1
        if any(self.entry(number)):  # where there is nothing there may be no block either
            _pack_entry(self._map, self._entries_at + number * ENTRY.size, 0, 0, 0, 0)
        self.next_entry = min(self.next_entry, number)

    def _write_header(self) -> None:
        next_entry = self.next_entry if self.next_entry > 1 else 0
        header = self.begin_ms, self.end_ms, self.begin_log_offset, self.end_log_offset, self.slots_used, next_entry
        _pack_header(self._map, 0, *header)
        self.is_synced = False

    def _check(self) -> None:
        number = self.next_entry
        if not self.is_full:
            self._take_back_uncounted()
        if number == 1:
            return
        last, first = self.entry(number - 1)[1], self.entry(1)[1]
        if last != self.end_log_offset or first != self.begin_log_offset:
            # Either may be right. A low end costs duplicate entries at worst; a high one would keep messages out
            # of the index.
            logger.error("%s: its header does not agree with its entries; nothing more is added to it", self.path)
            self.end_log_offset = max(min(last, self.end_log_offset), 0)
            self.is_sealed = True

    def _take_back_uncounted(self) -> None:
        """Remove entries of one message or of a batch that a kill left before the header counted them.

        Their slots point at them: an entry written over them would take the slots' numbers for wrong and end their
        chains.
        """
        first = end = self.next_entry
        while end < self.entries_max and any(self.entry(end)):
            end += 1
        slots_used = self.slots_used
        for number in range(end - 1, first - 1, -1):
            hashed_key, _, _, previous = self.entry(number)
            self._take_back(number, hashed_key, previous)
        self.slots_used = slots_used

    def _check_slots_readable(self) -> None:
        self._check_readable(_SLOTS_AT, self._entries_at)

    def _check_entry_readable(self, number: int) -> None:
        """Check that an entry can be read, with those of its chunk that are before it, or in use.

        The other pages may have no blocks yet: reading them could allocate blocks, which fails on a full disk.
        """
        chunk = self._entry_at(number) >> CHUNK_BITS
        used = self._entry_at(max(number, self.next_entry - 1))
        start, last = chunk << CHUNK_BITS, min((chunk + 1 << CHUNK_BITS) - 1, used)
        self._check_readable(start, last + _ENTRY_BYTES)
        self._readable = range(start, last + 1)

    def _check_readable(self, start: int, end: int) -> None:
        end = min(end, self._file_bytes)
        try:
            mapped_pages.check_readable(self._map, self._fd, start, end, writable=self._writable)
        except OSError as error:
            raise StoreDamaged(f"{self.path}: bytes {start} to {end} cannot be read ({error.strerror})") from error

    def sync(self) -> None:
        """Block until everything put before the call is on the disk. Other threads run meanwhile."""
        self.is_synced = True  # first, so that a put meanwhile takes it back
        try:
            sync_file(self._fd)
        except OSError as error:
            self.is_synced = False
            raise StoreError.from_os_error(error, f"syncing {self.path}") from error

    def close(self) -> None:
        """Unmap and close, when no other thread uses the file."""
        self._map.close()
        self._close_fd()

    def delete(self) -> None:
        """Unlink the file. Searches and syncs that are running keep it until they end."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError.from_os_error(error, f"deleting {self.path}") from error


def _step_bytes(used: int) -> int:
    """Return the number of bytes to allocate ahead of *used* bytes of entries. Less than the log's step: an entry is
    smaller than a message."""
    return blocks.step_bytes(used) // 4


def link_entries(
    mapped: mmap.mmap, slots: int, first: int, pairs: bytes, begin_ms: int, store_ms: int, slots_used: int
) -> tuple[int, int]:
    """Write the entries from number *first* on, one for each of *pairs* (see `IndexFile.put_pairs`), put them in front
    of their slots' chains, and count them in the header; return how many slots are in use, and the last log offset.

    *begin_ms* is the file's begin time until now, of an empty file the end of the one before: its first entry counts
    seconds from there, as in Apache.
    """
    entries_at = _SLOTS_AT + slots * _SLOT_BYTES
    seconds = min((store_ms - begin_ms) // 1000, _INT_MAX) if 0 < begin_ms < store_ms else 0
    number, log_offset = first, 0
    for number, (hashed_key, log_offset) in enumerate(PAIR.iter_unpack(pairs), start=first):
        slot_at = _SLOTS_AT + hashed_key % slots * _SLOT_BYTES
        (previous,) = _unpack_slot(mapped, slot_at)
        if not 0 < previous < number:
            previous = 0
            slots_used += 1
        # In this order: a process killed in between leaves entries that do not count yet, which `open` takes back.
        entry_seconds = seconds if first > 1 or number == 1 else 0
        _pack_entry(mapped, entries_at + number * _ENTRY_BYTES, hashed_key, log_offset, entry_seconds, previous)
        _pack_slot(mapped, slot_at, number)
    begin = HEADER.unpack_from(mapped) if first > 1 else (store_ms, 0, PAIR.unpack_from(pairs)[1])
    _pack_header(mapped, 0, begin[0], store_ms, begin[2], log_offset, slots_used, number + 1)
    return slots_used, log_offset


def follow_chain(
    mapped: mmap.mmap,
    entries_at: int,
    number: int,
    below: int,
    hashed_key: int,
    low: int,
    high: int,
    steps_max: int,
    readable: bytearray,
) -> tuple[int, int, int]:
    """Go back along a chain from entry *number* to one with *hashed_key* and seconds in [low, high].

    Return its log offset, or -1, and where to go on: the number of an entry, 0 at the end of the chain, and the one
    that it must be below. No more than *steps_max* entries are read, and none whose chunk is not marked as
    *readable*. The compiled version lets other threads run.
    """
    if len(mapped) >> CHUNK_BITS >= len(readable):
        raise ValueError(f"{len(readable)} chunks are not all of the file")
    if entries_at + below * _ENTRY_BYTES > len(mapped):
        raise ValueError(f"entries below {below} lie behind the end of the file")
    for _ in range(steps_max):
        if not 0 < number < below:
            return -1, 0, 0
        at = entries_at + number * _ENTRY_BYTES
        if not readable[at >> CHUNK_BITS]:
            break
        entry_hash, log_offset, seconds, previous = _unpack_entry(mapped, at)
        stored = seconds if number > 1 else 0  # those of the first may count from the end of the file before
        if seconds < 0 or stored < low:
            return -1, 0, 0
        number, below = previous, number
        if entry_hash == hashed_key and stored <= high and log_offset >= 0:
            return log_offset, number, below
    return -1, number, below


python_link_entries, python_follow_chain = link_entries, follow_chain
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import follow_chain, link_entries
