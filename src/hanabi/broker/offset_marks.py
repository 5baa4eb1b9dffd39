"""The newest offsets of groups in a mapped file, so that killing the broker loses none of them.

`consumerOffset.json` is written every few seconds, as Apache's. What was committed since then would be lost with the
process; here each commit also changes eight bytes of a mapped page, which the kernel keeps whatever becomes of us. The
file is a help, not the truth: it belongs to one version of the JSON file, whose digest it carries, and it only ever
moves an offset of that version forward. A broker that finds another version (another broker ran here, somebody put a
backup in place) leaves it alone. It is written anew at each start.

    0    magic          8 bytes, HANABIO2
    8    digest         16 bytes, of the JSON file it belongs to; zeros: there is none yet
    24   next digest    16 bytes, of the one that is just being written
    40   records        mark 8 | queue id 4 | bytes of the key 4 | crc32 of both and the key 4 | key, up to the next
                        multiple of 8

    mark                crc16 << 48 | offset, the crc over the offset and the record's own crc32

A mark is one of the machine's own uint64, written with one store, so offset and checksum are never of two commits. A
record counts when its key has a length, which is written last; a mark of all ones is forgotten. A mark whose checksum
is wrong is left out, and its group goes on from the JSON file; what lies behind a damaged head cannot be found. The
form before this one, HANABIO1, had the offset alone and no checksums; it is still read, but leaps are not believed.
Knows nothing of topics and groups: a key is a text.
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
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

MAGIC: Final = b"HANABIO2"
MAGIC_UNCHECKED: Final = b"HANABIO1"
LEAP_MAX: Final = 1 << 32  # from one save to the next: more is a damaged offset, where there are no checksums
NO_FILE: Final = bytes(16)  # the digest of a JSON file that does not exist
_INVALID: Final = b"\xff" * 16
_HEAD: Final = struct.Struct("8s16s16s")
_RECORD: Final = struct.Struct("=QiII")
_RECORD_UNCHECKED: Final = struct.Struct("=qiI")
_QUEUE_AND_LENGTH: Final = struct.Struct("=iI")
_OFFSET_BITS: Final = 48
_FORGOTTEN: Final = (1 << 64) - 1
_NOT_MARKED: Final = -1  # the offset of a forgotten mark
_OFFSETS_END: Final = (1 << _OFFSET_BITS) - 1  # no queue has so many messages; such an offset is in the JSON file only
_BYTES_MIN: Final = 64 * 1024
_GARBAGE_MIN: Final = 10_000  # so many forgotten records, and more than are in use: time to write it anew

Place = tuple[str, int]  # a key and a queue


def digest_of(raw: bytes) -> bytes:
    """What tells one version of the JSON file from another."""
    return hashlib.blake2b(raw, digest_size=16).digest()


class Found(NamedTuple):
    """What a file says, and which versions of the JSON file it belongs to."""

    digests: frozenset[bytes]
    offsets: dict[Place, int]
    damaged: int = 0  # records that were left out
    is_checked: bool = True


def read_marks(raw: bytes) -> Found | None:
    """What is in the file; None if it is none of ours. Never more than was written whole."""
    if len(raw) < _HEAD.size or raw[:8] not in (MAGIC, MAGIC_UNCHECKED):
        return None
    _, digest, next_digest = _HEAD.unpack_from(raw)
    digests = frozenset({digest, next_digest}) - {_INVALID}
    if raw[:8] == MAGIC_UNCHECKED:
        return Found(digests, _unchecked_offsets(raw), is_checked=False)
    return Found(digests, *_checked_offsets(raw))


def _checked_offsets(raw: bytes) -> tuple[dict[Place, int], int]:
    """The offsets, and how many records are damaged."""
    offsets: dict[Place, int] = {}
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


def _unchecked_offsets(raw: bytes) -> dict[Place, int]:
    offsets: dict[Place, int] = {}
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
    """The offset and its checksum in the record with this *crc*; forgotten, if no mark can hold it."""
    if not 0 <= offset < _OFFSETS_END:
        return _FORGOTTEN
    return binascii.crc_hqx(offset.to_bytes(6, "little"), crc & 0xFFFF) << _OFFSET_BITS | offset


def _offset_of(mark: int) -> int:
    return mark & _OFFSETS_END if mark != _FORGOTTEN else _NOT_MARKED


def _record_bytes(key_bytes: int) -> int:
    return -(-(_RECORD.size + key_bytes) // 8) * 8


class _MarksFile:
    """One mapped file. All its blocks are there: a hole on a full disk would be a SIGBUS."""

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

    def has_room(self, key: bytes) -> bool:
        return self._end + _record_bytes(len(key)) + _RECORD.size <= len(self._map)

    def append(self, key: bytes, queue_id: int, offset: int) -> int:
        """A new record; return its slot: where its mark is, and what is needed to write another one."""
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


class OffsetMarks:
    """The file of one broker. One thread changes offsets; another one may tell of saves.

    Where it cannot be written (a full disk) there is none until the next start, and one line says so.
    """

    def __init__(self, path: Path, offsets: Iterable[tuple[Place, int]], digest: bytes) -> None:
        """Write the file anew: all *offsets*, as the JSON file with this *digest* or something newer has them."""
        self._path = path
        self._changing = threading.Lock()  # which file it is, and its head
        self._file: _MarksFile | None = None
        self._slots: dict[Place, int] = {}
        self._forgotten = 0
        self._went_back = False  # and the disk may still have it as it was
        self._digests = (digest, digest)
        self._write(list(offsets))

    def put(self, key: str, queue_id: int, offset: int) -> None:
        """The offset is this now."""
        file = self._file
        if file is None:
            return
        slot = self._slots.get((key, queue_id))
        if slot is not None:
            file.mark(slot, offset)
        else:
            self._add(file, (key, queue_id), offset)

    def went_back(self) -> None:
        """Something is less than it was, or gone: until the JSON file says so too, only that file is right."""
        self._went_back = True
        self._stamp(_INVALID, _INVALID)

    def forget(self, key: str, queue_ids: Iterable[int]) -> None:
        file = self._file
        for queue_id in queue_ids:
            slot = self._slots.pop((key, queue_id), None)
            if slot is not None and file is not None:
                file.mark(slot, _NOT_MARKED)
                self._forgotten += 1
        self.went_back()

    def saving(self, raw: bytes) -> None:
        """The JSON file is about to become *raw*. Blocks for the disk if something went back: after a power cut it
        must not be found where it was."""
        file = self._file
        if self._went_back and file is not None:
            self._went_back = False
            file.sync()
        self._stamp(self._digests[0], digest_of(raw))

    def saved(self) -> None:
        """It has."""
        self._stamp(self._digests[1], self._digests[1])

    def _stamp(self, digest: bytes, next_digest: bytes) -> None:
        with self._changing:
            self._digests = digest, next_digest
            if self._file is not None:
                self._file.stamp(self._digests)

    def _add(self, file: _MarksFile, place: Place, offset: int) -> None:
        key = place[0].encode()
        if file.has_room(key) and self._forgotten <= max(_GARBAGE_MIN, len(self._slots)):
            self._slots[place] = file.append(key, place[1], offset)
            return
        self._write([*((known, file.offset(slot)) for known, slot in self._slots.items()), (place, offset)])

    def _write(self, offsets: list[tuple[Place, int]]) -> None:
        beside = self._path.with_name(self._path.name + ".new")
        with self._changing:
            try:
                self._file = self._written(beside, [(key.encode(), key, queue, at) for (key, queue), at in offsets])
                beside.replace(self._path)
            except OSError as error:
                self._file, self._slots = None, {}
                for path in (beside, self._path):  # what the old one says is old from now on
                    path.unlink(missing_ok=True)
                reason = error.strerror or error
                logger.warning("%s cannot be written, so a kill will cost commits: %s", self._path, reason)

    def _written(self, path: Path, records: list[tuple[bytes, str, int, int]]) -> _MarksFile:
        needed = sum(_record_bytes(len(raw)) for raw, *_ in records)
        file = _MarksFile(path, max(_BYTES_MIN, 2 * needed))
        file.stamp(self._digests)
        self._slots = {(key, queue): file.append(raw, queue, offset) for raw, key, queue, offset in records}
        self._forgotten = 0
        return file
