"""Choice of pull responses to decode in a thread: those whose decompression would block the event loop, and with it
heartbeats and all other queues.

A thread round trip costs about 0.15 ms, the time in which zlib decompresses 16 KiB into 50 of ordinary text; smaller
responses are decoded faster in the loop.
"""

import struct
from typing import Final

from hanabi.wire.message import sysflag

PACKED_BYTES_MIN: Final = 16 * 1024  # of compressed records; their decompressed size is unknown
_SIZE_AND_FLAG = struct.Struct(">i32xi")  # see `wire.message.record`


def takes_long(records: bytes) -> bool:
    """Return True if enough of *records* is compressed to decode them in a thread. Pure.

    An invalid size ends the scan: the decoder reports the error.
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
