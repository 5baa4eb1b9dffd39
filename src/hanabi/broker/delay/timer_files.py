"""Files of the timer: when to look at which message of the timer topic.

    timer/
      checkpoint.json        how far the timer topic is in the files, up to when all is done, and how long each file is
      0000002833333          one file for each ten minutes in which something is to be done, named by their number
      0000002833334

    an entry of a file, 32 bytes, big-endian, in the order of arrival:
    ┌──────────┬────────────────┬──────────────┬──────────┬───────────┐
    │ slot i64 │ queue off. i64 │ log off. i64 │ size i32 │ crc32 u32 │
    └──────────┴────────────────┴──────────────┴──────────┴───────────┘
      tenths of a second                   negative for a cancellation ┘  of the 28 bytes before it

Entries are added where, by the checkpoint, a file ends; bytes behind that are from a write that a crash cut off and are
overwritten. So the files hold what the checkpoint says, or they are damaged and are rebuilt from the timer topic. A
file is deleted when all its entries are done. Losing all files does no harm: the messages themselves lie in the log.

Does not know messages or the clock. Writing blocks; it may run in any thread, one write at a time.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hanabi.durable_table import DurableTable, sync_directory
from hanabi.errors import StoreDamaged, StoreError

SLOT_MS: Final = 100
BUCKET_MS: Final = 600_000
SLOTS_A_BUCKET: Final = BUCKET_MS // SLOT_MS
KEPT_SLOTS: Final = 20  # extra time that a file is kept: a cancellation lies up to a second before its message

ENTRY: Final = struct.Struct(">qqqiI")
_CONTENT: Final = struct.Struct(">qqqi")
_NAME_DIGITS: Final = 13


class Entry(NamedTuple):
    """A message of the timer topic, and the slot in which to look at it."""

    slot: int
    queue_offset: int
    log_offset: int
    size: int  # negative: a cancellation


def encode_entry(slot: int, queue_offset: int, log_offset: int, size: int) -> bytes:
    content = _CONTENT.pack(slot, queue_offset, log_offset, size)
    return content + zlib.crc32(content).to_bytes(4, "big")


def decode_entries(raw: bytes | bytearray, start: int = 0, end: int | None = None) -> Iterator[Entry]:
    """Yield the entries in *raw* from byte *start* to *end*. Raise StoreDamaged if it holds anything else."""
    view = memoryview(raw)[start:end]
    if len(view) % ENTRY.size:
        raise StoreDamaged(f"{len(view)} bytes are no number of entries")
    for position, (slot, queue_offset, log_offset, size, crc) in enumerate(ENTRY.iter_unpack(view)):
        at = position * ENTRY.size
        if zlib.crc32(view[at : at + _CONTENT.size]) != crc:
            raise StoreDamaged(f"the entry at byte {start + at} is damaged")
        yield Entry(slot, queue_offset, log_offset, size)


class Checkpoint(msgspec.Struct, frozen=True, rename="camel"):
    """State of the files."""

    queue_offset: int  # of the timer topic: all messages below are in the files
    slot: int  # all entries in slots below are done
    log_offset: int  # deliveries of this slot and later ones lie in the log from here on
    bucket_bytes: dict[int, int]  # length of each file
    slot_ms: int = SLOT_MS
    bucket_ms: int = BUCKET_MS


class TimerFiles:
    """The timer's directory. The caller keeps the checkpoint that describes its files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._table: DurableTable[Checkpoint] = DurableTable(
            directory / "checkpoint.json", encode=msgspec.json.encode, decode=_decode_checkpoint
        )

    def open(self) -> Checkpoint | None:
        """Return the checkpoint; None for an empty directory. Raise StoreDamaged if the files do not agree with it."""
        checkpoint = self._table.load()
        if checkpoint is None:
            return None
        if (checkpoint.slot_ms, checkpoint.bucket_ms) != (SLOT_MS, BUCKET_MS):
            raise StoreDamaged(f"{self._directory} has slots of another length")
        for bucket, size in checkpoint.bucket_bytes.items():
            path = self._path(bucket)
            found = path.stat().st_size if path.exists() else 0
            if found < size:
                raise StoreDamaged(f"{path} has {found} bytes and should have {size}")
        return checkpoint

    def clear(self) -> None:
        """Remove all files."""
        try:
            for path in self._directory.glob("*"):
                path.unlink()
        except OSError as error:
            raise StoreError.from_os_error(error, f"clearing {self._directory}") from error

    def read(self, checkpoint: Checkpoint, bucket: int) -> bytes:
        """Return the entries of a file; none if the checkpoint has no such file.

        Raise StoreDamaged if it is shorter than it should be, another StoreError if the system refuses to read it now.
        """
        size = checkpoint.bucket_bytes.get(bucket, 0)
        if not size:
            return b""
        try:
            with self._path(bucket).open("rb") as file:
                raw = file.read(size)
        except FileNotFoundError as error:
            raise StoreDamaged(f"{self._path(bucket)} is missing and should have {size} bytes") from error
        except OSError as error:
            raise StoreError.from_os_error(error, f"reading {self._path(bucket)}") from error
        if len(raw) < size:
            raise StoreDamaged(f"{self._path(bucket)} has {len(raw)} bytes and should have {size}")
        return raw

    def write(self, checkpoint: Checkpoint, added: Mapping[int, bytes]) -> Checkpoint:
        """Append entries by bucket, sync them, and only then write the checkpoint; remove files that are done.

        *checkpoint* is the state after the write, but with the file lengths before it. The complete one is returned. A
        failure changes nothing: the same write may be retried.
        """
        before = checkpoint.bucket_bytes
        done = {bucket for bucket in (*before, *added) if (bucket + 1) * SLOTS_A_BUCKET + KEPT_SLOTS <= checkpoint.slot}
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            sizes = {bucket: size for bucket, size in before.items() if bucket not in done}
            for bucket, entries in added.items():
                if bucket not in done:
                    sizes[bucket] = self._add(bucket, before.get(bucket, 0), entries)
            if added:
                sync_directory(self._directory)
            checkpoint = msgspec.structs.replace(checkpoint, bucket_bytes=sizes)
            self._table.save(checkpoint)
            for bucket in done:
                self._path(bucket).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError.from_os_error(error, f"writing {self._directory}") from error
        return checkpoint

    def _add(self, bucket: int, position: int, entries: bytes) -> int:
        descriptor = os.open(self._path(bucket), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            view = memoryview(entries)
            while view:
                written = os.pwrite(descriptor, view, position)
                position, view = position + written, view[written:]
            os.ftruncate(descriptor, position)
            os.fsync(descriptor)
            return position
        finally:
            os.close(descriptor)

    def _path(self, bucket: int) -> Path:
        return self._directory / f"{bucket:0{_NAME_DIGITS}d}"


def _decode_checkpoint(raw: bytes) -> Checkpoint:
    return msgspec.json.decode(raw, type=Checkpoint)
