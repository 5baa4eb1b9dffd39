"""What a pop asks for and what it gets. Knows no connection and no header, so that each protocol can use it."""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from hanabi.broker.filters.message_filter import PASSES_ALL, MessageFilter
from hanabi.store.read.queue_reader import GetResult
from hanabi.wire.receipts import Receipt, mark_of

START_AT_OLDEST: Final = 0
START_AT_NEWEST: Final = 1

_SIZE: Final = struct.Struct(">i")
_QUEUE_OFFSET: Final = struct.Struct(">q")
_QUEUE_OFFSET_AT: Final = 20


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that a consumer wants."""

    group: str
    topic: str
    queue_id: int = -1  # -1: any queue of this broker
    count_max: int
    invisible_ms: int
    starts_at: int = START_AT_OLDEST  # for a group without an offset
    is_ordered: bool = False
    attempt_id: str | None = None
    filter: MessageFilter = PASSES_ALL


class Batch(msgspec.Struct, frozen=True):
    """Messages of one queue."""

    topic: str  # in which they lie: the asked one or a retry topic of it
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    slices: list[bytes | memoryview]
    size: int
    behind_bytes: int
    last_store_ms: int
    order_counts: str = ""  # ordered: the part of `orderCountInfo` for this queue


class Popped(msgspec.Struct):
    """The result of a pop."""

    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    batches: list[Batch] = []
    count: int = 0
    rest: int = 0  # messages that are left in the queues that were looked at
    filters_until: float = 0.0  # of the monotonic clock: the end of the time for its filter; 0: it has not begun

    def receipt(self, batch: Batch, offset: int, broker_name: str) -> Receipt:
        """Return the receipt of one message of *batch*."""
        return Receipt(
            *(batch.start_offset, self.pop_ms, self.invisible_ms, self.revive_queue_id, mark_of(batch.topic)),
            *(broker_name, batch.queue_id, offset),
        )


def offsets_of(result: GetResult, start: int) -> Sequence[int]:
    """Return the queue offsets of the records that a read from *start* on found."""
    if result.next_offset - start == result.count:
        return range(start, result.next_offset)
    offsets: list[int] = []
    for part in result.slices:
        at = 0
        while at < len(part):
            offsets.append(_QUEUE_OFFSET.unpack_from(part, at + _QUEUE_OFFSET_AT)[0])
            at += _SIZE.unpack_from(part, at)[0]
    return offsets
