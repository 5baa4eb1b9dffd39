"""The first messages of a topic that does not exist yet: one to each broker, so that each of them creates it.

A topic is created by the broker that gets a message for it. Java's producers follow the new route as soon as they see
it, which has only the broker that got the first message: the topic stays there for ever. Here the first messages go to
the brokers in turn, and the new route is followed when all had their chance. Decides only.
"""

from collections import deque
from collections.abc import Sequence

from hanabi.message import MessageQueue


class TopicCreation:
    """Which brokers have not been sent a message of the new topic. *queues* are those the brokers would make."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self._waiting: dict[str, deque[MessageQueue]] = {}
        for queue in queues:
            self._waiting.setdefault(queue.broker_name, deque()).append(queue)

    def next(self) -> MessageQueue | None:
        """A queue of the broker whose turn it is, its next one; none when all had theirs."""
        if not self._waiting:
            return None
        name = next(iter(self._waiting))
        queues = self._waiting.pop(name)
        self._waiting[name] = queues  # to the end: while its answer is under way, the others have their turn
        queues.rotate(-1)
        return queues[-1]

    def had_its_chance(self, broker_name: str) -> None:
        """That broker answered, be it with a no: it is not asked first again."""
        self._waiting.pop(broker_name, None)

    @property
    def over(self) -> bool:
        return not self._waiting
