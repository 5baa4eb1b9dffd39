"""Conversion of pull answers to record batches: walk, lay out, filter, decode."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hanabi.errors import RemoteProtocolError
from hanabi.spark.decode.batches import Rows, decode_batches
from hanabi.spark.decode.fields import Mask, Positions
from hanabi.spark.decode.layout import Layout, lay_out
from hanabi.spark.decode.walk import walk
from hanabi.spark.shared.offsets import describe
from hanabi.spark.shared.ranges import QueueRange

_QUEUE_OFFSET_AT = 20

logger = logging.getLogger(__name__)


class RangeRows:
    """Converter of the records of one range to rows of *schema*. Records arrive in order, but some twice.

    *tags* are compared as text: a broker compares hash codes alone.
    """

    def __init__(
        self, part: QueueRange, schema: pa.Schema, tags: Sequence[str], *, check_crc: bool, on_damage: str
    ) -> None:
        self._part, self._schema, self._check_crc, self._on_damage = part, schema, check_crc, on_damage
        self._damaged: list[int] = []  # the offsets of messages with damaged bodies
        self._tags = pa.array(tags, pa.string()) if tags else None
        self._next = part.start

    def batches(self, bodies: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        buffer = _joined(bodies)
        walked = walk(buffer)
        layout, torn = lay_out(buffer, walked.starts, walked.sizes)
        if len(torn) or walked.stopped_at != buffer.size:
            raise RemoteProtocolError(
                f"{describe(self._part.queue)}: a message between {self._next} and {self._part.end} cannot be read"
            )
        layout = layout.only(self._new(layout))
        if self._tags is not None:
            layout = layout.only(pc.is_in(Rows(layout).tags, self._tags).to_numpy(zero_copy_only=False))
        known = layout

        def damaged(rows: Positions) -> None:
            offsets = known.field(_QUEUE_OFFSET_AT, ">i8")[np.searchsorted(known.rows, rows)].tolist()
            if self._on_damage == "fail":
                raise RemoteProtocolError(
                    f"{describe(self._part.queue)}: the body of message {offsets[0]} is damaged"
                    ' (option onDamage: "skip" leaves such messages out, "raw" gives their bodies as they are stored)'
                )
            self._damaged += offsets

        yield from decode_batches(
            layout,
            self._schema,
            broker_name=self._part.queue.broker_name,
            check_crc=self._check_crc,
            keep_damaged=self._on_damage == "raw",
            on_damaged=damaged,
        )

    def report(self) -> None:
        """Log the number of damaged bodies of the range, if there are any."""
        if self._damaged:
            what = "left out" if self._on_damage == "skip" else "given as they are stored"
            logger.warning(
                "%s: %d damaged bodies between %d and %d are %s; the first is that of message %d",
                describe(self._part.queue), len(self._damaged), self._part.start, self._part.end, what, self._damaged[0]
            )  # fmt: skip

    def _new(self, layout: Layout) -> Mask:
        """Return a mask of the records that belong to the range and did not arrive before."""
        offsets = layout.field(_QUEUE_OFFSET_AT, ">i8")
        if not len(offsets):
            return np.empty(0, np.bool_)
        reached = np.maximum.accumulate(np.concatenate(([self._next - 1], offsets)))
        self._next = int(reached[-1]) + 1
        mask: Mask = (offsets > reached[:-1]) & (offsets < self._part.end)
        return mask


def _joined(bodies: Sequence[bytes]) -> pa.Buffer:
    """Return *bodies* concatenated in Arrow's memory.

    Arrow reuses its memory; large `bytes` return theirs to the system, which clears it page by page for the next one.
    """
    buffer = pa.allocate_buffer(sum(map(len, bodies)))
    view, at = memoryview(buffer).cast("B"), 0
    for body in bodies:
        view[at : at + len(body)] = body
        at += len(body)
    return buffer
