"""Messages of one queue that one pop brought, as the listener's side sees them: an owned queue with an end.

Finishing a message acknowledges it, unless it was given back with another invisible time. When the invisible time ends
the queue is dropped: the broker delivers the rest again, so that no listener call begins with it any more, and a late
result does not count.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.queue_progress import QueueProgress
from hanabi.message import MessageQueue, StoredMessage

Acknowledge = Callable[[StoredMessage], None]


class PoppedProgress(QueueProgress):
    """Progress that acknowledges single messages. There is no offset to commit."""

    def __init__(self, messages: Sequence[StoredMessage], acknowledge: Acknowledge) -> None:
        super().__init__(messages[0].queue_offset)
        self._acknowledge = acknowledge
        self._held = {message.queue_offset: message for message in messages}
        self.add(messages, messages[-1].queue_offset + 1)

    def give_back(self, message: StoredMessage) -> None:
        """Do not acknowledge *message* when it is finished."""
        self._held.pop(message.queue_offset, None)

    def finish(self, messages: Sequence[StoredMessage]) -> None:
        for message in messages:
            held = self._held.pop(message.queue_offset, None)
            if held is not None:
                self._acknowledge(held)
        super().finish(messages)

    def unfinished(self) -> list[StoredMessage]:
        """Return the messages that are neither acknowledged nor given back."""
        return list(self._held.values())


class PoppedFrom(Protocol):
    """The loop that popped messages, and hears what becomes of them."""

    def progressed(self, popped: "PoppedQueue") -> None:
        """Note that messages are finished."""
        ...

    async def retry(self, popped: "PoppedQueue", message: StoredMessage, delay_level: int) -> None:
        """Have a failed message delivered again later."""
        ...


class PoppedQueue(OwnedQueue):
    """One queue of one pop of *home*."""

    def __init__(
        self,
        queue: MessageQueue,
        messages: Sequence[StoredMessage],
        acknowledge: Acknowledge,
        *,
        home: PoppedFrom,
        now_ms: int,
    ) -> None:
        super().__init__(queue, messages[0].queue_offset, now_ms=now_ms)
        self.home = home
        self.popped = PoppedProgress(messages, acknowledge)
        self.progress = self.popped
