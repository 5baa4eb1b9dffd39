"""Deleting what is of no use any more, now and not when its time comes.

    306  queues whose messages are all gone     316  queues of topics that do not exist     329  log files that are old

Agrees with AdminBrokerProcessor (4.9.8). Log files are deleted by the store's own thread, in its next rounds, so the
answer to 329 says only that they will be: as Java's.
"""

import logging

from hanabi.broker.handlers.admin.limits import NO_BODY_BYTES_MAX
from hanabi.broker.handlers.admin.queue_removal import QueueRemoval
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.topics import Topics
from hanabi.remoting.dispatch import Handler, Reply
from hanabi.remoting.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.headers.base import NoHeader

logger = logging.getLogger(__name__)


def cleaning_handlers(
    store: MessageStore, removal: QueueRemoval, topics: Topics, stats: BrokerStats
) -> dict[int, Handler]:
    """What deletes the useless."""
    handlers = CleaningHandlers(store, removal, topics, stats)
    return {
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Handler(NoHeader, handlers.expired_queues, NO_BODY_BYTES_MAX),
        RequestCode.CLEAN_UNUSED_TOPIC: Handler(NoHeader, handlers.unused_topics, NO_BODY_BYTES_MAX),
        RequestCode.DELETE_EXPIRED_COMMITLOG: Handler(NoHeader, handlers.old_log_files, NO_BODY_BYTES_MAX),
    }


class CleaningHandlers:
    """An administrator wants space now."""

    def __init__(self, store: MessageStore, removal: QueueRemoval, topics: Topics, stats: BrokerStats) -> None:
        self._store, self._removal, self._topics, self._stats = store, removal, topics, stats

    async def expired_queues(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        count = await self._removal.remove(self._store.expired_queues())
        logger.info("%s: %d queues without messages are deleted", connection.peer, count)
        return Reply()

    async def unused_topics(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        unused = self._store.unused_topics(self._topics.names())
        for topic in unused:
            if topic in self._topics:
                continue  # it was made while another one was deleted
            count = await self._removal.remove_topic(topic)
            self._stats.remove_topic(topic)
            logger.info("%s: topic %s is unused, its %d queues are deleted", connection.peer, topic, count)
        return Reply()

    def old_log_files(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        self._store.retention.ask()
        logger.info("%s: log files that are too old are deleted in the next rounds", connection.peer)
        return Reply()
