"""Creation of a topic by its first messages: one goes to each broker, so that each of them creates it.

A broker creates a topic when it gets a message for it. Java's producers switch to the new route as soon as they see it;
it has only the broker that got the first message, so the topic stays there for ever. Here the first messages go to the
brokers in turn, and the new route is used when each broker has had one. Makes decisions without I/O.
"""

from collections import deque
from collections.abc import Sequence

from hanabi.message import MessageQueue


class TopicCreation:
    """Brokers that have had no message of the new topic yet. *queues* are those that the brokers would create."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self._waiting: dict[str, deque[MessageQueue]] = {}
        for queue in queues:
            self._waiting.setdefault(queue.broker_name, deque()).append(queue)

    def next(self) -> MessageQueue | None:
        """Return the next queue of the next broker; None when each has had a message."""
        if not self._waiting:
            return None
        name = next(iter(self._waiting))
        queues = self._waiting.pop(name)
        self._waiting[name] = queues  # to the end: the remaining brokers come first while its response is pending
        queues.rotate(-1)
        return queues[-1]

    def mark_tried(self, broker_name: str) -> None:
        """Record that the broker responded, even with a refusal: it is not asked first again."""
        self._waiting.pop(broker_name, None)

    @property
    def over(self) -> bool:
        return not self._waiting
