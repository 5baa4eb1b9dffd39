"""Deletion of queues in small steps: a file takes tenths of a millisecond, and a topic may have thousands.

A removal completes even if the requesting connection ends.
"""

import logging
from collections.abc import Iterable

from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.handlers.yielding import Yielder
from hanabi.store.message_store import MessageStore

logger = logging.getLogger(__name__)

Queue = tuple[str, int]  # topic and queue id


class QueueRemoval:
    """Deletes queues of one store in small steps on the event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def remove_topic(self, topic: str) -> int:
        """Delete all queues of *topic*; return their number."""
        return await self.remove((topic, queue_id) for queue_id in self._store.queues_of(topic))

    async def remove(self, queues: Iterable[Queue]) -> int:
        """Delete *queues*; return the number deleted. A queue that gets a message before its turn is in use, and
        stays."""
        ends = {queue: self._store.reader.max_offset(*queue) for queue in queues}
        return await uncancelled(self._remove(ends))

    async def _remove(self, ends: dict[Queue, int]) -> int:
        count = 0
        pace = Yielder()
        for queue, end in ends.items():
            if self._store.reader.max_offset(*queue) == end:
                count += self._store.delete_queue(*queue)
            else:
                logger.info("queue %s/%d is in use again and stays", *queue)
            await pace.pause()
        return count
