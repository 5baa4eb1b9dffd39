"""Default choice of the next queue: round robin, avoiding brokers that just failed.

Makes decisions without I/O. Brokers alternate (a0 b0 a1 b1), so that a few messages in a row reach all of them. Agrees
with Java's TopicPublishInfo.selectOneMessageQueue, but avoids every broker that was tried, not only the last.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from hanabi.client.producer.routing.fault_tolerance import FaultTolerance
from hanabi.message import MessageQueue


def alternating(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Order *queues* so that their brokers alternate."""
    rank: dict[str, int] = defaultdict(int)
    ranked: list[tuple[int, MessageQueue]] = []
    for queue in queues:
        ranked.append((rank[queue.broker_name], queue))
        rank[queue.broker_name] += 1
    return [queue for _, queue in sorted(ranked, key=lambda item: item[0])]


class QueueChoice:
    """Round robin over *queues*, of which there is at least one, beginning at *start*."""

    def __init__(self, queues: Sequence[MessageQueue], start: int = 0, faults: FaultTolerance | None = None) -> None:
        self._queues = alternating(queues)
        self._next = start % len(queues)
        self._faults = faults

    def next(self, avoid: Collection[str] = ()) -> MessageQueue:
        """Return the next queue; one of a broker in *avoid* only if there is no other."""
        if avoid or self._faults is not None:
            return self._careful(avoid)
        return self._turn()

    def _turn(self) -> MessageQueue:
        at = self._next
        queue = self._queues[at]
        self._next = at + 1 if at + 1 < len(self._queues) else 0
        return queue

    def _careful(self, avoid: Collection[str]) -> MessageQueue:
        faults = self._faults
        others: dict[str, MessageQueue] = {}  # the next queue of each broker that is not in *avoid*
        for _ in self._queues:
            queue = self._turn()
            name = queue.broker_name
            if name in avoid:
                continue
            if faults is None or faults.is_usable(name):
                return queue
            others.setdefault(name, queue)
        if others and faults is not None:
            return others[faults.least_bad(others)]
        return self._turn()
