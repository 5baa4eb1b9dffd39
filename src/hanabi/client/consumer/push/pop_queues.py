"""Queues that a push consumer pops from: a pop loop for each that a broker assigns. See `group/broker_share.py`."""

import asyncio
import logging
from collections.abc import Callable, Collection

from hanabi.client.consumer.push.pop_loop import PopLoop
from hanabi.message import MessageQueue

logger = logging.getLogger(__name__)


class PopQueues:
    """The popped queues of one push consumer; the `Shares` of `group/rebalance.py`."""

    def __init__(self, group: str, make_loop: Callable[[MessageQueue], PopLoop]) -> None:
        self._group, self._make_loop = group, make_loop
        self._loops: dict[MessageQueue, tuple[PopLoop, asyncio.Task[None]]] = {}
        self._leaving: list[PopLoop] = []  # their messages are not all finished

    @property
    def queues(self) -> list[MessageQueue]:
        """Return the assigned queues."""
        return sorted(self._loops)

    async def share(self, topic: str, assigned: set[MessageQueue]) -> bool:
        for queue in [queue for queue in self._loops if queue.topic == topic and queue not in assigned]:
            self._drop(queue)
        for queue in sorted(assigned):
            if queue not in self._loops or self._loops[queue][1].done():
                loop = self._make_loop(queue)
                task = asyncio.create_task(loop.run(), name=f"{self._group} pops from {queue}")
                task.add_done_callback(self._ended)
                self._loops[queue] = loop, task
                logger.info("group %s pops from %s", self._group, queue)
        return True

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Log an internal error; the next rebalance starts the loop again."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("group %s: %s failed with an internal error", self._group, task.get_name(), exc_info=error)

    def keep_topics(self, topics: Collection[str]) -> None:
        for queue in [queue for queue in self._loops if queue.topic not in topics]:
            self._drop(queue)

    def _drop(self, queue: MessageQueue) -> None:
        """Pop no more. Messages that the listener has go on, and are acknowledged."""
        loop, task = self._loops.pop(queue)
        task.cancel()
        self._leaving = [each for each in (*self._leaving, loop) if each.held]
        logger.info("group %s pops no more from %s", self._group, queue)

    async def stop(self) -> None:
        """Pop no more."""
        for _, task in self._loops.values():
            task.cancel()
        if self._loops:
            await asyncio.wait([task for _, task in self._loops.values()])

    async def close(self) -> None:
        """Finish acknowledgements; give back what the listener did not finish."""
        await asyncio.gather(*(loop.close() for loop in (*self._leaving, *(loop for loop, _ in self._loops.values()))))
        self._loops.clear()
        self._leaving.clear()
