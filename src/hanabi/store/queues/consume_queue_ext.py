"""The extension of a consume queue: the data for filters that do not read the message from the log.

    consumequeue_ext/TOPIC/QUEUE/00000000000000000000     files of one size; no unit crosses from one to the next

    +-----------+----------------+------------------+-----------------+------------------+
    | size  i16 | tags code  i64 | store time   i64 | bitmap size i16 | bitmap           |    big-endian
    +-----------+----------------+------------------+-----------------+------------------+
    | -1    i16 | zeros to the end: the unit did not fit (4 bytes stay free)              |

The consume queue then keeps a unit's address in place of the tags code: its position + Long.MIN_VALUE, which no hash
of 32 bits can be. Agrees with ConsumeQueueExt.java. Nothing here is needed to deliver a message: a unit that is lost or
damaged reads as None, and the filter looks at the message itself.
"""

import logging
import struct
from typing import Final, NamedTuple

from hanabi.store.queues.queue_files import QueueFamily, QueueFiles

logger = logging.getLogger(__name__)

UNIT: Final = struct.Struct(">hqqh")
UNIT_BYTES_MAX: Final = 32_767
END_BLANK_BYTES: Final = 4

_SIZE: Final = struct.Struct(">h")
_END_OF_FILE: Final = _SIZE.pack(-1)
_LONG_MIN: Final = -(2**63)
_ADDRESS_MAX: Final = -(2**31) - 1
_POSITION_MAX: Final = _ADDRESS_MAX - _LONG_MIN
_SCAN_BYTES: Final = 1 << 20


class ExtUnit(NamedTuple):
    """The extension's data of one message."""

    tags_code: int
    store_time_ms: int
    bitmap: bytes


def is_ext_address(tags_code: int) -> bool:
    """Return whether the tags code of an entry is really the address of a unit."""
    return tags_code <= _ADDRESS_MAX


class ConsumeQueueExt(QueueFiles):
    """The units of one queue, by address."""

    __slots__ = ()

    def __init__(self, family: QueueFamily, topic: str, queue_id: int) -> None:
        super().__init__(family, topic, queue_id)

    def put(self, tags_code: int, store_time_ms: int, bitmap: bytes | None) -> int | None:
        """Keep a unit and return its address, or None if it is too large: the entry then keeps the tags code itself."""
        bitmap = bitmap or b""
        size = UNIT.size + len(bitmap)
        position = self.end
        if size > UNIT_BYTES_MAX or size > self.family.file_bytes - END_BLANK_BYTES or position + size > _POSITION_MAX:
            return None
        room = self.family.file_bytes - position % self.family.file_bytes
        if size > room - END_BLANK_BYTES:
            self.append_bytes(_END_OF_FILE + bytes(room - len(_END_OF_FILE)))
            position += room
        self.append_bytes(UNIT.pack(size, tags_code, store_time_ms, len(bitmap)) + bitmap)
        return position + _LONG_MIN

    def get(self, address: int) -> ExtUnit | None:
        """Return the unit at *address*; None if there is none, or it is damaged."""
        if not is_ext_address(address):
            return None
        position = address - _LONG_MIN
        if not self.first <= position < self.end:
            return None
        file_rest = self.family.file_bytes - position % self.family.file_bytes
        data = self.read_bytes(position, min(UNIT.size + 64, file_rest))  # mostly all of it: bitmaps are short
        if len(data) < UNIT.size:
            return None
        size, tags_code, store_time_ms, bitmap_bytes = UNIT.unpack_from(data)
        if bitmap_bytes < 0 or size != UNIT.size + bitmap_bytes or size > file_rest:
            return None
        if size > len(data):
            data = self.read_bytes(position, size)
            if len(data) < size:
                return None
        return ExtUnit(tags_code, store_time_ms, data[UNIT.size : size])

    def truncate_behind(self, address: int | None) -> None:
        """Let the unit at *address* be the last. Without one, or if it cannot be read, nothing changes."""
        unit = self.get(address) if address is not None else None
        if unit is not None and address is not None:
            self.truncate_to(address - _LONG_MIN + UNIT.size + len(unit.bitmap))

    def delete_before_address(self, address: int) -> int:
        """Delete the files that end before *address*; return how many. (Apache spares one that ends exactly there.)"""
        return self.delete_before(address - _LONG_MIN - 1)

    def load(self, bases: list[int], last_address: int | None) -> None:
        """Find the end of the units in the files at *bases*, behind the one that the queue's last entry points at.

        Without such an address the last file is walked from its beginning, unit by unit. Where the files end before
        what it points at, units are lost: the next ones go into a new file, as no address may come twice.
        """
        if bases:
            self._find_end(bases, last_address)
        if last_address is not None and last_address - _LONG_MIN >= self.end:
            self._begin_behind(last_address - _LONG_MIN)

    def _begin_behind(self, position: int) -> None:
        logger.error(
            "%s lacks units up to byte %d: filters look at the messages themselves until these are gone",
            self.directory,
            position,
        )
        self.delete_all()
        base = position + self.family.file_bytes - position % self.family.file_bytes
        self.set_range(base, base)

    def _find_end(self, bases: list[int], last_address: int | None) -> None:
        file_bytes = self.family.file_bytes
        # A hole: units before it cannot be reached by position alone, and are not needed.
        first = bases[-1]
        while first - file_bytes in bases:
            first -= file_bytes
        for base in bases:
            if base < first:
                self.delete_file(base)
        self.set_range(first, bases[-1] + file_bytes)
        unit = self.get(last_address) if last_address is not None else None
        if unit is not None:
            self.truncate_behind(last_address)
        else:
            self.truncate_to(bases[-1] + self._walk(bases[-1]))

    def _walk(self, base: int) -> int:
        """Return the end of the units in one file."""
        at = start = 0
        data = b""
        while True:
            if at + _SIZE.size > start + len(data):
                start, data = at, self.read_in_file(base, at, _SCAN_BYTES)
                if len(data) < _SIZE.size:
                    return at
            (size,) = _SIZE.unpack_from(data, at - start)
            if size < UNIT.size or at + size > self.family.file_bytes - END_BLANK_BYTES:
                return at
            at += size
