"""Progress of a group in the queues of a topic, with the end of each queue.

Shared by the answers about one group (208) and about all groups (317). Agrees with AdminBrokerProcessor (4.9.8) and, in
`pull_offset`, with 5.x: behind the last message that a POP group was given; this broker does not know how far a group
has pulled ahead, so nothing else is in flight. (5.3.3 leaves out that offset in 317: it says 0, and a negative number
in flight.)
"""

from collections.abc import AsyncIterator, Callable

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.handlers.admin.support.long_body import CHUNK
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.message import MessageQueue
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.stats import OffsetWrapper

HandedOutTo = Callable[[str, str, int], int | None]  # by topic, group and queue id; None: nothing is in flight


class ConsumeProgress:
    """Reader of queues and committed offsets."""

    def __init__(
        self,
        store: MessageStore,
        offsets: ConsumerOffsets,
        consumers: Consumers,
        broker_name: str,
        handed_out_to: HandedOutTo,
    ) -> None:
        """*handed_out_to* returns the offset behind the last message that was popped."""
        self._store, self._offsets, self._consumers, self._broker_name = store, offsets, consumers, broker_name
        self._handed_out_to = handed_out_to

    def consumes(self, group: str, topic: str) -> bool:
        """Return whether the group may still consume the topic: it is offline, or subscribes to it."""
        online = self._consumers.find_group(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    async def of(
        self, group: str, topic: str, queue_nums: int, pace: Yielder, form: type[OffsetWrapper] = OffsetWrapper
    ) -> AsyncIterator[dict[MessageQueue, OffsetWrapper]]:
        """Yield the progress of *group* in the first *queue_nums* queues of *topic*, in batches.

        *form* converts the progress of a queue to the form of the answer.
        """
        for first in range(0, queue_nums, CHUNK):
            found: dict[MessageQueue, OffsetWrapper] = {}
            for queue_id in range(first, min(first + CHUNK, queue_nums)):
                found[MessageQueue(topic, self._broker_name, queue_id)] = self._in_queue(group, topic, queue_id, form)
                await pace.pause()
            yield found

    def _in_queue(self, group: str, topic: str, queue_id: int, form: type[OffsetWrapper]) -> OffsetWrapper:
        offset = max(0, self._offsets.find(group, topic, queue_id))
        last_ms = self._store.queries.store_time(topic, queue_id, offset - 1) if offset else 0
        return form(
            broker_offset=self._store.reader.max_offset(topic, queue_id),
            consumer_offset=offset,
            last_timestamp=max(0, last_ms),
            pull_offset=max(offset, self._handed_out_to(topic, group, queue_id) or 0),
        )
