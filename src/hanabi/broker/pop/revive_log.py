"""Take-over of messages that Apache's broker handed out by POP and that were not acknowledged when it ended.

Its checkpoints and acknowledgements come out of the timer into the revive topic, as they become due there. This part
follows that topic from the offset of Apache's own group, merges what belongs together, and gives what is left of a
batch to the revival. The group's offset moves behind finished batches, so a restart, and Apache's broker later on the
same store, repeat little. A store without that topic costs a look a second. Records of Apache's RocksDB mode
(`popConsumerKVServiceEnable`) are not read.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.pop.checkpoints import (
    ACK_TAGS,
    CHECKPOINT_TAG,
    GROUP,
    TOPIC_PREFIX,
    Batch,
    BatchKey,
    read_ack,
    read_checkpoint,
)
from hanabi.broker.pop.revival import Expired, Revival
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.errors import RemoteProtocolError
from hanabi.store.message_store import MessageStore
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import Record, decode_records
from hanabi.wire.receipts import original_topic

SECONDS: Final = 1.0  # between looks
SETTLE_MS: Final = 2_000  # after its end a batch may still be acknowledged: the timer delivers by the second
AT_ONCE: Final = 256
BATCHES_MAX: Final = 100_000  # of one revive queue in memory; the rest waits in the topic

logger = logging.getLogger(__name__)


class ReviveQueue:
    """One queue of the revive topic: batches that are not over, by their keys, in the order of their places."""

    def __init__(self, queue_id: int, read_to: int) -> None:
        """*read_to* is the last place that is done, as Apache's group commits it; -1: none."""
        self.queue_id, self.next = queue_id, read_to + 1
        self.batches: dict[BatchKey, Batch] = {}
        self.working: dict[BatchKey, Batch] = {}  # given to the revival

    def done_to(self) -> int:
        """Return the last place that needs no second look."""
        places = [batch.revive_offset for batches in (self.batches, self.working) for batch in batches.values()]
        return min(places, default=self.next) - 1

    def take(self, record: Record) -> None:
        """Note a checkpoint, or an acknowledgement of one that was noted."""
        tag = find_property(record.properties, b"TAGS")
        if tag == CHECKPOINT_TAG:
            batch = read_checkpoint(bytes(record.body), record.queue_offset)
            self.batches[batch.key] = batch
        elif tag in ACK_TAGS:
            ack = read_ack(bytes(record.body))
            known = self.batches.get(ack.key)
            if known is not None:
                for offset in ack.offsets:
                    known.open.pop(offset, None)


class ReviveLog:
    """Follower of the revive topic of this broker's cluster."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        settings: Settings,
        revival: Revival,
        *,
        timer_done_ms: Callable[[], int],
        wake_timer: Callable[[], None],
    ) -> None:
        """*timer_done_ms* returns the time up to which the timer has delivered everything; *wake_timer* makes it look
        again."""
        self._store, self._topics, self._groups, self._offsets = store, topics, groups, offsets
        self._settings, self._revival = settings, revival
        self._timer_done_ms, self._wake_timer = timer_done_ms, wake_timer
        self._queues: dict[int, ReviveQueue] = {}
        self.taken_over = 0  # messages given to the revival

    @property
    def topic(self) -> str:
        return TOPIC_PREFIX + self._settings.broker.cluster_name

    def tick(self) -> None:
        """Read what came, and give what is over to the revival."""
        config = self._topics.find(self.topic)
        if config is None or self._settings.is_slave:
            return
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            queue = self._queues.get(queue_id)
            if queue is None:
                read_to = self._offsets.find(GROUP, self.topic, queue_id)
                queue = self._queues[queue_id] = ReviveQueue(queue_id, read_to)
            self._follow(queue)
            self._settle(queue)
            self._commit(queue)

    def _follow(self, queue: ReviveQueue) -> None:
        """Read a slice of the queue: a second brings the next."""
        if len(queue.batches) >= BATCHES_MAX or queue.next >= self._store.reader.max_offset(self.topic, queue.queue_id):
            return
        result = self._store.get(self.topic, queue.queue_id, queue.next, AT_ONCE)
        for piece in result.slices:
            for record in decode_records(piece, check_crc=False):
                try:
                    queue.take(record)
                except RemoteProtocolError as error:
                    logger.error("record %d of %s/%d: %s", record.queue_offset, self.topic, queue.queue_id, error)
        queue.next = max(result.next_offset, queue.next + (not result.slices))

    def _settle(self, queue: ReviveQueue) -> None:
        """Give batches that are over to the revival. Acknowledgements become due with the end of their batch."""
        if not queue.batches or queue.next < self._store.reader.max_offset(self.topic, queue.queue_id):
            return
        done_ms = self._timer_done_ms() - SETTLE_MS
        if any(batch.revive_ms > done_ms for batch in queue.batches.values()):
            self._wake_timer()
        over = [key for key, batch in queue.batches.items() if batch.revive_ms <= done_ms]
        for key in over:
            batch = queue.batches.pop(key)
            topic, group = key[:2]
            if not batch.open:
                continue
            if self._topics.find(original_topic(topic, group)) is None or self._groups.find(group) is None:
                logger.warning(
                    "%d messages of %s for %s: the topic or the group is gone", len(batch.open), topic, group
                )
                continue
            queue.working[key] = batch
            self.taken_over += len(batch.open)
            self._revival.add([self._expired(queue, batch, offset) for offset in list(batch.open)])
        if over:
            logger.info("%d batches that Apache's broker handed out are over", len(over))

    def _expired(self, queue: ReviveQueue, batch: Batch, offset: int) -> Expired:
        topic, group, queue_id, _, pop_ms = batch.key

        def finish() -> None:
            batch.open.pop(offset, None)
            if not batch.open:
                queue.working.pop(batch.key, None)

        def later(ms: int) -> None:
            asyncio.get_running_loop().call_later(ms / 1_000, partial(self._revival.add, [expired]))

        expired = Expired(group, topic, queue_id, offset, pop_ms, finish, later)
        return expired

    def _commit(self, queue: ReviveQueue) -> None:
        done_to = queue.done_to()
        if done_to > self._offsets.find(GROUP, self.topic, queue.queue_id):
            self._offsets.commit(GROUP, self.topic, queue.queue_id, done_to, "pop")
