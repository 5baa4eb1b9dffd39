"""Messages of one queue that a group has popped and not acknowledged. Pure.

    committed ┌─────────────┬───────┬─────────┬──────────────────┐ next
              │ in flight   │ done  │ in flight│ done             │     not handed out yet
              └─────────────┴───────┴─────────┴──────────────────┘
    everything below `lowest` is done; between it and `next_offset` all that is not in flight is done

The group's committed offset is always `lowest`: after a crash, on a slave or under Apache's broker nothing is lost, and
only messages above it may be repeated. Only unacknowledged messages take memory.
"""

from collections import OrderedDict
from collections.abc import Iterable


class Flight:
    """One message that was handed out. `due_key` is its place in the broker's deadlines."""

    __slots__ = ("due_key", "invisible_ms", "offset", "pop_ms", "queue")

    def __init__(self, queue: "QueueFlights", offset: int, pop_ms: int, invisible_ms: int) -> None:
        self.queue, self.offset = queue, offset
        self.pop_ms, self.invisible_ms = pop_ms, invisible_ms
        self.due_key = 0

    @property
    def expiry_ms(self) -> int:
        return self.pop_ms + self.invisible_ms


class QueueFlights:
    """State of one queue for one group. *number* identifies it in the journal."""

    __slots__ = ("committed", "flights", "group", "next_offset", "number", "queue_id", "topic")

    def __init__(self, group: str, topic: str, queue_id: int, start: int, number: int = 0) -> None:
        """*topic* is the one in which the messages lie; *start* is the group's committed offset."""
        self.group, self.topic, self.queue_id, self.number = group, topic, queue_id, number
        self.next_offset = self.committed = start
        self.flights: OrderedDict[int, Flight] = OrderedDict()  # by offset, ascending

    @property
    def lowest(self) -> int:
        """Return the offset below which everything is done."""
        for offset in self.flights:
            return offset
        return self.next_offset

    def hand_out(self, offsets: Iterable[int], next_offset: int, pop_ms: int, invisible_ms: int) -> list[Flight]:
        """Take *offsets*, all from `next_offset` on, into flight; what lies between them was filtered out."""
        handed = [Flight(self, offset, pop_ms, invisible_ms) for offset in offsets]
        self.flights.update((flight.offset, flight) for flight in handed)
        self.next_offset = next_offset
        return handed

    def close(self, offset: int) -> Flight | None:
        """Remove the message at *offset*, which is acknowledged or stored again; None if it is not in flight."""
        return self.flights.pop(offset, None)

    def follow(self, committed: int) -> list[Flight]:
        """Adopt an offset that another part of the broker has committed: a reset, or a consumer that pulls.

        Return the flights that are no longer valid: those below it, or all of them if it went back.
        """
        if committed < self.committed:
            gone = list(self.flights.values())
            self.flights.clear()
            self.next_offset = committed
        else:
            gone = [flight for offset, flight in self.flights.items() if offset < committed]
            for flight in gone:
                del self.flights[flight.offset]
            self.next_offset = max(self.next_offset, committed)
        self.committed = committed
        return gone
