"""Chunks of a task's records that fit into memory, in the order of the log.

Messages of one queue are interleaved with other queues'. Records near each other are read in one piece with the gap
between them, which is cheaper than two reads; distant records are read separately.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hanabi.spark.decode.fields import Mask, Positions
from hanabi.spark.decode.layout import RECORD_BYTES_MIN
from hanabi.spark.store.entries import Entries
from hanabi.spark.store.log import LogReader
from hanabi.store.inspection.log_scan import RECORD_BYTES_MAX

CHUNK_BYTES_MAX: Final = 16 << 20
_GAP_BYTES_MAX: Final = 16 << 10


@dataclass(frozen=True)
class Chunk:
    """Bytes of the log, with the expected positions of records in them.

    A start of -1 is an unreadable record: its position is outside of the log, or its size is impossible. `entries` are
    the queue entries of the records; None if the records come from a scan of the log.
    """

    buffer: pa.Buffer
    starts: Positions
    sizes: Positions
    log_offsets: Positions
    entries: Entries | None = None


def entry_chunks(entries: Entries, log: LogReader, rows_max: int, bytes_max: int = CHUNK_BYTES_MAX) -> Iterator[Chunk]:
    """Yield the records of *entries*, in chunks of at most *rows_max* records and about *bytes_max* bytes."""
    numbers = log.numbers_of(entries.log_offsets)
    sizes = np.where((entries.sizes >= RECORD_BYTES_MIN) & (entries.sizes <= RECORD_BYTES_MAX), entries.sizes, 0)
    ends = entries.log_offsets + sizes
    fits = (numbers >= 0) & (sizes > 0)
    fits[fits] = ends[fits] <= log.ends[numbers[fits]]
    # Bytes that each record adds to the read: itself and the gap before it. An estimate if entries are damaged.
    gaps = np.clip(entries.log_offsets - np.concatenate([[0], ends[:-1]]), 0, _GAP_BYTES_MAX)
    cost = np.cumsum(np.where(fits, sizes + gaps, 0))
    first = 0
    while first < len(entries):
        limit = (cost[first - 1] if first else 0) + bytes_max
        end = max(min(int(np.searchsorted(cost, limit, "right")), first + rows_max), first + 1)
        yield _read(entries, slice(first, end), numbers, fits, log)
        first = end


def _read(
    entries: Entries,
    part: slice,
    numbers: Positions,
    fits: Mask,
    log: LogReader,
) -> Chunk:
    mine = Entries(entries.log_offsets[part], entries.sizes[part], entries.queue_offsets[part], entries.spans[part])
    readable, files = fits[part], numbers[part]
    starts = np.full(len(mine), -1, np.int64)
    if not readable.any():
        return Chunk(pa.py_buffer(b""), starts, mine.sizes, mine.log_offsets, mine)
    begins, stops, files = mine.log_offsets[readable], (mine.log_offsets + mine.sizes)[readable], files[readable]
    reached = np.maximum.accumulate(stops)
    is_new = np.ones(len(begins), np.bool_)  # whether this record begins a new piece
    is_new[1:] = (begins[1:] - reached[:-1] > _GAP_BYTES_MAX) | (files[1:] != files[:-1])
    heads = np.flatnonzero(is_new)
    piece_at = begins[heads]
    piece_bytes = np.maximum.reduceat(stops, heads) - piece_at
    pieces = list(zip(files[heads].tolist(), piece_at.tolist(), piece_bytes.tolist(), strict=True))
    in_buffer = np.cumsum(piece_bytes) - piece_bytes
    piece_of = np.cumsum(is_new) - 1
    starts[readable] = begins - (piece_at - in_buffer)[piece_of]
    return Chunk(log.read(pieces), starts, mine.sizes, mine.log_offsets, mine)
