"""Scan of contiguous records: each record has its length, so the next one begins after it.

The scan cannot be vectorised, but costs only a tenth of the decoding.
"""

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hanabi.spark.decode.fields import Positions
from hanabi.spark.decode.layout import RECORD_BYTES_MIN
from hanabi.wire.message.record import MAGIC, MAGIC_LONG_TOPIC

_SIZE_AND_MAGIC = struct.Struct(">iI")


class Walked(NamedTuple):
    """Starts and sizes of records, and the end of the scan: the end of the bytes, or the first invalid record."""

    starts: Positions
    sizes: Positions
    stopped_at: int


def walk(buffer: pa.Buffer, start: int = 0, end: int | None = None) -> Walked:
    """Return the records that begin at or after *start* and end before *end*. Reads sizes and magics only."""
    view = memoryview(buffer)
    end = len(view) if end is None else end
    starts: list[int] = []
    found = starts.append
    unpack = _SIZE_AND_MAGIC.unpack_from
    position = start
    while position + RECORD_BYTES_MIN <= end:
        size, magic = unpack(view, position)
        if (magic != MAGIC and magic != MAGIC_LONG_TOPIC) or size < RECORD_BYTES_MIN or position + size > end:
            break
        found(position)
        position += size
    places = np.array(starts, np.int64)
    return Walked(places, np.diff(places, append=position), position)
