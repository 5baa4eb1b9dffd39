"""Messages that a lite pull consumer holds of one queue, and the program's position in it. Pure.

    consumed        │ handed out         │ held                │ still at the broker
                  done                position             next_offset

The role of Java's ProcessQueue and of one entry of its AssignedMessageQueue. Independent of clocks and sockets.
"""

from collections import deque
from collections.abc import Collection, Sequence
from itertools import islice

from hanabi.client.consumer.queue_progress import QueueLimits
from hanabi.message import MessageQueue, StoredMessage


class FetchedQueue:
    """State of one fetched queue. Invariant: held messages lie between `position` and `next_offset`, in order.

    Both are None until a start offset is set.
    """

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.next_offset: int | None = None  # offset of the next pull
        self.done: int | None = None  # everything below is consumed, as far as reported
        self.body_bytes = 0
        self.paused = False
        self.last_pull_ms = 0
        self._held: deque[StoredMessage] = deque()
        self._taken: list[StoredMessage] = []  # by the last `take`

    @property
    def position(self) -> int | None:
        """Return the offset of the next message to hand out: everything below was handed out or filtered away."""
        return self._held[0].queue_offset if self._held else self.next_offset

    @property
    def count(self) -> int:
        return len(self._held)

    @property
    def span(self) -> int:
        return self._held[-1].queue_offset - self._held[0].queue_offset if self._held else 0

    def add(self, messages: Sequence[StoredMessage], next_offset: int) -> None:
        """Add *messages* of one pull, in order; the next pull starts at *next_offset*."""
        start = self.next_offset or 0
        for message in messages:
            if message.queue_offset >= start:  # a broker may start before the requested offset
                self._held.append(message)
                self.body_bytes += len(message.body)
        self.next_offset = max(start, next_offset)

    def take(self, count: int) -> list[StoredMessage]:
        """Hand out the next messages, at most *count*."""
        held = self._held
        if count >= len(held):
            taken = list(held)
            held.clear()
            self.body_bytes = 0
        else:
            taken = list(islice(held, count))
            for message in taken:
                held.popleft()
                self.body_bytes -= len(message.body)
        self._taken = taken
        return taken

    def give_back(self, offsets: Collection[int]) -> None:
        """Hold the messages of the last `take` again, from the first of these *offsets* on: messages stay in order."""
        first = min(offsets)
        again = [message for message in self._taken if message.queue_offset >= first]
        self._taken = self._taken[: len(self._taken) - len(again)]
        self._held.extendleft(reversed(again))
        self.body_bytes += sum(len(message.body) for message in again)

    def seek(self, offset: int) -> None:
        """Continue at *offset*; discard held messages."""
        self._held.clear()
        self._taken = []
        self.body_bytes = 0
        self.next_offset = offset

    def settle(self) -> int | None:
        """Mark everything handed out as consumed; return the offset up to which."""
        self.done = self.position
        return self.done

    def over(self, limits: QueueLimits) -> str | None:
        """Return the reason not to pull more now, as text; None when there is room."""
        if self.count > limits.messages:
            return f"{self.count} messages are held, limit {limits.messages}"
        if self.body_bytes > limits.body_bytes:
            return f"{self.body_bytes} bytes are held, limit {limits.body_bytes}"
        if limits.span is not None and self.span > limits.span:
            return f"the messages held lie {self.span} offsets apart, limit {limits.span}"
        return None
