"""An endless file, kept as segments of one size that are named by the offset of their first byte.

    00000000000000000000   00000000001073741824   00000000002147483648   00000000003221225472
    min_offset ............................................. end_offset    prepared ahead, not part of the log yet

Knows bytes and offsets, not messages. One thread writes (append, roll, truncate). Other threads may read, flush and
delete the oldest segments: the tuple of segments is replaced, never changed, so a reader always sees a whole one.
"""

import itertools
import logging
import os
import threading
from pathlib import Path

from hanabi.errors import StoreClosed, StoreDamaged, StoreError
from hanabi.store.files.segment import Buffer, Segment, segment_name

logger = logging.getLogger(__name__)

_AHEAD_BYTES = 64 << 10


class Log:
    """The sequence of segments. Invariant: they are adjacent, and all but the last are full.

    At opening every segment counts as full. The caller knows the content: it finds the true end and calls
    `truncate_to`.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int,
        *,
        writable: bool = True,
        warm: bool = False,
        crashed: bool = False,
    ) -> None:
        """Open the log in *directory*, which need not exist yet. Raises StoreDamaged if files are missing or cut.

        *crashed*: its writer did not stop cleanly, so the newest files may lack a part, which then reads as zeros.
        """
        self.directory, self.segment_bytes = directory, segment_bytes
        self.segments = _open_segments(directory, segment_bytes, writable=writable, crashed=crashed)
        self.active: Segment | None = self.segments[-1] if self.segments else None
        self.failure: StoreError | None = None  # why nothing may be written any more
        self._warm = warm
        self._next: Segment | None = None  # prepared, and not part of the log yet
        self._preparing = threading.Lock()  # held while `_next` is made or used
        self._changing = threading.Lock()  # held while `segments` is replaced
        self._flushing = threading.Lock()  # held while files are brought to the disk, or cut

    # Where it begins and ends

    @property
    def min_offset(self) -> int:
        """The first offset there is; 0 for an empty log."""
        segments = self.segments
        return segments[0].base_offset if segments else 0

    @property
    def end_offset(self) -> int:
        """The offset of the next byte to be written."""
        segment = self.active
        return segment.base_offset + segment.written if segment else 0

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        for segment in reversed(self.segments):
            if segment.flushed:  # a segment is flushed only after all before it
                return segment.base_offset + segment.flushed
        return self.min_offset

    # Reading

    def find(self, offset: int) -> Segment | None:
        """Return the segment that has *offset* in its range, whether or not something is written there."""
        segments = self.segments
        if not segments:
            return None
        index = (offset - segments[0].base_offset) // self.segment_bytes
        return segments[index] if 0 <= index < len(segments) else None

    def read(self, offset: int, size: int) -> memoryview | None:
        """Return the *size* bytes at *offset* without a copy; None where they are not, or not in one segment."""
        segments = self.segments
        if not segments:
            return None
        index, position = divmod(offset - segments[0].base_offset, self.segment_bytes)
        return segments[index].slice(position, size) if 0 <= index < len(segments) else None

    def read_tail(self, offset: int) -> memoryview | None:
        """Return everything from *offset* to the end of its segment, without a copy: empty at the end, None outside."""
        segment = self.find(offset)
        return None if segment is None else segment.tail(offset - segment.base_offset)

    def check_readable(self, start: int, end: int) -> None:
        """Raise StoreDamaged if a page of start..end, which lies in one segment, cannot be read."""
        segment = self.find(start)
        if segment is not None:
            segment.check_readable(start - segment.base_offset, min(end - segment.base_offset, segment.written))

    def is_in_memory(self, offset: int, size: int) -> bool:
        """Return whether the *size* bytes at *offset*, as far as its segment has them, need no access to the disk."""
        segment = self.find(offset)
        if segment is None:
            return True
        position = offset - segment.base_offset
        return segment.is_in_memory(position, max(min(position + size, segment.written), position))

    def load(self, offset: int, size: int) -> None:
        """Bring the *size* bytes at *offset* into memory, and ask for as many behind them. Blocks; any thread.

        StoreDamaged if they cannot be read."""
        segment = self.find(offset)
        if segment is not None:
            self.check_readable(offset, offset + size)
            position = min(offset + size - segment.base_offset, segment.size)
            segment.read_ahead(position, position + size)

    def readable_around(self, start: int, end: int) -> tuple[int, int]:
        """Return a part of the log with start..end, all of whose pages can be read; StoreDamaged if there is none."""
        segment = self.find(start)
        if segment is None:
            return start, start
        ahead = min(start + _AHEAD_BYTES, segment.base_offset + segment.written)
        if ahead > end:
            try:
                self.check_readable(start, ahead)
            except StoreDamaged:
                logger.debug("%s: not all of %d to %d can be read", segment.path, start, ahead)
            else:
                return start, ahead
        self.check_readable(start, end)
        return start, end

    # Writing

    def roll(self, filler: bytes = b"", *, room: int = 0) -> Segment:
        """Fill up the active segment and go on in the next one, which has blocks for *room* bytes.

        Everything that can fail comes before anything is changed, so that a full disk leaves the log as it was.
        """
        active = self.active
        if active is not None and active.written == 0:
            return active
        if active is not None:
            active.allocate(active.written + len(filler))
        segment = self._next_segment(0 if active is None else active.base_offset + self.segment_bytes)
        segment.allocate(room)
        if active is not None:
            if active.written < self.segment_bytes:
                active.fill(filler)
            if self._warm:
                active.unlock_memory()
        self._use(segment)
        return segment

    def start_at(self, offset: int) -> None:
        """Let an empty log begin with the segment of *offset*: a slave starts with the oldest its master still has."""
        if self.segments or offset % self.segment_bytes:
            raise StoreError(f"{self.directory} cannot begin at {offset}: only empty, and at the start of a file")
        self._use(self._next_segment(offset))

    def append(self, data: Buffer) -> int:
        """Copy *data* to the end, over as many segments as it needs; return its offset. For bytes made elsewhere."""
        self.check_usable()
        start, view = self.end_offset, memoryview(data)
        while view:
            segment = self.active
            if segment is None or segment.written == self.segment_bytes:
                segment = self.roll()
            room = self.segment_bytes - segment.written
            segment.write(view[:room])
            view = view[room:]
        return start

    def prepare_next(self) -> None:
        """Make the next segment before it is needed; nothing if it is there. Blocks. Any thread.

        StoreError if it cannot be made: call it again. When the writer needs it and it is still missing, `roll` tries
        once more, and its error is the answer to that message.
        """
        with self._preparing:
            active = self.active
            if active is not None and self.failure is None and self._next is None:
                self._next = self._create(active.base_offset + self.segment_bytes)

    def truncate_to(self, offset: int) -> None:
        """Forget everything from *offset* on, on the disk too. Afterwards the log ends there."""
        if not self.segments and offset == 0:
            return
        if not self.min_offset <= offset <= self.end_offset:
            raise ValueError(f"{offset} is outside {self.min_offset}..{self.end_offset}")
        self._drop_preparation()
        with self._flushing, self._changing:
            # From the end, so that a crash in between leaves no gap.
            while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
                self.segments[-1].delete()
                self.segments = self.segments[:-1]
            self.active = last = self.segments[-1]
            last.truncate_to(offset - last.base_offset)

    def delete_oldest(self) -> bool:
        """Remove the oldest segment and its file; readers that have it keep it. False if only one is left."""
        segments = self.segments
        if len(segments) < 2:
            return False
        segments[0].delete()  # takes long for a large file, so the writer is not made to wait for it
        with self._changing:
            self.segments = tuple(segment for segment in self.segments if segment is not segments[0])
        return True

    # Bringing it to the disk

    def flush(self) -> int:
        """Bring everything written to the disk, oldest first; return the offset below which it is there. Blocks.

        After a failure nothing is written any more: the kernel reports a failed write once, and calling it again would
        report success for bytes that are gone.
        """
        with self._flushing:
            return self._flush()

    def _flush(self) -> int:
        self.check_usable()
        unflushed = [*itertools.takewhile(lambda segment: segment.flushed < segment.size, reversed(self.segments))]
        for segment in reversed(unflushed):
            if segment.flushed == segment.written:
                continue
            try:
                segment.flush()
            except (OSError, StoreDamaged) as error:
                self.failure = StoreDamaged(f"flushing {segment.path} failed, restart when it is repaired: {error}")
                for each in unflushed:
                    each.keep_in_memory()
                raise self.failure from error
        return self.flushed_offset

    def write_again(self, offset: int) -> None:
        """Write everything from *offset* on to the disk, including pages that the kernel takes for clean.

        Only then does data count that an earlier process left in memory. Raises StoreError, with the file, if the disk
        fails.
        """
        for segment in self.segments:
            if segment.base_offset + segment.size > offset:
                segment.write_again(max(offset - segment.base_offset, 0))

    def check_usable(self) -> None:
        """Raise if it is closed, or if a flush has failed."""
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))

    def close(self) -> None:
        """Release all files. Does not flush: call `flush` first if the data must be on the disk."""
        self._drop_preparation()
        with self._changing:
            self.failure = StoreClosed(f"{self.directory} is closed")
            segments, self.segments, self.active = self.segments, (), None
        for segment in segments:
            segment.close()

    def destroy(self) -> None:
        """Delete all files, then close."""
        self._drop_preparation()
        for segment in reversed(self.segments):
            segment.delete()
        self.close()

    # How it is done

    def _next_segment(self, base_offset: int) -> Segment:
        """Return the prepared segment, or a new one. It is kept until `_use`, should something go wrong before."""
        self.check_usable()
        with self._preparing:
            if self._next is None:
                self._next = self._create(base_offset)
            return self._next

    def _create(self, base_offset: int) -> Segment:
        path = self.directory / segment_name(base_offset)
        return Segment.create(path, self.segment_bytes, warm=self._warm)

    def _use(self, segment: Segment) -> None:
        with self._changing:
            self.segments = (*self.segments, segment)
        with self._preparing:
            self.active, self._next = segment, None

    def _drop_preparation(self) -> None:
        with self._preparing:
            segment, self._next = self._next, None
        if segment is not None:
            segment.delete()
            segment.close()


def _open_segments(directory: Path, segment_bytes: int, *, writable: bool, crashed: bool) -> tuple[Segment, ...]:
    try:
        if writable:
            directory.mkdir(parents=True, exist_ok=True)
        paths = sorted(path for path in directory.iterdir() if len(path.name) == 20 and path.name.isdigit())
        if paths and writable and not crashed and paths[-1].stat().st_size == 0:  # as Apache: nothing is lost with it
            logger.warning("removing the empty file %s", paths[-1])
            paths.pop().unlink()
    except OSError as error:
        raise StoreError.from_os_error(error, f"opening {directory}") from error
    for previous, path in itertools.pairwise(paths):
        expected = segment_name(int(previous.name) + segment_bytes)
        if path.name != expected:
            raise StoreDamaged(f"{directory}: {previous.name} is followed by {path.name}, but {expected} is expected")
    if writable and crashed:
        _lengthen_newest(paths, segment_bytes)
    return tuple(Segment.open(path, segment_bytes, writable=writable) for path in paths)


def _lengthen_newest(paths: list[Path], size: int) -> None:
    """Give the newest files their full size. A file system may keep the name of a new file and not its size, as long as
    the file itself was not synced; files synced before it are whole. Blocks are allocated on writing."""
    for path in reversed(paths):
        try:
            found = path.stat().st_size
            if found >= size:
                return
            os.truncate(path, size)
        except OSError as error:
            raise StoreError.from_os_error(error, f"giving {path} its full size") from error
        logger.warning("%s had %d of %d bytes after the crash: the rest is filled with zeros", path, found, size)
