"""Newest offsets of groups in a memory-mapped file, so that a kill of the broker loses none of them.

`consumerOffset.json` is written every few seconds, as by Apache. Commits since then would be lost with the process;
here each commit also changes eight bytes of a mapped page, which the kernel keeps when the process dies. The file is
supplementary: it belongs to one version of the JSON file, whose digest it carries, and only moves offsets of that
version forward. A broker that finds another version (another broker ran here, or a backup was restored) ignores it. It
is rewritten at each start.

    0    magic          8 bytes, HANABIO2
    8    digest         16 bytes, of the JSON file it belongs to; zeros: there is none yet
    24   next digest    16 bytes, of the one that is just being written
    40   records        mark 8 | queue id 4 | bytes of the key 4 | crc32 of both and the key 4 | key, up to the next
                        multiple of 8

    mark                crc16 << 48 | offset, the crc over the offset and the record's own crc32

A mark is one of the machine's own uint64, written with one store, so offset and checksum are never of two commits. A
record is valid once its key has a length, which is written last; a mark of all ones is deleted. A mark with a wrong
checksum is ignored, and its group continues from the JSON file; records behind a damaged header cannot be found. The
previous format, HANABIO1, had the offset alone and no checksums; it is still read, but leaps are rejected. Does not
know topics or groups: a key is a text.
"""

import binascii
import hashlib
import logging
import mmap
import os
import struct
import sys
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

MAGIC: Final = b"HANABIO2"
MAGIC_UNCHECKED: Final = b"HANABIO1"
LEAP_MAX: Final = 1 << 32  # between two saves: a larger one is a damaged offset, where there are no checksums
NO_FILE: Final = bytes(16)  # the digest of a JSON file that does not exist
_INVALID: Final = b"\xff" * 16
_HEAD: Final = struct.Struct("8s16s16s")
_RECORD: Final = struct.Struct("=QiII")
_RECORD_UNCHECKED: Final = struct.Struct("=qiI")
_QUEUE_AND_LENGTH: Final = struct.Struct("=iI")
_OFFSET_BITS: Final = 48
_FORGOTTEN: Final = (1 << 64) - 1
_NOT_MARKED: Final = -1  # the offset of a deleted mark
_OFFSETS_END: Final = (1 << _OFFSET_BITS) - 1  # beyond any queue; such an offset is in the JSON file only
MOVED_AT_ONCE: Final = 32  # marks moved to a new file per changed offset
_BYTES_MIN: Final = 64 * 1024
_GARBAGE_MIN: Final = 10_000  # rewrite at this many deleted records, if they outnumber those in use

OffsetKey = tuple[str, int]  # a key and a queue


def digest_of(raw: bytes) -> bytes:
    """Return the digest that identifies a version of the JSON file."""
    return hashlib.blake2b(raw, digest_size=16).digest()


class Found(NamedTuple):
    """Content of a file, and the versions of the JSON file that it belongs to."""

    digests: frozenset[bytes]
    offsets: dict[OffsetKey, int]
    damaged: int = 0  # ignored records
    is_checked: bool = True


def read_mapped_offsets(raw: bytes) -> Found | None:
    """Return the content of the file; None if it is not ours. Includes only records that were written completely."""
    if len(raw) < _HEAD.size or raw[:8] not in (MAGIC, MAGIC_UNCHECKED):
        return None
    _, digest, next_digest = _HEAD.unpack_from(raw)
    digests = frozenset({digest, next_digest}) - {_INVALID}
    if raw[:8] == MAGIC_UNCHECKED:
        return Found(digests, _unchecked_offsets(raw), is_checked=False)
    return Found(digests, *_checked_offsets(raw))


def _checked_offsets(raw: bytes) -> tuple[dict[OffsetKey, int], int]:
    """Return the offsets, and the number of damaged records."""
    offsets: dict[OffsetKey, int] = {}
    damaged, at = 0, _HEAD.size
    while at + _RECORD.size <= len(raw):
        mark, queue_id, key_bytes, crc = _RECORD.unpack_from(raw, at)
        if not key_bytes:
            break
        key = raw[at + _RECORD.size : at + _RECORD.size + key_bytes]
        if len(key) < key_bytes or _crc_of(queue_id, key) != crc:
            return offsets, damaged + 1
        offset = mark & _OFFSETS_END
        if mark != _FORGOTTEN and mark != _mark(offset, crc):
            damaged += 1
        elif mark != _FORGOTTEN:
            offsets[key.decode("utf-8", "replace"), queue_id] = offset
        at += _record_bytes(key_bytes)
    return offsets, damaged


def _unchecked_offsets(raw: bytes) -> dict[OffsetKey, int]:
    offsets: dict[OffsetKey, int] = {}
    at, head = _HEAD.size, _RECORD_UNCHECKED.size
    while at + head <= len(raw):
        offset, queue_id, key_bytes = _RECORD_UNCHECKED.unpack_from(raw, at)
        key = raw[at + head : at + head + key_bytes]
        if not key_bytes or len(key) < key_bytes:
            break
        if offset >= 0:
            offsets[key.decode("utf-8", "replace"), queue_id] = offset
        at += -(-(head + key_bytes) // 8) * 8
    return offsets


def _crc_of(queue_id: int, key: bytes) -> int:
    return zlib.crc32(key, zlib.crc32(_QUEUE_AND_LENGTH.pack(queue_id, len(key))))


def _mark(offset: int, crc: int) -> int:
    """Return the mark of *offset* in the record with this *crc*; a deleted mark if the offset does not fit."""
    if not 0 <= offset < _OFFSETS_END:
        return _FORGOTTEN
    return binascii.crc_hqx(offset.to_bytes(6, "little"), crc & 0xFFFF) << _OFFSET_BITS | offset


def _offset_of(mark: int) -> int:
    return mark & _OFFSETS_END if mark != _FORGOTTEN else _NOT_MARKED


def _record_bytes(key_bytes: int) -> int:
    return -(-(_RECORD.size + key_bytes) // 8) * 8


class _MarksFile:
    """One mapped file. All its blocks are allocated: a hole on a full disk would be a SIGBUS."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o644)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        os.ftruncate(self._descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
        self._map = mmap.mmap(self._descriptor, size)
        self.words = memoryview(self._map).cast("Q")
        self._map[:8] = MAGIC
        self._end = _HEAD.size

    def stamp(self, digests: tuple[bytes, bytes]) -> None:
        self._map[8 : _HEAD.size] = b"".join(digests)

    @property
    def size(self) -> int:
        return len(self._map)

    @property
    def used_bytes(self) -> int:
        return self._end - _HEAD.size

    @property
    def free_bytes(self) -> int:
        return len(self._map) - self._end

    def has_room(self, key: bytes) -> bool:
        return self._end + _record_bytes(len(key)) + _RECORD.size <= len(self._map)

    def append(self, key: bytes, queue_id: int, offset: int) -> int:
        """Append a record; return its slot: the position of its mark, and what is needed to write another one."""
        start, behind_head, crc = self._end, self._end + _RECORD.size, _crc_of(queue_id, key)
        self.words[start // 8] = _mark(offset, crc)
        self._map[behind_head : behind_head + len(key)] = key
        self._map[start + 16 : behind_head] = crc.to_bytes(4, sys.byteorder)
        self._map[start + 8 : start + 16] = _QUEUE_AND_LENGTH.pack(queue_id, len(key))
        self._end = start + _record_bytes(len(key))
        return start // 8 << 16 | crc & 0xFFFF

    def offset(self, slot: int) -> int:
        return _offset_of(self.words[slot >> 16])

    def mark(self, slot: int, offset: int) -> None:
        self.words[slot >> 16] = _mark(offset, slot)

    def sync(self) -> None:
        os.fsync(self._descriptor)


class _Generation:
    """One file, and the position of each key's mark in it."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.file = path, _MarksFile(path, size)
        self.slots: dict[OffsetKey, int] = {}
        self.forgotten = 0
        self._forgotten_bytes = 0

    @property
    def is_due(self) -> bool:
        """Return whether the next file is due: this one is nearly full, or has more deleted records than used ones."""
        return self.file.free_bytes < self.file.size // 4 or self.forgotten > max(_GARBAGE_MIN, len(self.slots))

    @property
    def used_bytes(self) -> int:
        return self.file.used_bytes - self._forgotten_bytes

    def add(self, place: OffsetKey, key: bytes, offset: int) -> None:
        self.slots[place] = self.file.append(key, place[1], offset)

    def mark(self, place: OffsetKey, offset: int) -> bool:
        """Write the mark of an existing record; return False if there is none."""
        slot = self.slots.get(place)
        if slot is None:
            return False
        self.file.mark(slot, offset)
        return True

    def forget(self, place: OffsetKey) -> None:
        slot = self.slots.pop(place, None)
        if slot is not None:
            self.file.mark(slot, _NOT_MARKED)
            self.forgotten += 1
            self._forgotten_bytes += _record_bytes(len(place[0].encode()))


class MappedOffsets:
    """The file of one broker. One thread changes offsets; another one may report saves.

    A file that is nearly full, or full of deleted records, is replaced by a new one. The marks move a few at a time,
    with each change: moving a million at once would block the caller for a second. Until the last has moved, the old
    file is the valid one, and both are updated.

    If it cannot be written (a full disk), there is none until the next start; that is logged once.
    """

    def __init__(self, path: Path, offsets: Iterable[tuple[OffsetKey, int]], digest: bytes) -> None:
        """Rewrite the file with all *offsets*, as the JSON file with this *digest* or something newer has them."""
        self._path = path
        self._beside = path.with_name(path.name + ".new")
        self._changing = threading.Lock()  # guards the current file and its header
        self._now: _Generation | None = None
        self._next: _Generation | None = None
        self._to_move: Iterator[OffsetKey] = iter(())
        self._went_back = False  # the disk may still have the old value
        self._digests = (digest, digest)
        self._write([(place, place[0].encode(), offset) for place, offset in offsets])

    def put(self, key: str, queue_id: int, offset: int) -> None:
        """Record a new offset."""
        now, place = self._now, (key, queue_id)
        if now is None:
            return
        if not now.mark(place, offset):
            self._add(now, place, offset)
        elif self._next is not None:
            self._next.mark(place, offset)
            self._move(now, self._next)

    def went_back(self) -> None:
        """Invalidate the file until the next save: an offset moved backwards or was removed."""
        self._went_back = True
        self._stamp(_INVALID, _INVALID)

    def forget(self, key: str, queue_ids: Iterable[int]) -> None:
        for queue_id in queue_ids:
            for generation in (self._now, self._next):
                if generation is not None:
                    generation.forget((key, queue_id))
        self.went_back()

    def saving(self, raw: bytes) -> None:
        """Prepare for the JSON file becoming *raw*. Blocks for the disk if an offset moved backwards: after a power cut
        the old value must not be found."""
        now = self._now
        if self._went_back and now is not None:
            self._went_back = False
            now.file.sync()
        self._stamp(self._digests[0], digest_of(raw))

    def saved(self) -> None:
        """Note that the JSON file was written."""
        self._stamp(self._digests[1], self._digests[1])

    def _stamp(self, digest: bytes, next_digest: bytes) -> None:
        with self._changing:
            self._digests = digest, next_digest
            if self._now is not None:
                self._now.file.stamp(self._digests)

    # New records, and a new file

    def _add(self, now: _Generation, place: OffsetKey, offset: int) -> None:
        key = place[0].encode()
        if self._next is None and now.is_due:
            self._begin_moving(now, key)
        coming = self._next
        if now.file.has_room(key) and (coming is None or coming.file.has_room(key)):
            now.add(place, key, offset)
            if coming is not None:
                coming.add(place, key, offset)
                self._move(now, coming)
        elif self._now is not None:  # it grows faster than it moves: keys ten times as long as before
            everything = [(known, known[0].encode(), now.file.offset(slot)) for known, slot in now.slots.items()]
            self._write([*everything, (place, key, offset)])

    def _begin_moving(self, now: _Generation, key: bytes) -> None:
        try:
            self._next = _Generation(self._beside, _file_bytes(now.used_bytes + _record_bytes(len(key))))
        except OSError as error:
            self._give_up(error)
        else:
            self._to_move = iter(list(now.slots))

    def _move(self, now: _Generation, coming: _Generation) -> None:
        """Move some marks; after the last one the new file replaces the old one."""
        moved = False
        for place in islice(self._to_move, MOVED_AT_ONCE):
            moved = True
            slot = now.slots.get(place)
            if slot is not None and place not in coming.slots:
                coming.add(place, place[0].encode(), now.file.offset(slot))
        if not moved:
            self._replace(coming)

    def _write(self, offsets: list[tuple[OffsetKey, bytes, int]]) -> None:
        """Write all marks at once."""
        needed = sum(_record_bytes(len(key)) for _, key, _ in offsets)
        try:
            coming = _Generation(self._beside, _file_bytes(needed))
        except OSError as error:
            self._give_up(error)
            return
        for place, key, offset in offsets:
            coming.add(place, key, offset)
        self._replace(coming)

    def _replace(self, coming: _Generation) -> None:
        with self._changing:
            coming.file.stamp(self._digests)
            try:
                coming.path.replace(self._path)
            except OSError as error:
                self._give_up(error)
            else:
                self._now, self._next = coming, None

    def _give_up(self, error: OSError) -> None:
        self._now = self._next = None
        for path in (self._beside, self._path):  # the old one is stale from now on
            path.unlink(missing_ok=True)
        reason = error.strerror or error
        logger.warning("%s cannot be written, so a kill will lose commits: %s", self._path, reason)


def _file_bytes(needed: int) -> int:
    return max(_BYTES_MIN, 2 * needed)
