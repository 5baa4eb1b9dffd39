"""Conversion of a chunk of the log to record batches: separates damaged records, filters unwanted ones."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.batches import Rows, decode_batches
from hanabi.spark.decode.fields import Mask
from hanabi.spark.decode.layout import Layout, lay_out
from hanabi.spark.shared.selection import Selection
from hanabi.spark.store.chunks import Chunk
from hanabi.spark.store.damage import Damaged, reason_of
from hanabi.spark.store.entries import Entries, Span
from hanabi.store.inspection.expected import expected_entries
from hanabi.wire.message.record import decode_dispatch


@dataclass(frozen=True)
class RowMaker:
    """Converter of chunks to rows of *schema*. A chunk's entries refer to *spans*."""

    schema: pa.Schema
    selection: Selection
    spans: tuple[Span, ...]
    broker_name: str | None
    check_crc: bool
    ends_at_damage: bool = False

    def rows(self, chunk: Chunk) -> tuple[list[pa.RecordBatch], list[Damaged]]:
        """Return the batches of *chunk*, and its damaged records."""
        layout, torn = lay_out(chunk.buffer, chunk.starts, chunk.sizes)
        right, wrong = self._told_apart(layout, chunk)
        damaged = [*torn.tolist(), *wrong]
        layout = layout.only(right)
        layout = layout.only(self._wanted(layout, is_from_queue=chunk.entries is not None))
        if self.ends_at_damage:
            batches, damaged = self._decode_up_to_damage(layout, damaged)
        else:
            batches, spoilt = self._decode(layout)
            damaged += spoilt
        return batches, [self._describe(chunk, row) for row in sorted(damaged)]

    def _decode(self, layout: Layout) -> tuple[list[pa.RecordBatch], list[int]]:
        """Return the batches, and the rows with damaged bodies."""
        spoilt: list[int] = []
        batches = decode_batches(
            layout,
            self.schema,
            broker_name=self.broker_name,
            check_crc=self.check_crc,
            on_damaged=lambda rows: spoilt.extend(rows.tolist()),
        )
        return list(batches), spoilt

    def _decode_up_to_damage(self, layout: Layout, damaged: list[int]) -> tuple[list[pa.RecordBatch], list[int]]:
        while True:
            if damaged:
                damaged = [min(damaged)]
                layout = layout.only(layout.rows < damaged[0])
            batches, spoilt = self._decode(layout)
            if not spoilt:
                return batches, damaged
            damaged += spoilt

    def _told_apart(self, layout: Layout, chunk: Chunk) -> tuple[Mask, list[int]]:
        """Return a mask of the records that are the expected ones, and the rows of records that must not be there."""
        right: Mask = layout.log_offsets == chunk.log_offsets[layout.rows]
        if chunk.entries is None:
            return right, layout.rows[~right].tolist()
        spans = chunk.entries.spans[layout.rows]
        right &= layout.queue_offsets == chunk.entries.queue_offsets[layout.rows]
        right &= layout.queue_ids == np.array([span.queue_id for span in self.spans])[spans]
        topics = pa.array([span.topic for span in self.spans])
        asked = topics[0] if len(set(topics.to_pylist())) == 1 else topics.take(pa.array(spans))
        right &= pc.equal(layout.topics, asked).to_numpy(zero_copy_only=False)
        mismatched = layout.rows[~right].tolist()
        return right, [row for row in mismatched if not self._is_reference(chunk, chunk.entries, row)]

    def _is_reference(self, chunk: Chunk, entries: Entries, row: int) -> bool:
        """Return whether the message belongs to another queue and may be referenced by this one.

        The other queue returns it.
        """
        try:
            record = decode_dispatch(_raw(chunk, row))
        except RemoteProtocolError:
            return False
        place = self._place(entries, row)
        return record.log_offset == chunk.log_offsets[row] and any(
            entry[:3] == place for entry in expected_entries(record, None)
        )

    def _wanted(self, layout: Layout, *, is_from_queue: bool) -> Mask:
        wanted = np.ones(len(layout), np.bool_)
        rows, selection = Rows(layout), self.selection
        if selection.from_ms is not None:
            wanted &= rows.store_times_ms >= selection.from_ms
        if selection.to_ms is not None:
            wanted &= rows.store_times_ms < selection.to_ms
        if selection.tags is not None:
            wanted &= _is_in(rows.tags, selection.tags)
        if not is_from_queue:
            wanted &= self._of_wanted_queues(layout)
        return wanted

    def _of_wanted_queues(self, layout: Layout) -> Mask:
        topics = layout.topics.dictionary_encode()
        numbers, queue_ids = topics.indices.to_numpy(), layout.queue_ids
        wanted = np.zeros(len(layout), np.bool_)
        for number, topic in enumerate(topics.dictionary.to_pylist()):
            mine = numbers == number
            ids = [each for each in np.unique(queue_ids[mine]).tolist() if self.selection.has_queue(topic, each)]
            wanted |= mine & np.isin(queue_ids, ids)
        return wanted

    def _place(self, entries: Entries, row: int) -> tuple[str, int, int]:
        span = self.spans[int(entries.spans[row])]
        return span.topic, span.queue_id, int(entries.queue_offsets[row])

    def _describe(self, chunk: Chunk, row: int) -> Damaged:
        log_offset, size = int(chunk.log_offsets[row]), int(chunk.sizes[row])
        if chunk.entries is None:
            return Damaged(None, None, None, log_offset, reason_of(_raw(chunk, row)))
        place = self._place(chunk.entries, row)
        if not size:
            return Damaged(*place, log_offset, "its queue has no entry for it")
        if chunk.starts[row] < 0:
            return Damaged(*place, log_offset, f"its queue says that it has {size} bytes there, which the log has not")
        return Damaged(*place, log_offset, reason_of(_raw(chunk, row)))


def _raw(chunk: Chunk, row: int) -> bytes:
    start = int(chunk.starts[row])
    return bytes(memoryview(chunk.buffer)[start : start + int(chunk.sizes[row])])


def _is_in(texts: pa.Array, wanted: "frozenset[str]") -> Mask:
    found: Mask = pc.is_in(texts, pa.array(sorted(wanted), pa.string())).to_numpy(zero_copy_only=False)
    return found
