"""How far a consumer has come in one queue: what it holds, what is unfinished, and what may be called consumed. Pure.

Messages are handed out many at a time and finished in any order. The one offset that a broker keeps for a group says
"everything below is consumed", so it may go no further than the smallest message that is not.

The role of Java's ProcessQueue, without its locks: all of it runs in one event loop. Knows nothing of clocks, sockets
and listeners.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from hanabi.message import StoredMessage

MIB: Final = 1 << 20


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one queue a consumer holds before it stops pulling."""

    messages: int = 1_000
    body_bytes: int = 100 * MIB
    span: int | None = 2_000  # between the smallest and the largest unfinished offset; None: it does not matter


class QueueProgress:
    """Invariant: `committable` is the smallest unfinished offset, or with nothing unfinished where to pull next.
    It goes back by `move` alone."""

    def __init__(self, offset: int) -> None:
        self.next_offset = offset  # where to pull next
        self.body_bytes = 0
        self._unfinished: dict[int, int] = {}  # offset -> bytes of the body
        self._order: deque[int] = deque()  # offsets as they came; both ends are unfinished

    def add(self, messages: Sequence[StoredMessage], next_offset: int) -> list[StoredMessage]:
        """A pull brought *messages*, in order, and the next one starts at *next_offset*. Returns those not seen before.

        A broker that answers with what it gave already would otherwise have it consumed twice at the same time.
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
        """These are consumed, or in safe hands elsewhere."""
        unfinished = self._unfinished
        for message in messages:
            self.body_bytes -= unfinished.pop(message.queue_offset, 0)
        order = self._order
        while order and order[0] not in unfinished:
            order.popleft()
        while order and order[-1] not in unfinished:
            order.pop()

    def move(self, offset: int) -> None:
        """Go on at *offset*, further on or further back. Only with nothing unfinished."""
        if self._unfinished:
            raise ValueError(f"{self.count} messages are unfinished and would be lost")
        self.next_offset = offset

    @property
    def committable(self) -> int:
        """Everything below is consumed."""
        return self._order[0] if self._order else self.next_offset

    @property
    def count(self) -> int:
        """Messages that are unfinished."""
        return len(self._unfinished)

    @property
    def first(self) -> int | None:
        """The smallest unfinished offset."""
        return self._order[0] if self._order else None

    @property
    def last(self) -> int | None:
        """The largest unfinished offset."""
        return self._order[-1] if self._order else None

    @property
    def span(self) -> int:
        """How far the unfinished messages lie apart: what would come again if this consumer died now."""
        return self._order[-1] - self._order[0] if self._order else 0

    def over(self, limits: QueueLimits) -> str | None:
        """Why not to pull more now, for people; None when there is room."""
        if self.count > limits.messages:
            return f"{self.count} messages are held, limit {limits.messages}"
        if self.body_bytes > limits.body_bytes:
            return f"{self.body_bytes} bytes are held, limit {limits.body_bytes}"
        if limits.span is not None and self.span > limits.span:
            return (
                f"offset {self.first} is unfinished and {self.last} is reached, which is more than {limits.span} apart"
            )
        return None
