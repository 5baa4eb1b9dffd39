"""Progress of a consumer in one queue: held and unfinished messages, and the committable offset. Pure.

Messages are handed out in batches and finished in any order. The one offset that a broker keeps for a group says
"everything below is consumed", so it must not pass the smallest unfinished message.

The role of Java's ProcessQueue, without its locks: all of it runs in one event loop. Independent of clocks, sockets and
listeners.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from hanabi.message import StoredMessage

MIB: Final = 1 << 20


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for the messages held of one queue, beyond which pulling pauses."""

    messages: int = 1_000
    body_bytes: int = 100 * MIB
    span: int | None = 2_000  # between the smallest and the largest unfinished offset; None: no limit


class QueueProgress:
    """Progress in one queue. Invariant: `committable` is the smallest unfinished offset, or without any the next offset
    to pull. It decreases only in `move`.
    """

    def __init__(self, offset: int) -> None:
        self.next_offset = offset  # offset of the next pull
        self.body_bytes = 0
        self._unfinished: dict[int, int] = {}  # offset -> bytes of the body
        self._order: deque[int] = deque()  # offsets in arrival order; both ends are unfinished

    def add(self, messages: Sequence[StoredMessage], next_offset: int) -> list[StoredMessage]:
        """Add *messages* of one pull, in order; the next pull starts at *next_offset*. Return those not seen before.

        Otherwise, a broker that repeats messages would have them consumed twice concurrently.
        """
        start = self.next_offset
        fresh = [message for message in messages if message.queue_offset >= start]
        unfinished = self._unfinished
        total = 0
        for message in fresh:
            length = len(message.body)
            unfinished[message.queue_offset] = length
            total += length
        self._order.extend([message.queue_offset for message in fresh])
        self.body_bytes += total
        if fresh:
            next_offset = max(next_offset, fresh[-1].queue_offset + 1)
        self.next_offset = max(start, next_offset)
        return fresh

    def finish(self, messages: Sequence[StoredMessage]) -> None:
        """Mark messages as consumed, or as safely stored elsewhere."""
        unfinished = self._unfinished
        for message in messages:
            self.body_bytes -= unfinished.pop(message.queue_offset, 0)
        order = self._order
        while order and order[0] not in unfinished:
            order.popleft()
        while order and order[-1] not in unfinished:
            order.pop()

    def move(self, offset: int) -> None:
        """Continue at *offset*, forwards or backwards. Allowed only with nothing unfinished."""
        if self._unfinished:
            raise ValueError(f"{self.count} messages are unfinished and would be lost")
        self.next_offset = offset

    @property
    def committable(self) -> int:
        """Return the offset below which everything is consumed."""
        return self._order[0] if self._order else self.next_offset

    @property
    def count(self) -> int:
        """Return the number of unfinished messages."""
        return len(self._unfinished)

    @property
    def first(self) -> int | None:
        """Return the smallest unfinished offset."""
        return self._order[0] if self._order else None

    @property
    def last(self) -> int | None:
        """Return the largest unfinished offset."""
        return self._order[-1] if self._order else None

    @property
    def span(self) -> int:
        """Return the distance between the unfinished messages: the redeliveries if this consumer died now."""
        return self._order[-1] - self._order[0] if self._order else 0

    def over(self, limits: QueueLimits) -> str | None:
        """Return the reason not to pull more now, as text; None when there is room."""
        if self.count > limits.messages:
            return f"{self.count} messages are held, limit {limits.messages}"
        if self.body_bytes > limits.body_bytes:
            return f"{self.body_bytes} bytes are held, limit {limits.body_bytes}"
        if limits.span is not None and self.span > limits.span:
            return (
                f"offset {self.first} is unfinished and {self.last} is reached, which is more than {limits.span} apart"
            )
        return None
