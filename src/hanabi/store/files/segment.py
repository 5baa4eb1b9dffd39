"""One memory-mapped file of a log. Knows nothing of messages, of the other files, or of time.

    0 ........ flushed ........ written ........ allocated ........ size
      on disk           in the file      zeros            a hole, see `blocks`

Lifetimes. Nothing is ever unmapped under a reader, and no one counts references: a slice given to a reader holds the
map, the map holds the file, and CPython lets both go with the last slice. So `delete` only unlinks the name, and a
segment that its log has dropped disappears when the last reader is done. (Apache counts by hand, in ReferenceResource.)
"""

import contextlib
import errno
import logging
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from hanabi.durable_table import sync_directory
from hanabi.errors import StoreDamaged, StoreError
from hanabi.store.files import blocks, mapped_pages
from hanabi.store.files.write_through import make_dirty, write_through

logger = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview
_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)
_FIRST_BYTES = 4
_COPIED_AT_ONCE_BYTES = 16 << 10
_WARM_SYNC_BYTES = 16 << 20  # Apache's flushLeastPagesWhenWarmMapedFile

# A mapped page that was written is known to the kernel as a dirty page of the file, so this syncs it; unlike
# mmap.flush it lets other threads run meanwhile.
sync_file: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def segment_name(base_offset: int) -> str:
    """Return the file name of the segment that starts at *base_offset*: 20 digits."""
    return f"{base_offset:020d}"


class Segment:
    """A file of a log. Invariant: 0 <= flushed <= written <= size; bytes below `written` never change.

    One thread writes, and only below `allocated`; another one may flush, a third one allocate; any number may read.
    """

    def __init__(self, path: Path, size: int, descriptor: int, *, writable: bool) -> None:
        """Use `create` or `open`. Takes *descriptor* over."""
        self.path, self.size = path, size
        self.base_offset = int(path.name)
        self.written = self.flushed = self.allocated = 0
        self._allocating = threading.Lock()
        self._deleted, self._reads_ahead = False, True
        self._writable = writable
        self._descriptor = descriptor
        # Closed when the object goes, not when the file is deleted: a flush in another thread that still has hold of
        # this segment must never find the number given to another file.
        self._close_descriptor = weakref.finalize(self, os.close, descriptor)
        try:
            # A run of appends writes into it, behind `written`: see `fast_path`.
            self.map = mmap.mmap(descriptor, size, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        except OSError as error:
            self._close_descriptor()
            raise StoreError.from_os_error(error, f"mapping {path}") from error
        self._view = memoryview(self.map).toreadonly()

    @classmethod
    def create(cls, path: Path, size: int, *, warm: bool = False) -> "Segment":
        """Make a new file with the blocks of its first messages; StoreError if that fails, and then no file either."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise StoreError.from_os_error(error, f"creating {path}") from error
        with contextlib.ExitStack() as undo:
            undo.callback(path.unlink, missing_ok=True)
            segment = cls._fill_in(path, size, descriptor, warm=warm)
            undo.pop_all()
        if warm:
            segment.lock_in_memory()
        return segment

    @classmethod
    def _fill_in(cls, path: Path, size: int, descriptor: int, *, warm: bool) -> "Segment":
        """Size, allocate and map a file that was just created. Takes *descriptor* over."""
        try:
            os.ftruncate(descriptor, size)  # first, so that a crash leaves an empty file or one of full size
            allocated = blocks.allocate(descriptor, 0, size if warm else 1, blocks.step_bytes(0), size)
            if warm:
                _warm(descriptor, size)
            os.fsync(descriptor)  # its size: the sync of the directory promises its name alone
            sync_directory(path.parent)
        except OSError as error:
            os.close(descriptor)
            raise StoreError.from_os_error(error, f"reserving {size} bytes for {path}") from error
        segment = cls(path, size, descriptor, writable=True)
        segment.allocated = allocated
        return segment

    @classmethod
    def open(cls, path: Path, size: int, *, writable: bool = True) -> "Segment":
        """Open a file that exists. It counts as written to the end until `truncate_to` says otherwise."""
        try:
            flags = (os.O_RDWR if writable else os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(path, flags)
        except OSError as error:
            raise StoreError.from_os_error(error, f"opening {path}") from error
        found = os.fstat(descriptor).st_size
        if found != size:
            os.close(descriptor)
            raise StoreDamaged(
                f"{path} has {found} bytes, but the files of this log have {size}: put a whole copy there, or set the "
                "size of the files as it was"
            )
        segment = cls(path, size, descriptor, writable=writable)
        segment.written = segment.flushed = segment.allocated = size
        return segment

    # Writing

    def append(self, data: Buffer) -> None:
        """Copy *data* behind the written bytes. The caller has checked that it fits. StoreFull changes nothing."""
        start, end = self.written, self.written + len(data)
        if end > self.allocated:
            self.allocate(end)
        if end - start > _COPIED_AT_ONCE_BYTES and end <= self.size:  # half a copy begins with zeros: no record does
            self.map[start + _FIRST_BYTES : end] = memoryview(data)[_FIRST_BYTES:]
            self.map[start : start + _FIRST_BYTES] = data[:_FIRST_BYTES]
        else:
            self.map[start:end] = data  # a mapped file has a fixed size: too much raises, and changes nothing
        self.written = end

    def write(self, data: memoryview) -> None:
        """Write *data* behind the written bytes, as `append` does, by system calls.

        The kernel fills new pages with the data at once; through the map it would clear each of them first. That pays
        for much data at a time. StoreError may leave a part behind the written bytes, which the next one overwrites.
        """
        start, end = self.written, self.written + len(data)
        if end > self.allocated:
            self.allocate(end)
        self._set_read_ahead(enabled=end == self.size)
        try:
            while data:
                size = os.pwrite(self._descriptor, data, start)
                start, data = start + size, data[size:]
        except OSError as error:
            raise StoreError.from_os_error(error, f"bytes {start} to {end} of {self.path}") from error
        self.written = end

    def _set_read_ahead(self, *, enabled: bool) -> None:
        """Let the kernel read ahead in the map, or not: behind the written bytes it would only clear pages, which the
        next write fills."""
        if enabled is not self._reads_ahead:
            self._reads_ahead = enabled
            mapped_pages.set_read_ahead(self.map, enabled=enabled)

    def allocate(self, end: int) -> None:
        """Give the file blocks up to *end*, at least; StoreFull if the disk has none. May block. Any thread."""
        with self._allocating:
            if self.allocated < min(end, self.size):
                self._allocate_step(end)

    def allocate_ahead(self) -> None:
        """Allocate the next step when half of the last one is used, as far as the disk has room. May block."""
        with self._allocating:
            if self.allocated < min(self.written + blocks.step_bytes(self.written) // 2, self.size):
                self._allocate_step(self.allocated)

    def _allocate_step(self, end: int) -> None:
        start, ahead = self.allocated, blocks.step_bytes(end)
        try:
            self.allocated = blocks.allocate(self._descriptor, start, end, ahead, self.size)
        except OSError as error:
            raise StoreError.from_os_error(error, f"bytes {start} to {end} of {self.path}") from error

    def fill(self, header: bytes) -> None:
        """Give up the rest of this segment: write *header* there, and count all of it as written."""
        start = self.written
        header = header[: self.size - start]
        self.allocate(start + len(header))
        self.map[start : start + len(header)] = header
        self.written = self.size

    def flush(self) -> None:
        """Bring everything written to the disk. Blocks; other threads run meanwhile."""
        start, end = self.flushed, self.written
        self.check_file()
        if start and mapped_pages.IS_KNOWN:  # without the pages that were made ahead: to write those is no use
            mapped_pages.sync(self.map, start, end)
        else:  # the first time also the bytes behind: see `truncate_to`
            sync_file(self._descriptor)
        self.flushed = max(start, end)

    def write_again(self, position: int) -> None:
        """Write everything from *position* on to the disk, including pages that the kernel takes for clean.

        For recovery only: no other thread writes.
        """
        try:
            sync_file(self._descriptor)
        except OSError as error:  # perhaps of an earlier process; it is repaired here
            logger.warning("%s was not flushed when its writer ended (%s): it is written again", self.path, error)
        try:
            write_through(self.path, self._descriptor, position, self.written)
            sync_file(self._descriptor)
        except OSError as error:
            raise StoreError.from_os_error(error, f"writing {self.path} again after a crash") from error
        self.flushed = self.written

    def keep_in_memory(self) -> None:
        """Make the pages of a failed flush dirty again: the kernel may drop clean ones, and readers would miss them."""
        try:
            make_dirty(self._descriptor, self.flushed, self.written)
        except OSError as error:
            logger.error("%s: the data behind byte %d may be lost: %s", self.path, self.flushed, error)

    def truncate_to(self, position: int) -> None:
        """Forget everything from *position* on, also on the disk, and be ready to be written there.

        The bytes are zeroed, not only skipped as in Apache's MappedFileQueue.truncateDirtyFiles: old records behind
        the place would be valid in every respect (size, magic, physical offset, CRC), and when the new ones happen to
        end where an old one begins, the next recovery would bring back messages that this one declared lost.
        """
        try:
            _zero(self._descriptor, position, self.size)
        except OSError as error:
            raise StoreError.from_os_error(error, f"truncating {self.path}") from error
        self.written = position
        self.allocated = position  # Apache's files are sparse, and so may be ours behind the last step
        self.flushed = 0  # the next flush writes the zeros, and perhaps data of a killed process

    # Reading

    def slice(self, position: int, size: int) -> memoryview | None:
        """Return the *size* bytes at *position* without a copy, or None where not all of them are written."""
        end = position + size
        if position < 0 or size < 0 or end > self.written:
            return None
        return self._view[position:end]

    def tail(self, position: int) -> memoryview:
        """Return everything written from *position* on, without a copy; empty at the end."""
        return self._view[position : self.written]

    # Care

    def check_readable(self, start: int, end: int) -> None:
        """Raise StoreDamaged if the device cannot read a page of start..end, or the file was cut: access to such a
        page of a mapped file ends the process (SIGBUS)."""
        try:
            mapped_pages.check_readable(self.map, self._descriptor, start, end, writable=self._writable)
        except OSError as error:
            raise StoreDamaged(
                f"{self.path}: bytes {start} to {end} cannot be read ({error.strerror}): repair the disk, or put a "
                "copy of the file there, and start again"
            ) from error

    def is_in_memory(self, start: int, end: int) -> bool:
        """Return whether bytes start..end can be read without waiting for the disk."""
        return mapped_pages.are_in_memory(self.map, start, end)

    def read_ahead(self, start: int, end: int) -> None:
        """Ask the kernel to read bytes start..end in. Does not wait for the disk."""
        mapped_pages.read_ahead(self.map, start, min(end, self.size))

    def check_file(self) -> None:
        """Raise StoreDamaged if the file was deleted or truncated from outside."""
        state = os.fstat(self._descriptor)
        if state.st_nlink == 0 and not self._deleted:
            raise StoreDamaged(f"{self.path} was deleted while in use")
        if state.st_size != self.size:
            raise StoreDamaged(f"{self.path} was cut to {state.st_size} of {self.size} bytes while in use")

    def populate(self, start: int, end: int) -> bool:
        """Make the pages of a part that has blocks, ready to be written. False if this kernel cannot."""
        return mapped_pages.populate(self.map, start, end)

    def lock_in_memory(self) -> None:
        """Ask that no page of it be swapped out. Refusal (RLIMIT_MEMLOCK) is logged and does no harm."""
        self._log_refusal("mlock", mapped_pages.lock(self.map))

    def unlock_memory(self) -> None:
        self._log_refusal("munlock", mapped_pages.unlock(self.map))

    def _log_refusal(self, what: str, refused: str) -> None:
        if refused:
            logger.warning("%s of %s failed: %s", what, self.path, refused)

    def delete(self) -> None:
        """Unlink the file. Current readers keep its bytes; the space is freed with the last of them."""
        self._deleted = True
        try:
            self.path.unlink(missing_ok=True)
            sync_directory(self.path.parent)  # so that after a power cut no older or newer one is missing instead
        except OSError as error:
            raise StoreError.from_os_error(error, f"deleting {self.path}") from error

    def close(self) -> None:
        """Let go of the file. Readers that still hold slices keep the map until they drop them."""
        self._view.release()
        try:
            self.map.close()
        except BufferError:
            logger.debug("%s is still being read; it is unmapped after the last reader", self.path)
        self._close_descriptor()


def _warm(descriptor: int, size: int) -> None:
    """Write zeros once, so that the pages are in memory when messages come, and sync now and then."""
    unsynced = 0
    for start in range(0, size, _CHUNK_BYTES):
        unsynced += os.pwrite(descriptor, _ZEROS[: size - start], start)
        if unsynced >= _WARM_SYNC_BYTES:
            sync_file(descriptor)
            unsynced = 0


def _zero(descriptor: int, start: int, end: int) -> None:
    """Zero start..end, but write only where something else is: most of a segment was never touched."""
    for at, until in list(_data_ranges(descriptor, start, end)):  # all of them first: reading makes data of holes
        while at < until:
            chunk = os.pread(descriptor, min(_CHUNK_BYTES, until - at), at)
            if not chunk:
                return
            clean = chunk.count(0) == len(chunk)
            at += len(chunk) if clean else os.pwrite(descriptor, _ZEROS[: len(chunk)], at)


def _data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges in start..end that may have been written."""
    while start < end:
        try:
            data = os.lseek(descriptor, start, os.SEEK_DATA)
            hole = os.lseek(descriptor, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but holes and reserved blocks from here on
                return
            if error.errno != errno.EINVAL:
                raise
            data, hole = start, end  # a file system without SEEK_HOLE: read every byte
        yield data, min(hole, end)
        start = hole
