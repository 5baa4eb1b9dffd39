"""The index files of a store, as they lie on the disk: header, entries, chains.

A file does not record its number of slots, which is a setting of the broker. It is derived from the file: the newest
entry is always the first of its slot's chain, which fits one number of slots only.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hanabi.store.config import StoreConfig
from hanabi.store.index.index_file import ENTRY, HEADER, SLOT
from hanabi.store.inspection.home import FileReader, cannot_read

_PIECE_BYTES: Final = 1 << 20
_LOG_OFFSET_AT: Final = 4  # in an entry, behind the hash
_DEFAULT = StoreConfig()
_USUAL_ENTRIES_PER_SLOT: Final = _DEFAULT.index_entries // _DEFAULT.index_slots


Header = tuple[int, int, int, int, int, int]


class IndexEntry(NamedTuple):
    """One key of one message. `seconds` counts from the begin time of the file."""

    number: int
    hashed_key: int
    log_offset: int
    seconds: int
    previous: int


class IndexOnDisk(msgspec.Struct, frozen=True):
    """One index file and its header."""

    path: str
    size: int
    begin_ms: int
    end_ms: int
    begin_log_offset: int
    end_log_offset: int
    slots_used: int
    next_entry: int

    @property
    def header(self) -> Header:
        return (
            self.begin_ms,
            self.end_ms,
            self.begin_log_offset,
            self.end_log_offset,
            self.slots_used,
            self.next_entry,
        )

    @property
    def count(self) -> int:
        """The number of entries; the first has number 1."""
        return max(self.next_entry - 1, 0)

    def entries_max(self, slots: int) -> int:
        return (self.size - HEADER.size - slots * SLOT.size) // ENTRY.size

    def entry_at(self, slots: int, number: int) -> int:
        """Return an entry's position in the file."""
        return HEADER.size + slots * SLOT.size + number * ENTRY.size

    def slot_at(self, slot: int) -> int:
        """Return a slot's position in the file."""
        return HEADER.size + slot * SLOT.size

    def entry(self, reader: FileReader, slots: int, number: int) -> IndexEntry | None:
        data = reader.read(self.path, self.entry_at(slots, number), ENTRY.size)
        return IndexEntry(number, *ENTRY.unpack(data)) if len(data) == ENTRY.size else None

    def entries(self, reader: FileReader, slots: int) -> Iterator[IndexEntry]:
        """Yield every entry, oldest first."""
        per_piece = _PIECE_BYTES // ENTRY.size
        for first in range(1, self.count + 1, per_piece):
            wanted = min(per_piece, self.count + 1 - first) * ENTRY.size
            data = reader.read(self.path, self.entry_at(slots, first), wanted)
            data = data[: len(data) - len(data) % ENTRY.size]
            for number, entry in enumerate(ENTRY.iter_unpack(data), first):
                yield IndexEntry(number, *entry)

    def newest_of_slots(self, reader: FileReader, slots: int) -> Iterator[tuple[int, int]]:
        """Yield every slot that is in use, and the number of its newest entry."""
        per_piece = _PIECE_BYTES // SLOT.size
        for first in range(0, slots, per_piece):
            data = reader.read(self.path, HEADER.size + first * SLOT.size, min(per_piece, slots - first) * SLOT.size)
            for slot, (number,) in enumerate(SLOT.iter_unpack(data[: len(data) - len(data) % SLOT.size]), first):
                if number:
                    yield slot, number

    def time_ms(self, entry: IndexEntry) -> int:
        """Return the approximate store time. The first entry's seconds may count from the end of the file before."""
        return self.begin_ms + (entry.seconds * 1000 if entry.number > 1 else 0)


def find_index_files(directory: Path, reader: FileReader) -> list[IndexOnDisk]:
    """Return every index file, oldest first. One too short for a header has zeros in its place."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.isascii() and name.isdigit())  # noqa: PTH208
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(directory, error) from error
    files: list[IndexOnDisk] = []
    for name in names:
        path = f"{directory}/{name}"
        try:
            size = os.stat(path).st_size  # noqa: PTH116
        except FileNotFoundError:
            continue
        except OSError as error:
            raise cannot_read(path, error) from error
        files.append(IndexOnDisk(path, size, *read_header(path, reader)))
    return files


def read_header(path: str, reader: FileReader) -> Header:
    """Begin and end time, begin and end log offset, slots in use, next entry. Zeros where the file is too short."""
    header: Header = HEADER.unpack(reader.read(path, 0, HEADER.size).ljust(HEADER.size, b"\0"))
    return header


def find_slots(file: IndexOnDisk, reader: FileReader, known: dict[int, int]) -> int | None:
    """Return the number of slots in *file*; None if nothing fits. *known* caches it by file size."""
    if file.size in known:
        return known[file.size]
    usual, rest_of_usual = divmod(file.size - HEADER.size, SLOT.size + _USUAL_ENTRIES_PER_SLOT * ENTRY.size)
    if not rest_of_usual and _fits(file, reader, usual):
        known[file.size] = usual
        return usual
    for position in _places_of_newest(file, reader):
        slots, rest = divmod(position - file.count * ENTRY.size - HEADER.size, SLOT.size)
        if not rest and _fits(file, reader, slots):
            known[file.size] = slots
            return slots
    return usual if not rest_of_usual and file.count < file.entries_max(usual) else None  # its end may be damaged


def _fits(file: IndexOnDisk, reader: FileReader, slots: int) -> bool:
    if slots <= 0 or not 0 < file.count < file.entries_max(slots):
        return False
    if (file.size - HEADER.size - slots * SLOT.size) % ENTRY.size:
        return False
    unused, oldest, newest = (file.entry(reader, slots, number) for number in (0, 1, file.count))
    if unused is None or any(unused) or oldest is None or not any(oldest[1:]):
        return False
    if newest is None or newest.log_offset != file.end_log_offset or newest.hashed_key < 0:
        return False
    slot = reader.read(file.path, file.slot_at(newest.hashed_key % slots), SLOT.size)
    return len(slot) == SLOT.size and SLOT.unpack(slot)[0] >= file.count  # more, if a broker adds entries just now


def _places_of_newest(file: IndexOnDisk, reader: FileReader) -> Iterator[int]:
    """Yield the possible positions of the newest entry: its log offset is the one in the header.

    If that is 0, there is only one message in the file, and so little else that every number may be the entry's hash.
    """
    pattern = file.end_log_offset.to_bytes(8, "big", signed=True)
    position: int | None = HEADER.size
    while position is not None:
        position = reader.next_data(file.path, position)
        data = reader.read(file.path, position, _PIECE_BYTES) if position is not None else b""
        if position is None or len(data) < len(pattern):
            return
        if any(pattern):
            at = data.find(pattern)
            while at >= 0:
                yield position + at - _LOG_OFFSET_AT
                at = data.find(pattern, at + 1)
        elif data.strip(b"\0"):
            words = data[: len(data) - len(data) % SLOT.size]
            yield from (position + at * SLOT.size for at, (word,) in enumerate(SLOT.iter_unpack(words)) if word)
        position += max(len(data) - len(pattern), SLOT.size)  # overlapping: a pattern may lie across the border
