"""POP of this broker, independent of the protocol: pop, peek, acknowledge, change the invisible time.

    pop ─> queues of the topic and its retry topics ─> read ─> in flight ─> messages and receipts
    acknowledge ─> out of flight ─> commit the lowest unacknowledged offset
    expire ─> retry topic (revival.py)

A front end checks names and rights, and holds a pop that finds nothing (`held_pops.py`).

Replication: the committed offset, the retry topics and `consumerOrderInfo.json` are what a slave needs; it has the
first two. The journal is this broker's own, so a promoted slave delivers messages in flight again.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from hanabi.broker.filters.message_filter import PASSES_ALL
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.pop.flights import Flights
from hanabi.broker.pop.held_pops import HeldPops
from hanabi.broker.pop.in_flight import Flight, QueueFlights
from hanabi.broker.pop.order_info import after_pop, batch_count
from hanabi.broker.pop.orders import Orders
from hanabi.broker.pop.reading import START_AT_NEWEST, Batch, Popped, PopRequest, offsets_of
from hanabi.broker.pop.revival import Expired, Revival
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import PERM_READ, Topics
from hanabi.deadlines import Deadlines
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult
from hanabi.store.read.queue_reader import FOUND, GetResult
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.receipts import (
    ORDERED_QUEUE,
    Receipt,
    mark_of,
    order_counts_text,
    original_topic,
    retry_topic_v1,
    retry_topic_v2,
)

RETRY_FIRST_PERCENT: Final = 20  # of pops look at the retry topics first, the others last
REVIVE_QUEUE: Final = 0  # in receipts: this broker has no revive queues
_READS_MAX: Final = 4  # of one queue in one pop, while its filter rejects everything
_FILTER_SECONDS: Final = 0.005  # of all queues of one pop; then it is held, and goes on when others were served

OrderKey = tuple[str, str, int]


class PopService:
    """POP of one broker. One thread uses it."""

    def __init__(
        self,
        store: MessageStore,
        put: Callable[[PendingMessage], PutResult],
        topics: Topics,
        offsets: ConsumerOffsets,
        settings: Settings,
        held: HeldPops,
        folder: Path | None,
        now_ms: Callable[[], int],
        *,
        random_below: Callable[[int], int] = random.randrange,
    ) -> None:
        """*put* is an `Intake.put_as_is`; *folder* is `config/`, None: nothing is persisted."""
        self._reader, self._get = store.reader, store.get
        self._topics, self._offsets, self._settings = topics, offsets, settings
        self.held, self._now_ms, self._random_below = held, now_ms, random_below
        self.revival = Revival(store, put, topics, offsets, settings, held.wake)
        self.flights = Flights(offsets, folder / "pop.journal" if folder else None, now_ms, self._expired)
        self.orders = Orders(folder / "consumerOrderInfo.json" if folder else None, now_ms)
        self._blocked: Deadlines[OrderKey] = Deadlines(now_ms, self._freed)
        self._blocked_keys: dict[OrderKey, int] = {}

    # Lifetime

    def restore(self) -> None:
        """Read what was in flight before the start. Blocks."""
        self.flights.restore(self._reader.max_offset)
        for key, info in self.orders.items():
            self._blocked_keys[key] = self._blocked.add(key, info.free_at_ms())

    def start(self) -> None:
        """Deliver expired messages again from now on."""
        self.flights.deadlines.start()
        self._blocked.start()

    def stop(self) -> None:
        """Deliver nothing any more, and close the journal."""
        self.revival.stop()
        self.flights.deadlines.stop()
        self._blocked.stop()
        self.flights.close_journal()

    def step_down(self) -> None:
        """Deliver nothing while this broker is a slave, and forget what is in flight: the new master hands the messages
        out again from the committed offsets on. `start` begins again. Blocks for a small file."""
        self.flights.deadlines.stop()
        self._blocked.stop()
        self.revival.drop()
        self.flights.forget_all()

    def clock_moved(self) -> None:
        """Look at all deadlines at once."""
        self.flights.deadlines.look_again()
        self._blocked.look_again()

    # Popping

    def pop(self, asked: PopRequest) -> Popped:
        """Hand out messages, and hide them for the asked time."""
        revive_queue = ORDERED_QUEUE if asked.is_ordered else REVIVE_QUEUE
        popped = Popped(self._now_ms(), asked.invisible_ms, revive_queue)
        config = self._topics.find(asked.topic)
        if config is None:
            return popped
        take = self._take_ordered if asked.is_ordered else self._take
        retries = [] if asked.is_ordered else self.retry_topics(asked.topic, asked.group)
        retries_first = bool(retries) and self._random_below(100) < RETRY_FIRST_PERCENT
        if retries_first:
            self._take_retries(asked, retries, popped)
        topic, max_offset = asked.topic, self._reader.max_offset
        for queue_id in self._queue_ids(config, asked.queue_id):
            if max_offset(topic, queue_id):  # thousands of pops may wait for a topic of many empty queues
                take(asked, topic, queue_id, popped)
        if not retries_first:
            self._take_retries(asked, retries, popped)
        return popped

    def retry_topics(self, topic: str, group: str) -> list[TopicConfig]:
        """Return the existing retry topics of *group* for *topic*."""
        found = map(self._topics.find, (retry_topic_v1(topic, group), retry_topic_v2(topic, group)))
        return [config for config in found if config is not None and config.perm & PERM_READ]

    def _queue_ids(self, config: TopicConfig, queue_id: int) -> Iterable[int]:
        """Return the queues to look at: the asked one, or all of them, from a random one on."""
        if queue_id >= 0:
            return (queue_id,)
        count = config.read_queue_nums
        first = self._random_below(count) if count > 1 else 0
        return [*range(first, count), *range(first)]

    def _take_retries(self, asked: PopRequest, retries: list[TopicConfig], popped: Popped) -> None:
        for config in retries:
            for queue_id in range(config.read_queue_nums):
                self._take(asked, config.topic_name, queue_id, popped)

    def _take(self, asked: PopRequest, topic: str, queue_id: int, popped: Popped) -> None:
        """Take messages of one queue into flight, as many as are still wanted."""
        end = self._reader.max_offset(topic, queue_id)
        if not end:
            return  # a topic may have thousands of such queues
        queue = self.flights.open(topic, asked.group, queue_id, lambda: self._start(asked, topic, queue_id))
        before = queue.next_offset
        is_full = popped.count >= asked.count_max or _is_late(popped)
        if not is_full and end > before and self.flights.has_room(queue):
            start, result = self._read(queue, asked, asked.count_max - popped.count, popped)
            if result is not None:
                offsets = offsets_of(result, start)
                self.flights.hand_out(queue, offsets, result.next_offset, popped.pop_ms, asked.invisible_ms)
                _add(popped, topic, queue_id, offsets, result)
        if is_full or queue.next_offset != before:  # else nothing more can be read now
            popped.rest += max(0, end - queue.next_offset)

    def _read(self, queue: QueueFlights, asked: PopRequest, count: int, popped: Popped) -> tuple[int, GetResult | None]:
        """Return the next messages of *queue* that pass the filter, and where they were read from."""
        if asked.filter is not PASSES_ALL and not popped.filters_until:
            popped.filters_until = time.monotonic() + _FILTER_SECONDS
        for turn in range(_READS_MAX):
            if turn and _is_late(popped):
                break
            start = queue.next_offset
            result = self._get_from(asked, queue.topic, queue.queue_id, start, count)
            if result.status is FOUND:
                return start, result
            if result.next_offset == start:
                break
            self.flights.skip_to(queue, result.next_offset)
        return 0, None

    def _get_from(self, asked: PopRequest, topic: str, queue_id: int, offset: int, count: int) -> GetResult:
        passes = asked.filter
        return self._get(topic, queue_id, offset, count, entry_filter=passes.entry, record_filter=passes.record)

    def _start(self, asked: PopRequest, topic: str, queue_id: int) -> int:
        """Return where a group without an offset starts. A young queue is read from its first message on, so that
        nothing is missed that was sent before the first consumer."""
        low = self._reader.min_offset(topic, queue_id)
        if asked.starts_at != START_AT_NEWEST or topic != asked.topic:
            return low
        if low <= 0 and not self._reader.is_on_disk(topic, queue_id, 0):
            return 0
        return max(low, self._reader.max_offset(topic, queue_id) - 1)

    # Ordered

    def _take_ordered(self, asked: PopRequest, topic: str, queue_id: int, popped: Popped) -> None:
        """Take messages of one queue, unless earlier ones block it. They stay at the committed offset."""
        info = self.orders.find(topic, asked.group, queue_id)
        if popped.count >= asked.count_max or not self._reader.max_offset(topic, queue_id):
            return
        if _is_late(popped):
            popped.rest += 1  # at least
            return
        if info is not None and info.blocks(asked.attempt_id, popped.pop_ms):
            return
        queue = self.flights.open(topic, asked.group, queue_id, lambda: self._start(asked, topic, queue_id))
        if queue.flights or queue.next_offset != queue.committed:
            self.flights.forget(topic, asked.group, queue_id)  # they were popped without order before
            queue = self.flights.open(topic, asked.group, queue_id, lambda: 0)
        before = queue.next_offset
        start, result = self._read(queue, asked, asked.count_max - popped.count, popped)
        if result is None:
            if queue.next_offset != before:
                popped.rest += max(0, self._reader.max_offset(topic, queue_id) - queue.next_offset)
            return
        offsets = offsets_of(result, start)
        now = after_pop(
            info,
            offsets,
            attempt_id=asked.attempt_id,
            pop_ms=popped.pop_ms,
            invisible_ms=asked.invisible_ms,
            now_ms=popped.pop_ms,
        )
        self._order(topic, asked.group, queue_id, now.free_at_ms())
        self.orders.put(topic, asked.group, queue_id, now)
        counts = order_counts_text(mark_of(topic), queue_id, now.counts or {}, batch_count(now))
        _add(popped, topic, queue_id, offsets, result, counts)

    def is_blocked(self, topic: str, group: str, queue_id: int, attempt_id: str | None) -> bool:
        """Return whether unacknowledged messages block an ordered pop of the queue."""
        info = self.orders.find(topic, group, queue_id)
        return info is not None and info.blocks(attempt_id, self._now_ms())

    def acknowledge_ordered(self, group: str, topic: str, queue_id: int, offset: int, pop_ms: int) -> bool:
        """Acknowledge a message of an ordered pop. Return False if that pop did not include it.

        A message below the committed offset, or of an older pop, is ignored.
        """
        committed = self._offsets.find(group, topic, queue_id)
        if offset < committed:
            return True
        info = self.orders.find(topic, group, queue_id)
        if info is None:
            self._offsets.commit(group, topic, queue_id, offset + 1, "pop")
            return True
        if info.pop_ms != pop_ms:
            return True
        now = info.acknowledged(offset)
        if now is None:
            return False
        self.orders.put(topic, group, queue_id, now)
        self._order(topic, group, queue_id, now.free_at_ms())
        self._offsets.commit(group, topic, queue_id, now.next_offset(), "pop")
        if not now.blocks(None, self._now_ms()):
            self.held.wake(topic, group, queue_id)
        return True

    def change_ordered(self, group: str, topic: str, queue_id: int, receipt: Receipt, offset: int, ms: int) -> Receipt:
        """Hide a message of an ordered pop for *ms* from now on; return its new receipt. An old receipt changes
        nothing."""
        info = self.orders.find(topic, group, queue_id)
        if offset < self._offsets.find(group, topic, queue_id) or info is None or info.pop_ms != receipt.pop_ms:
            return receipt
        visible_ms = self._now_ms() + ms
        now = info.with_visible_at(offset, visible_ms)
        self.orders.put(topic, group, queue_id, now)
        self._order(topic, group, queue_id, now.free_at_ms())
        return _renewed(receipt, receipt.pop_ms, visible_ms - receipt.pop_ms)

    def _order(self, topic: str, group: str, queue_id: int, free_at_ms: int) -> None:
        """Wake the group's pops when the queue is free."""
        key = topic, group, queue_id
        before = self._blocked_keys.pop(key, None)
        if before is not None:
            self._blocked.discard(key, before)
        if free_at_ms:
            self._blocked_keys[key] = self._blocked.add(key, free_at_ms)

    def _freed(self, due: list[OrderKey]) -> None:
        for key in due:
            self._blocked_keys.pop(key, None)
            topic, group, queue_id = key
            self.held.wake(topic, group, queue_id)

    # Acknowledging

    def acknowledge(self, group: str, topic: str, queue_id: int, offsets: Sequence[int]) -> int:
        """Close messages; return how many were in flight. *topic* is the one in which they lie."""
        queue = self.flights.find(topic, group, queue_id)
        return len(self.flights.close(queue, offsets)) if queue is not None else 0

    def acknowledge_bits(self, group: str, topic: str, queue_id: int, start: int, bits: bytes) -> int:
        """Close the messages whose bit is set, the lowest for *start*; return how many were in flight."""
        queue = self.flights.find(topic, group, queue_id)
        return len(self.flights.close(queue, _named(queue, start, bits))) if queue is not None else 0

    def change(self, group: str, topic: str, queue_id: int, receipt: Receipt, offset: int, ms: int) -> Receipt | None:
        """Hide a message for *ms* from now on; return its new receipt, None if it is not in flight any more.

        The older receipts of the message stay valid.
        """
        queue = self.flights.find(topic, group, queue_id)
        flight = queue.flights.get(offset) if queue is not None else None
        if flight is None:
            return None
        now_ms = self._now_ms()
        self.flights.change(flight, now_ms, ms)
        return _renewed(receipt, now_ms, ms)

    def _expired(self, due: list[Flight]) -> None:
        self.revival.add([self._as_expired(flight) for flight in due])

    def _as_expired(self, flight: Flight) -> Expired:
        queue = flight.queue

        def finish() -> None:
            if queue.flights.get(flight.offset) is flight:
                self.flights.close(queue, (flight.offset,))

        def later(ms: int) -> None:
            if queue.flights.get(flight.offset) is flight:
                self.flights.try_again_at(flight, self._now_ms() + ms)

        return Expired(queue.group, queue.topic, queue.queue_id, flight.offset, flight.pop_ms, finish, later)

    # Looking

    def peek(self, asked: PopRequest) -> Popped:
        """Return the messages that a pop would find, without a change."""
        popped = Popped(self._now_ms(), asked.invisible_ms, REVIVE_QUEUE)
        for topic, queue_id in self._places(asked.topic, asked.group, asked.queue_id):
            start = self._next(asked, topic, queue_id)
            end = self._reader.max_offset(topic, queue_id)
            if popped.count < asked.count_max and start < end:
                result = self._get_from(asked, topic, queue_id, start, asked.count_max - popped.count)
                if result.status is FOUND:
                    _add(popped, topic, queue_id, offsets_of(result, start), result)
                    start = result.next_offset
            popped.rest += max(0, end - start)
        return popped

    def has_messages(self, asked: PopRequest) -> bool:
        """Return whether a pop would look at messages, without evaluating its filter."""
        return any(
            self._next(asked, topic, queue_id) < self._reader.max_offset(topic, queue_id)
            and not (asked.is_ordered and self.is_blocked(topic, asked.group, queue_id, asked.attempt_id))
            for topic, queue_id in self._places(asked.topic, asked.group, asked.queue_id)
        )

    def _places(self, topic: str, group: str, queue_id: int) -> Iterable[tuple[str, int]]:
        config = self._topics.find(topic)
        if config is not None:
            for each in self._queue_ids(config, queue_id):
                yield topic, each
        for retry in self.retry_topics(topic, group):
            for each in range(retry.read_queue_nums):
                yield retry.topic_name, each

    def _next(self, asked: PopRequest, topic: str, queue_id: int) -> int:
        queue = self.flights.find(topic, asked.group, queue_id)
        if queue is not None:
            return queue.next_offset
        committed = self._offsets.find(asked.group, topic, queue_id)
        return committed if committed >= 0 else self._start(asked, topic, queue_id)

    def topic_of(self, topic: str, group: str) -> str:
        """Return the topic that consumers of *group* ask for when a message lies in *topic*."""
        return original_topic(topic, group)


def _add(
    popped: Popped, topic: str, queue_id: int, offsets: Sequence[int], result: GetResult, order_counts: str = ""
) -> None:
    popped.batches.append(
        Batch(
            *(topic, queue_id, offsets[0], offsets, result.slices),
            *(result.size, result.behind_bytes, result.last_store_ms, order_counts),
        )
    )
    popped.count += len(offsets)


def _is_late(popped: Popped) -> bool:
    """Return whether the time for the filter of one pop has ended."""
    return popped.filters_until > 0 and time.monotonic() > popped.filters_until


def _named(queue: QueueFlights, start: int, bits: bytes) -> list[int]:
    """Return the offsets that *bits* name, at most as many as are in flight: a peer may send very long ones."""
    end = start + 8 * len(bits)
    places = range(start, end) if end - start <= len(queue.flights) else queue.flights
    return [at for at in places if start <= at < end and bits[at - start >> 3] >> (at - start & 7) & 1]


def _renewed(receipt: Receipt, pop_ms: int, invisible_ms: int) -> Receipt:
    return Receipt(
        *(receipt.start_offset, pop_ms, invisible_ms, receipt.revive_queue_id, receipt.mark),
        *(receipt.broker_name, receipt.queue_id, receipt.offset),
    )
