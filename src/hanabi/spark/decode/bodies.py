"""Decompressed bodies. Only compressed bodies are handled one by one."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.layout import Layout
from hanabi.spark.decode.slices import slices_of
from hanabi.spark.decode.unpack import unpack
from hanabi.wire.message import sysflag

UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024  # per batch: a few bytes can decompress to very many


class Bodies(NamedTuple):
    """Bodies of the first `taken` records: as many as memory permits at once.

    `damaged` holds the rows of bodies that do not decompress; these bodies stay as stored.
    """

    bodies: pa.Array
    taken: int
    damaged: list[int]


def read_bodies(layout: Layout, bytes_max: int = UNPACKED_BYTES_MAX) -> Bodies:
    """Return the bodies of *layout*, decompressed."""
    flags = layout.sys_flags
    compressed = np.flatnonzero(flags & sysflag.COMPRESSED)
    if not len(compressed):
        return Bodies(_as_stored(layout), len(layout), [])
    view = memoryview(layout.buffer)
    unpacked: list[bytes] = []
    damaged: list[int] = []
    total, taken = 0, len(layout)
    for row in compressed.tolist():
        if total > bytes_max:
            taken = row
            break
        start = int(layout.body_at[row])
        body = bytes(view[start : start + int(layout.body_bytes[row])])
        try:
            body = unpack(body, int(flags[row]))
        except RemoteProtocolError:
            damaged.append(row)
        unpacked.append(body)
        total += len(body)
    both = pa.concat_arrays([_as_stored(layout.only(slice(0, taken))), pa.array(unpacked, pa.binary())])
    places = np.arange(taken)
    places[compressed[: len(unpacked)]] = taken + np.arange(len(unpacked))
    return Bodies(both.take(pa.array(places)), taken, damaged)


def _as_stored(layout: Layout) -> pa.Array:
    return slices_of(layout.buffer, layout.body_at, layout.body_bytes, pa.binary())
