"""A check that bytes of a master's log continue the log of a slave: each record begins where the last one ends.

    received ........ whole_to ........ received_to        next
    ... │ record │ record │ a part of a record              the record behind it will begin here

Every record states its size, its magic number and its own place in the log, so a log that is not the same is noticed
at its first record, before it is stored. Bodies are not checked. Pure.
"""

import struct
from typing import Final, NamedTuple

from hanabi.errors import LogDiverged
from hanabi.wire.message.record import BLANK_BYTES_MIN, MAGIC, MAGIC_BLANK, MAGIC_LONG_TOPIC

_BLANK: Final = struct.Struct(">II")
_HEAD: Final = struct.Struct(">II20xq")  # size, magic number, log offset
_MAGICS: Final = (MAGIC, MAGIC_LONG_TOPIC)


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

    def after(self, data: bytes | bytearray | memoryview) -> "RecordChain":
        """Return the chain with *data* received. Raises LogDiverged if they do not continue the log."""
        file_bytes, start, whole_to, following, head = self
        end = start + len(data)
        while following <= end:
            whole_to = following
            file_left = file_bytes - following % file_bytes
            needed = min(_HEAD.size, file_left)
            if head or following + needed > end:  # begins or ends in other data
                head += bytes(data[max(following - start, 0) : max(following - start, 0) + needed - len(head)])
                if len(head) < needed:
                    break
                following += _checked_size(head, 0, following, file_left)
                head = b""
            else:
                following += _checked_size(data, following - start, following, file_left)
        return RecordChain(file_bytes, end, whole_to, following, head)


def _checked_size(data: bytes | bytearray | memoryview, position: int, offset: int, file_left: int) -> int:
    """Return the size of the record or the filler whose head lies at *position*; *offset* is where that is."""
    if file_left >= _HEAD.size:
        size, magic, place = _HEAD.unpack_from(data, position)
        if magic in _MAGICS and place == offset and _HEAD.size < size <= file_left - BLANK_BYTES_MIN:
            return int(size)
    elif file_left >= BLANK_BYTES_MIN:
        size, magic = _BLANK.unpack_from(data, position)
    else:
        size = magic = 0
    if magic == MAGIC_BLANK and size == file_left:
        return int(size)
    raise LogDiverged(
        f"no message begins at {offset} in the bytes from the master: its log differs before that, or is damaged there"
    )
