"""Checksums of bodies.

The only loop over rows in this package: no library computes many CRCs in one call.
"""

import numpy as np

from hanabi.spark.decode.fields import Mask
from hanabi.spark.decode.layout import Layout
from hanabi.wire.message.crc import crc32


def bodies_match(layout: Layout) -> Mask:
    """Return whether each body matches its record's CRC. As in Java, an empty body has none."""
    view, checksum = memoryview(layout.buffer), crc32
    starts, ends = layout.body_at.tolist(), (layout.body_at + layout.body_bytes).tolist()
    found = np.array([checksum(view[start:end]) for start, end in zip(starts, ends, strict=True)], np.int64)
    matches: Mask = (found & 0x7FFF_FFFF == layout.crcs) | (layout.body_bytes == 0)
    return matches
