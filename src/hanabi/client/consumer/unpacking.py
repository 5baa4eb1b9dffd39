"""Which answers to a pull are made into messages in a thread: those with so much to decompress that the event loop
would have to wait for it, and with it heartbeats and all other queues.

Going to a thread and back costs some 0.15 ms, the time in which zlib makes 16 KiB into 50 of ordinary text; less than
that is quicker done where it is.
"""

import struct
from typing import Final

from hanabi.wire.message import sysflag

PACKED_BYTES_MIN: Final = 16 * 1024  # of compressed records; how large they become nobody knows before
_SIZE_AND_FLAG = struct.Struct(">i32xi")  # see `wire.message.record`


def takes_long(records: bytes) -> bool:
    """Whether so much of *records* is compressed that it is to be unpacked in a thread. Pure.

    Where a size is none, the records end: whoever decodes them says what is wrong.
    """
    end = len(records) - _SIZE_AND_FLAG.size
    if end < PACKED_BYTES_MIN:
        return False
    read, position, packed = _SIZE_AND_FLAG.unpack_from, 0, 0
    while position <= end:
        size, flag = read(records, position)
        if size <= 0:
            return False
        if flag & sysflag.COMPRESSED:
            packed += size
            if packed >= PACKED_BYTES_MIN:
                return True
        position += size
    return False
