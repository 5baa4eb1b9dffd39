"""The consume queues of a store, read from their files: their names, ends and entries.

Knows the files only, not what the log says about them.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hanabi.store.inspection.home import DataFile, FileReader, cannot_read, file_bytes, list_files
from hanabi.store.queues.consume_queue import ENTRY, ENTRY_BYTES, Entry, count_present, is_blank, is_present
from hanabi.store.queues.consume_queue_ext import UNIT

_BLOCK_BYTES: Final = 204 * ENTRY_BYTES  # about a page
_PIECE_BYTES: Final = 13_000 * ENTRY_BYTES  # about a quarter of a megabyte
_WINDOWS_MAX: Final = 512
_FIRST_EXT_ADDRESS: Final = -(2**63)  # an address is a position, counted from here


class QueueOnDisk:
    """The files of one queue, as they were listed."""

    __slots__ = ("directory", "file_bytes", "files", "queue_id", "topic")

    def __init__(self, directory: str, topic: str, queue_id: int) -> None:
        self.directory, self.topic, self.queue_id = directory, topic, queue_id
        self.files = list_files(directory)
        self.file_bytes = file_bytes(self.files)

    @property
    def first_offset(self) -> int:
        """The queue offset of the first entry that has a place in the files."""
        return self.files[0].base // ENTRY_BYTES if self.files else 0

    def file_at(self, queue_offset: int) -> tuple[str, int]:
        """Return the file to which the entry belongs, whether or not it exists, and the position in it."""
        position = queue_offset * ENTRY_BYTES
        at = position % self.file_bytes if self.file_bytes else position
        return f"{self.directory}/{position - at:020d}", at

    def read(self, reader: FileReader, queue_offset: int, size: int) -> bytes:
        """Read at most *size* bytes from an entry on, all from one file."""
        path, at = self.file_at(queue_offset)
        return reader.read(path, at, min(size, self.file_bytes - at)) if at < self.file_bytes else b""

    def entry(self, reader: FileReader, queue_offset: int) -> Entry | None:
        """Return the entry at *queue_offset*, None if there is none."""
        data = self.read(reader, queue_offset, ENTRY_BYTES)
        return unpack_entry(data, 0)

    def end_offset(self, reader: FileReader) -> int:
        """Return the offset behind the last entry. Searches the last file that has one, ignoring holes."""
        for file in reversed(self.files):
            used = _used_bytes(file, reader)
            if used:
                return (file.base + used) // ENTRY_BYTES
        return self.first_offset

    def min_offset(self, reader: FileReader, end_offset: int, log_offset_min: int) -> int:
        """Return the first entry of a message that the log still has; *end_offset* if there is none."""
        low, high = self.first_offset, end_offset
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(reader, middle)
            if entry is None or (entry[0] >= log_offset_min and not is_blank(entry[0], entry[1])):
                high = middle
            else:
                low = middle + 1
        return low

    def pieces(self, reader: FileReader, queue_offset: int = 0) -> Iterator[tuple[DataFile, int, bytes]]:
        """Yield the content from *queue_offset* on: the file, a position in it, and whole entries. No holes."""
        for file in self.files:
            position: int | None = max(queue_offset * ENTRY_BYTES - file.base, 0)
            while position is not None and position < file.size:
                data_at = reader.next_data(file.path, position)
                if data_at is None:
                    break
                position = max(position, data_at - data_at % ENTRY_BYTES)
                data = reader.read(file.path, position, _PIECE_BYTES)
                data = data[: len(data) - len(data) % ENTRY_BYTES]
                if not data:
                    break
                yield file, position, data
                position += len(data)


def unpack_entry(data: bytes, at: int) -> Entry | None:
    """Return the entry at *at*, None if there is none."""
    if at + ENTRY_BYTES > len(data):
        return None
    log_offset, size, tags_code = ENTRY.unpack_from(data, at)
    return (log_offset, size, tags_code) if is_present(log_offset, size) else None


def _used_bytes(file: DataFile, reader: FileReader) -> int:
    """Return the number of bytes of entries in *file*, by binary search over the first entry of each block."""
    low, high = 0, -(-file.size // _BLOCK_BYTES)
    while high - low > 1:
        middle = (low + high) // 2
        if count_present(reader.read(file.path, middle * _BLOCK_BYTES, ENTRY_BYTES)):
            low = middle
        else:
            high = middle
    block = reader.read(file.path, low * _BLOCK_BYTES, min(_BLOCK_BYTES, file.size - low * _BLOCK_BYTES))
    return low * _BLOCK_BYTES + count_present(block) * ENTRY_BYTES


def find_queues(directory: Path) -> Iterator[QueueOnDisk]:
    """Yield every queue in `consumequeue`, by topic and number."""
    for topic in _names(str(directory)):
        for name in sorted((name for name in _names(f"{directory}/{topic}") if name.isdecimal()), key=int):
            yield QueueOnDisk(f"{directory}/{topic}/{name}", topic, int(name))


def _names(directory: str) -> list[str]:
    try:
        # A name that is not printable is not a topic's.
        return sorted(name for name in os.listdir(directory) if name.isprintable())  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise cannot_read(directory, error) from error


class EntryWindows:
    """Entries of many queues, each asked for in rising order, as a scan of the log does. Keeps a page for each."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._windows: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def entry(self, queue: QueueOnDisk, queue_offset: int) -> Entry | None:
        """Return the entry at *queue_offset*, None if there is none."""
        window = self._windows.get(queue.directory)
        if window is not None:
            self._windows.move_to_end(queue.directory)
            start, data = window
            entry = unpack_entry(data, (queue_offset - start) * ENTRY_BYTES) if queue_offset >= start else None
            if entry is not None:
                return entry
        # Also where the window has none: a running broker may have written it meanwhile.
        data = queue.read(self._reader, queue_offset, _BLOCK_BYTES)
        self._windows[queue.directory] = queue_offset, data
        if len(self._windows) > _WINDOWS_MAX:
            self._windows.popitem(last=False)
        return unpack_entry(data, 0)


class QueueExtensions:
    """The units of `consumequeue_ext` that entries refer to."""

    def __init__(self, directory: Path, reader: FileReader) -> None:
        self._directory, self._reader = directory, reader
        self._files: dict[tuple[str, int], list[DataFile]] = {}

    def tags_code(self, topic: str, queue_id: int, address: int) -> int | None:
        """Return the tags code in the unit at *address*, None if there is no unit."""
        files = self._files.get((topic, queue_id))
        if files is None:
            files = self._files[topic, queue_id] = list_files(self._directory / topic / str(queue_id))
        position = address - _FIRST_EXT_ADDRESS
        for file in files:
            if file.base <= position < file.end:
                data = self._reader.read(file.path, position - file.base, UNIT.size)
                if len(data) == UNIT.size:
                    size, tags_code, _, bitmap_bytes = UNIT.unpack(data)
                    if bitmap_bytes >= 0 and size == UNIT.size + bitmap_bytes:
                        return int(tags_code)
        return None
