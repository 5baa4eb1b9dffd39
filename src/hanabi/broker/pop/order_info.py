"""Order state of one queue for one group: which popped messages block it, and until when. Pure.

The whole queue is blocked until each popped message is acknowledged or visible again; then it is read again from the
first unacknowledged one. A pop with the attempt id of the last one is a retry of a lost reply: it gets the same
messages. The fields are those of Java's ConsumerOrderInfoManager.OrderInfo (5.3.3), which share one file.
"""

from collections.abc import Iterable, Sequence

import msgspec

from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int64


class OrderInfo(Body, frozen=True, kw_only=True):
    """The last ordered pop of a queue."""

    attempt_id: str | None = msgspec.field(default=None, name="a")
    committed_bits: Int64 = always_written(0, name="cm")  # acknowledged ones of `offsets`, lowest bit first
    invisible_ms: Int64 | None = msgspec.field(default=None, name="i")
    last_consumed_ms: Int64 = always_written(0, name="l")
    offsets: list[int] = always_written_new(list, name="o")  # the first one, and the distances of the others from it
    counts: dict[int, int] | None = msgspec.field(default=None, name="oc")  # earlier deliveries, by offset
    visible_ms: dict[int, int] | None = msgspec.field(default=None, name="ot")  # changed ones, by offset
    pop_ms: Int64 = always_written(0, name="popTime")

    def queue_offsets(self) -> list[int]:
        """Return the popped offsets."""
        return [*self.offsets[:1], *(self.offsets[0] + distance for distance in self.offsets[1:])]

    def _unacknowledged(self) -> Iterable[int]:
        return (offset for bit, offset in enumerate(self.queue_offsets()) if not self.committed_bits >> bit & 1)

    def _visible_at(self, offset: int) -> int:
        at = (self.visible_ms or {}).get(offset)
        return at if at is not None else self.pop_ms + (self.invisible_ms or 0)

    def free_at_ms(self) -> int:
        """Return when the queue is free again; 0 if nothing blocks it."""
        return max(map(self._visible_at, self._unacknowledged()), default=0)

    def blocks(self, attempt_id: str | None, now_ms: int) -> bool:
        """Return whether a pop with *attempt_id* must wait."""
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return False
        return now_ms < self.free_at_ms()

    def next_offset(self) -> int:
        """Return the first offset that is not acknowledged."""
        return next(iter(self._unacknowledged()), self.queue_offsets()[-1] + 1 if self.offsets else 0)

    def acknowledged(self, offset: int) -> "OrderInfo | None":
        """Return the state with *offset* acknowledged; None if it was not popped."""
        try:
            bit = self.queue_offsets().index(offset)
        except ValueError:
            return None
        return msgspec.structs.replace(self, committed_bits=_as_java_long(self.committed_bits | 1 << bit))

    def with_visible_at(self, offset: int, at_ms: int) -> "OrderInfo":
        """Return the state with another moment at which *offset* is visible again."""
        return msgspec.structs.replace(self, visible_ms={**(self.visible_ms or {}), offset: at_ms})


def after_pop(
    before: OrderInfo | None,
    offsets: Sequence[int],
    *,
    attempt_id: str | None,
    pop_ms: int,
    invisible_ms: int,
    now_ms: int,
) -> OrderInfo:
    """Return the state after a pop of *offsets*."""
    return OrderInfo(
        attempt_id=attempt_id,
        counts=_counts(before, offsets, attempt_id) if before is not None else None,
        invisible_ms=invisible_ms,
        last_consumed_ms=now_ms,
        offsets=[*offsets[:1], *(offset - offsets[0] for offset in offsets[1:])],
        pop_ms=pop_ms,
    )


def _counts(before: OrderInfo, offsets: Sequence[int], attempt_id: str | None) -> dict[int, int]:
    """Return how often each of *offsets* was delivered before: unchanged for a retry of a lost reply."""
    known = before.counts or {}
    if attempt_id is not None and attempt_id == before.attempt_id:
        return known
    again = set(before.queue_offsets())
    return {offset: known.get(offset, 0) + 1 for offset in offsets if offset in again}


def batch_count(info: OrderInfo) -> int:
    """Return the lowest count among the messages of a pop, for clients that know no other."""
    counts = info.counts or {}
    return min(counts.values(), default=0) if len(counts) == len(info.offsets) else 0


def _as_java_long(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
