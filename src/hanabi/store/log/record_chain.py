"""A check that bytes of a master's log continue the log of a slave: each record begins where the last one ends.

    received ........ whole_to ........ received_to        next
    ... │ record │ record │ a part of a record              the record behind it will begin here

Every record states its size, its magic number and its own place in the log, so a log that is not the same is noticed
at its first record, before it is stored. Bodies are not checked. Pure.
"""

import contextlib
import os
import struct
from typing import Final, NamedTuple

from hanabi.errors import LogDiverged
from hanabi.wire.message.record import BLANK_BYTES_MIN, MAGIC, MAGIC_BLANK, MAGIC_LONG_TOPIC

_BLANK: Final = struct.Struct(">II")
_HEAD: Final = struct.Struct(">II20xq")  # size, magic number, log offset
_MAGICS: Final = (MAGIC, MAGIC_LONG_TOPIC)

Buffer = bytes | bytearray | memoryview


class RecordChain(NamedTuple):
    """The known ends of a log that is being received."""

    file_bytes: int
    received_to: int
    whole_to: int  # the end of the last record that is here as a whole
    next: int  # where the first record begins whose head is not here
    head: bytes = b""  # the bytes of that head received so far

    @classmethod
    def at(cls, offset: int, file_bytes: int) -> "RecordChain":
        """Return the chain of a log that ends with a whole record at *offset*."""
        return cls(file_bytes, offset, offset, offset)

    def after(self, data: Buffer) -> "RecordChain":
        """Return the chain with *data* received. Raises LogDiverged if they do not continue the log."""
        file_bytes, start, whole_to, following, head = self
        end = start + len(data)
        while following <= end:
            if not head:
                whole_to, following = follow_records(data, start, following, file_bytes)
                if following > end:
                    break
            whole_to = following
            file_left = file_bytes - following % file_bytes
            position, needed = max(following - start, 0), min(_HEAD.size, file_left)
            head += bytes(data[position : position + needed - len(head)])
            if len(head) < needed:
                break
            following += _checked_size(head, 0, following, file_left)
            head = b""
        return RecordChain(file_bytes, end, whole_to, following, head)


def follow_records(data: Buffer, start: int, following: int, file_bytes: int) -> tuple[int, int]:
    """Walk over the records in *data*, whose first byte is at *start* of the log, from the one at *following* on.

    Stop at a filler, at a head that is no record's, and where no whole head is left. Return where the last record ends
    that is here as a whole, and where the record at the stop begins.
    """
    end, whole_to = start + len(data), following
    while start <= following <= end - _HEAD.size:
        size = _record_size(data, following - start, following, file_bytes - following % file_bytes)
        if not size:
            break
        following += size
        if following <= end:
            whole_to = following
    return whole_to, following


def _record_size(data: Buffer, position: int, offset: int, file_left: int) -> int:
    """Return the size of the record at *position*, which is *offset* of the log; 0 if there is none."""
    size, magic, place = _HEAD.unpack_from(data, position)
    is_record = magic in _MAGICS and place == offset and _HEAD.size < size <= file_left - BLANK_BYTES_MIN
    return int(size) if is_record else 0


def _checked_size(data: Buffer, position: int, offset: int, file_left: int) -> int:
    """Return the size of the record or the filler whose head lies at *position*; *offset* is where that is."""
    if file_left >= _HEAD.size and (size := _record_size(data, position, offset, file_left)):
        return size
    size, magic = _BLANK.unpack_from(data, position) if file_left >= BLANK_BYTES_MIN else (0, 0)
    if magic == MAGIC_BLANK and size == file_left:
        return int(size)
    raise LogDiverged(
        f"no message begins at {offset} in the bytes from the master: its log differs before that, or is damaged there"
    )


# The compiled version (see `_speedups`); the code above is its specification.
python_follow_records = follow_records
if not os.environ.get("HANABI_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from hanabi.store._speedups import follow_records
