"""Everything in flight on this broker: queues of groups, their deadlines, their committed offsets, the journal.

Each change is in the table of offsets first and in the journal then. So after a crash the journal is never ahead of the
committed offset, unless the offset went back meanwhile, which makes the journal void for that queue.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.pop.in_flight import Flight, QueueFlights
from hanabi.broker.pop.journal import Journal, States, read_journal
from hanabi.deadlines import Deadlines

QUEUES_MAX: Final = 100_000  # those without a message in flight are dropped beyond it
QUEUE_FLIGHTS_MAX: Final = 10_000  # of one queue and group, as Apache's limit, which is off by default
FLIGHTS_MAX: Final = 500_000  # of the broker, at some 250 bytes each

logger = logging.getLogger(__name__)


class Flights:
    """The table. *on_expired* gets messages whose invisible time has ended; they stay in flight until `close`."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        path: Path | None,
        now_ms: Callable[[], int],
        on_expired: Callable[[list[Flight]], None],
    ) -> None:
        """*path* is the journal's; None: nothing is persisted."""
        self._offsets, self._path = offsets, path
        self._states: States = {}
        self._numbers = 0
        self._journal = Journal(None, self._in_flight)
        self.deadlines: Deadlines[Flight] = Deadlines(now_ms, on_expired)
        self.count = 0

    def restore(self, end_of: Callable[[str, int], int]) -> None:
        """Read the journal, and go on with a new one. Blocks. *end_of* returns the end of a queue."""
        if self._path is None:
            return
        for key, queue in read_journal(self._path).items():
            topic, group, queue_id = key
            if self._is_valid(queue, self._offsets.find(group, topic, queue_id), end_of(topic, queue_id)):
                self._numbers += 1
                queue.number = self._numbers
                self._states[key] = queue
                self.count += len(queue.flights)
                for flight in queue.flights.values():
                    flight.due_key = self.deadlines.add(flight, flight.expiry_ms)
        self._journal = Journal(self._path, self._in_flight)
        self._journal.open()
        if self.count:
            logger.info("%d messages of %d queues were in flight before the start", self.count, len(self._states))

    @staticmethod
    def _is_valid(queue: QueueFlights, committed: int, end: int) -> bool:
        """Return whether the journal agrees with the committed offset, and is of this log."""
        if committed < 0 or committed < queue.lowest or queue.next_offset > end:
            return False
        queue.committed = queue.lowest
        queue.follow(committed)
        return bool(queue.flights)

    def _in_flight(self) -> Iterable[QueueFlights]:
        return [queue for queue in self._states.values() if queue.flights]

    def forget_all(self) -> None:
        """Take everything out of flight, also in the journal: another broker hands the messages out. Blocks."""
        for key in list(self._states):
            self.forget(*key)
        if self._path is not None:
            self._journal.close()
            self._journal = Journal(self._path, self._in_flight)
            self._journal.open()

    def close_journal(self) -> None:
        """Write nothing any more: the broker stops."""
        self._journal.close()

    # Queues

    def find(self, topic: str, group: str, queue_id: int) -> QueueFlights | None:
        """Return the queue of a group, in agreement with its committed offset; None if nothing of it is known."""
        queue = self._states.get((topic, group, queue_id))
        if queue is None:
            return None
        committed = self._offsets.find(group, topic, queue_id)
        if committed != queue.committed:
            self._follow(queue, committed)
            if committed < 0:
                return None
        return queue

    def open(self, topic: str, group: str, queue_id: int, start: Callable[[], int]) -> QueueFlights:
        """Return the queue of a group; a group without an offset begins at *start*."""
        queue = self.find(topic, group, queue_id)
        if queue is not None:
            return queue
        committed = self._offsets.find(group, topic, queue_id)
        if committed < 0:
            committed = start()
            self._offsets.commit(group, topic, queue_id, committed, "pop")
        if len(self._states) >= QUEUES_MAX:
            self._drop_idle()
        self._numbers += 1
        queue = QueueFlights(group, topic, queue_id, committed, self._numbers)
        self._states[topic, group, queue_id] = queue
        return queue

    def has_room(self, queue: QueueFlights) -> bool:
        """Return whether more messages of the queue may be handed out."""
        return len(queue.flights) < QUEUE_FLIGHTS_MAX and self.count < FLIGHTS_MAX

    def next_offset(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return the offset behind the last message that was handed out; None if nothing is in flight."""
        queue = self.find(topic, group, queue_id)
        return queue.next_offset if queue is not None and queue.flights else None

    def count_of(self, topic: str, group: str) -> int:
        """Return how many messages of a topic are in flight for a group."""
        return sum(len(queue.flights) for key, queue in self._states.items() if key[:2] == (topic, group))

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many messages are in flight, by topic and group."""
        counts: dict[tuple[str, str], int] = {}
        for (topic, group, _), queue in self._states.items():
            if queue.flights:
                counts[topic, group] = counts.get((topic, group), 0) + len(queue.flights)
        return counts

    def forget(self, topic: str, group: str, queue_id: int) -> None:
        """Take the messages of a queue out of flight, without an acknowledgement."""
        queue = self._states.pop((topic, group, queue_id), None)
        if queue is not None:
            self._drop(list(queue.flights.values()))
            queue.flights.clear()

    def _follow(self, queue: QueueFlights, committed: int) -> None:
        if committed < 0:
            self.forget(queue.topic, queue.group, queue.queue_id)
            return
        gone = queue.follow(committed)
        self._drop(gone)
        if gone and queue.flights:
            self._journal.done(queue, [flight.offset for flight in gone])
        elif gone:
            self._journal.queue(queue)

    def _drop(self, flights: Iterable[Flight]) -> None:
        for flight in flights:
            self.deadlines.discard(flight, flight.due_key)
            self.count -= 1

    def _drop_idle(self) -> None:
        for key in [key for key, queue in self._states.items() if not queue.flights]:
            del self._states[key]

    # Messages

    def hand_out(
        self, queue: QueueFlights, offsets: Sequence[int], next_offset: int, pop_ms: int, invisible_ms: int
    ) -> None:
        """Take messages into flight. No offset is committed: they lie above it."""
        was_empty = not queue.flights
        if was_empty:
            queue.next_offset = offsets[0]
            self._commit(queue)  # what a filter rejected before them is done
            self._journal.queue(queue)
        due, expiry_ms = self.deadlines, pop_ms + invisible_ms
        for flight in queue.hand_out(offsets, next_offset, pop_ms, invisible_ms):
            flight.due_key = due.add(flight, expiry_ms)
        self.count += len(offsets)
        self._journal.popped(queue, offsets, pop_ms, invisible_ms)

    def skip_to(self, queue: QueueFlights, next_offset: int) -> None:
        """Go on at *next_offset*: what lies before it does not match, or is not there any more."""
        queue.next_offset = next_offset
        self._commit(queue)

    def close(self, queue: QueueFlights, offsets: Sequence[int]) -> list[int]:
        """Close messages that are acknowledged or stored again; return those that were in flight."""
        closed: list[int] = []
        for offset in offsets:
            flight = queue.close(offset)
            if flight is not None:
                self.deadlines.discard(flight, flight.due_key)
                closed.append(offset)
        if closed:
            self.count -= len(closed)
            self._commit(queue)
            self._journal.done(queue, closed)
        return closed

    def change(self, flight: Flight, pop_ms: int, invisible_ms: int) -> None:
        """Give a message another invisible time, from *pop_ms* on."""
        self.deadlines.discard(flight, flight.due_key)
        flight.pop_ms, flight.invisible_ms = pop_ms, invisible_ms
        flight.due_key = self.deadlines.add(flight, flight.expiry_ms)
        self._journal.changed(flight.queue, flight.offset, pop_ms, invisible_ms)

    def try_again_at(self, flight: Flight, due_ms: int) -> None:
        """Report an expired message again at *due_ms*: it could not be stored again now."""
        flight.due_key = self.deadlines.add(flight, due_ms)

    def _commit(self, queue: QueueFlights) -> None:
        lowest = queue.lowest
        if lowest != queue.committed:
            backwards = lowest < queue.committed  # the end of the queue was lost in a crash
            self._offsets.commit(queue.group, queue.topic, queue.queue_id, lowest, "pop", backwards=backwards)
            queue.committed = lowest
