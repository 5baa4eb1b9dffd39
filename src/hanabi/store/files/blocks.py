"""The disk blocks of mapped files, allocated in steps.

    0 ........ written ........ allocated ........ size
      data             zeros              a hole: reads as zeros, takes no room on the disk

A file has its full size from the start, as Apache expects, but a new one takes only as much of the disk as the next
messages need. A write into a hole of a mapped file is a SIGBUS when the disk is full, so nothing may be written there:
blocks are allocated first, and a full disk is then an error of that call.
"""

import mmap
import os
from typing import Final

STEP_BYTES_MIN: Final = 16 << 20
STEP_BYTES_MAX: Final = 64 << 20
_ZEROS: Final = bytes(1 << 20)


def step_bytes(position: int) -> int:
    """Return the number of bytes to allocate ahead of *position*; more for a file that has grown."""
    return min(max(position, STEP_BYTES_MIN), STEP_BYTES_MAX)


def allocate(descriptor: int, start: int, end: int, ahead: int, size: int) -> int:
    """Allocate the blocks of a file of *size* bytes from *start* to *end*, and *ahead* more; return their end.

    *ahead* is at most half of the free space, so that the last space is used only for data. The file's content stays
    as it is. Raises OSError when the disk is full. May block.
    """
    until = min(_whole_pages(end + min(ahead, _free_bytes(descriptor) // 2)), size)
    if until > start:
        if hasattr(os, "posix_fallocate"):
            start -= start % mmap.PAGESIZE
            os.posix_fallocate(descriptor, start, until - start)
        else:
            _write_zeros(descriptor, start, until)
    return until


def _whole_pages(position: int) -> int:
    """Return the end of the page before *position*: the kernel wants blocks for all of a page that is written."""
    return -(-position // mmap.PAGESIZE) * mmap.PAGESIZE


def _free_bytes(descriptor: int) -> int:
    state = os.fstatvfs(descriptor)
    return state.f_bavail * state.f_frsize


def _write_zeros(descriptor: int, start: int, end: int) -> None:
    """Allocate the range by writing zeros, where posix_fallocate is missing. Nothing is stored in it yet."""
    while start < end:
        start += os.pwrite(descriptor, _ZEROS[: end - start], start)
