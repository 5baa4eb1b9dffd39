"""System calls on the pages of a mapped file.

Other threads run during these calls. Python's own `flush` and `madvise` hold the GIL until the kernel is done.
"""

import ctypes
import errno
import functools
import mmap
import os
import sys
from typing import Final

# Linux's numbers; nothing here is called elsewhere.
_MADV_NORMAL: Final = 0
_MADV_RANDOM: Final = 1
_MADV_WILLNEED: Final = 3
_MADV_POPULATE_READ: Final = 22
_MADV_POPULATE_WRITE: Final = 23
_MS_SYNC: Final = 4
_CHUNK_BYTES: Final = 1 << 20
_IN_MEMORY: Final = bytes(range(1, 256, 2))  # of mincore's bytes only the lowest bit has a meaning

IS_KNOWN: Final = sys.platform == "linux"


def populate(memory: mmap.mmap, start: int, end: int) -> bool:
    """Make the pages of a part of *memory*, ready to be written; False where the kernel cannot."""
    return IS_KNOWN and _call("madvise", memory, start, end, _MADV_POPULATE_WRITE) == 0


def why_unreadable(memory: mmap.mmap, start: int, end: int) -> int:
    """Read in the pages of a part of *memory*; return 0 or the errno. EFAULT: access there would be a SIGBUS.
    EINVAL: this kernel does not support the call."""
    return _call("madvise", memory, start, end, _MADV_POPULATE_READ) if IS_KNOWN else errno.EINVAL


def are_in_memory(memory: mmap.mmap, start: int, end: int) -> bool:
    """Return whether access to a part of *memory* waits for no disk; True where the kernel cannot say."""
    first = start - start % mmap.PAGESIZE
    states = (ctypes.c_ubyte * -(-(end - first) // mmap.PAGESIZE))()
    if not IS_KNOWN or not len(states) or _call("mincore", memory, start, end, states):
        return True
    return not bytes(states).translate(None, _IN_MEMORY)


def set_read_ahead(memory: mmap.mmap, *, enabled: bool) -> None:
    """Let the kernel read pages behind an accessed one of *memory*, or not. A refusal does no harm."""
    if IS_KNOWN:
        _call("madvise", memory, 0, len(memory), _MADV_NORMAL if enabled else _MADV_RANDOM)


def read_ahead(memory: mmap.mmap, start: int, end: int) -> None:
    """Let the kernel read a part of *memory* in while the caller does something else. A refusal does no harm."""
    if IS_KNOWN:
        _call("madvise", memory, start, end, _MADV_WILLNEED)


def check_readable(memory: mmap.mmap, descriptor: int, start: int, end: int, *, writable: bool) -> None:
    """Raise OSError if the device cannot read a page of start..end, or the file was cut: access to such a page of
    *memory* ends the process (SIGBUS). *descriptor* is the file's; a map that is not *writable* is not asked."""
    failed = why_unreadable(memory, start, end) if writable else errno.EINVAL
    if failed == errno.EINVAL:
        _read_all(descriptor, start, end)
    elif failed:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def sync(memory: mmap.mmap, start: int, end: int) -> None:
    """Bring a part of *memory* to the disk, and leave the other pages alone."""
    failed = _call("msync", memory, start, end, _MS_SYNC)
    if failed:
        raise OSError(failed, os.strerror(failed))


def lock(memory: mmap.mmap) -> str:
    """Lock all of *memory* into RAM; return the kernel's reason for a refusal, if it refuses."""
    failed = _call("mlock", memory, 0, len(memory))
    return os.strerror(failed) if failed else ""


def unlock(memory: mmap.mmap) -> str:
    """Return the opposite."""
    failed = _call("munlock", memory, 0, len(memory))
    return os.strerror(failed) if failed else ""


def _read_all(descriptor: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(descriptor, min(_CHUNK_BYTES, end - start), start)
        if not chunk:
            raise OSError(errno.EIO, f"the file ends at {start}")
        start += len(chunk)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: str, memory: mmap.mmap, start: int, end: int, *more: object) -> int:
    """Call *function* for whole pages; 0, or the error's number."""
    start -= start % mmap.PAGESIZE
    if not 0 <= start <= end <= len(memory):
        raise ValueError(f"bytes {start} to {end} of a map of {len(memory)}")
    if start == end:
        return 0
    at = ctypes.c_char.from_buffer(memory, start)
    result: int = getattr(_libc(), function)(ctypes.byref(at), ctypes.c_size_t(end - start), *more)
    return ctypes.get_errno() if result else 0
