"""Immediate deletion of expired data, on an administrator's request.

    306  queues whose messages are all gone     316  queues of topics that do not exist     329  log files that are old

Queues of the broker's own topics stay: messages waiting there are known by their queue offsets. A deleted queue
restarts at 0, so groups' offsets in it become 0 too; a group at a higher offset would skip new messages.

Agrees with AdminBrokerProcessor (4.9.8), which deletes more and leaves the groups' offsets as they are. Log files are
deleted by the store's own thread in its next rounds, so the answer to 329 says only that they will be, as Java's does.
A slave deletes no queue (306, 316): the tools ask all brokers, and a topic may have messages here before its settings
are copied.
"""

import logging

from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.broker.handlers.admin.support.queue_removal import QueueRemoval
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader

logger = logging.getLogger(__name__)


def cleaning_handlers(
    store: MessageStore, removal: QueueRemoval, topics: Topics, offsets: ConsumerOffsets, stats: BrokerStats
) -> dict[int, Handler]:
    """Return the handlers that delete expired data."""
    handlers = CleaningHandlers(store, removal, topics, offsets, stats)
    return {
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Handler(NoHeader, handlers.expired_queues, NO_BODY_BYTES_MAX),
        RequestCode.CLEAN_UNUSED_TOPIC: Handler(NoHeader, handlers.unused_topics, NO_BODY_BYTES_MAX),
        RequestCode.DELETE_EXPIRED_COMMITLOG: Handler(NoHeader, handlers.old_log_files, NO_BODY_BYTES_MAX),
    }


class CleaningHandlers:
    """Handlers that free disk space now."""

    def __init__(
        self,
        store: MessageStore,
        removal: QueueRemoval,
        topics: Topics,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
    ) -> None:
        self._store, self._removal, self._topics, self._offsets, self._stats = store, removal, topics, offsets, stats

    def _is_left_to_master(self, connection: Connection) -> bool:
        """Return whether this is a slave: its queues go on where its master's do, and a topic may be new to it."""
        if self._store.is_copy:
            logger.info("%s: a slave deletes no queues before its master does", connection.peer)
        return self._store.is_copy

    async def expired_queues(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if self._is_left_to_master(connection):
            return Reply()
        queues = [queue for queue in self._store.expired_queues() if not self._topics.is_system(queue[0])]
        count = await self._removal.remove(queues)
        await self._begin_again({topic for topic, _ in queues})
        logger.info("%s: %d queues without messages are deleted", connection.peer, count)
        return Reply()

    async def unused_topics(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if self._is_left_to_master(connection):
            return Reply()
        unused = [
            topic for topic in self._store.unused_topics(set(self._topics.names())) if not self._topics.is_system(topic)
        ]
        for topic in unused:
            if topic in self._topics:
                continue  # created while another one was deleted
            count = await self._removal.remove_topic(topic)
            self._stats.remove_topic(topic)
            logger.info("%s: topic %s is unused, its %d queues are deleted", connection.peer, topic, count)
        await self._begin_again(set(unused))
        return Reply()

    async def _begin_again(self, topics: set[str]) -> None:
        """Set offsets beyond the end of their queue in *topics* to 0: the queue was deleted."""
        pace, end_of = Yielder(), self._store.reader.max_offset
        for topic, group in self._offsets.each_topic_and_group() if topics else ():
            if topic in topics:
                for queue_id, offset in self._offsets.of(group, topic).items():
                    if offset > end_of(topic, queue_id):
                        self._offsets.reset(group, topic, queue_id, 0)
            await pace.pause()

    def old_log_files(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        self._store.retention.ask()
        logger.info("%s: log files that are too old are deleted in the next rounds", connection.peer)
        return Reply()
