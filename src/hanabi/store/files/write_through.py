"""Direct writes of a file's page cache to the device.

After a failed sync Linux takes the pages for clean: the next sync succeeds and does not write them. To write the same
bytes into the page cache makes them dirty again, but ext4 then leaves the blocks marked as never written, and a power
cut turns them into zeros. Only a direct write (O_DIRECT) is one that the device has confirmed. It also drops the pages,
so that readers see what the device has.
"""

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 4096  # direct writes begin and end at blocks, in the file and in memory
_CHUNK_BYTES: Final = 1 << 20
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


def write_through(path: Path, descriptor: int, start: int, end: int) -> None:
    """Write the bytes start..end of the file again, with all of the blocks that they lie in.

    *descriptor* is open for reading and writing. Where there are no direct writes (tmpfs, NFS) the pages are made dirty
    again, so that the next sync writes them.
    """
    size = os.fstat(descriptor).st_size
    start -= start % _BLOCK_BYTES
    end = min(end + -end % _BLOCK_BYTES, size)
    with _direct(path, is_wanted=size % _BLOCK_BYTES == 0) as direct:
        try:
            _copy(descriptor, descriptor if direct is None else direct, start, end)
        except OSError as error:
            if direct is None or error.errno != errno.EINVAL:
                raise
            _copy(descriptor, descriptor, start, end)


def make_dirty(descriptor: int, start: int, end: int) -> None:
    """Write the bytes start..end into the page cache again, which keeps them there until they are synced."""
    _copy(descriptor, descriptor, start, end)


@contextmanager
def _direct(path: Path, *, is_wanted: bool) -> Iterator[int | None]:
    """Open *path* for direct writes; None where that cannot be."""
    descriptor = None
    if is_wanted and _DIRECT:
        try:
            descriptor = os.open(path, os.O_RDWR | _DIRECT | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _copy(source: int, target: int, start: int, end: int) -> None:
    """Copy start..end, but no blocks of zeros at the end of a chunk: for a hole the disk may have no room."""
    with mmap.mmap(-1, _CHUNK_BYTES) as memory, memoryview(memory) as buffer:  # begins at a page
        while start < end:
            with buffer[: min(_CHUNK_BYTES, end - start)] as part:
                count = os.preadv(source, [part], start)
                if count <= 0:
                    raise OSError(errno.EIO, f"the file ends at {start}")
                used = len(bytes(part[:count]).rstrip(b"\0"))
                with part[: min(used + -used % _BLOCK_BYTES, count)] as data:
                    _write(target, data, start)
                start += count


def _write(target: int, data: memoryview, position: int) -> None:
    done = 0
    while done < len(data):
        with data[done:] as rest:
            done += os.pwrite(target, rest, position + done)
