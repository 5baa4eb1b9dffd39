"""Queues of a push consumer: takes them, pulls from them, and releases them.

A taken queue starts at the group's offset. A dropped queue is no longer pulled, its offset is saved, and its lock is
released, so that the next owner need not wait; until then it is `leaving`, and is not taken again. Assignment is
decided in `rebalance`, consumption in `consumption`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from hanabi.client.cluster.unresponsive_brokers import PassedOver
from hanabi.client.consumer.listening.consumption import Consumption
from hanabi.client.consumer.offsets.offset_store import OffsetStore
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.push.pull_loop import PullLoop
from hanabi.client.consumer.push.queue_locks import QueueLocks, by_broker
from hanabi.client.for_each import for_each
from hanabi.errors import MQError
from hanabi.message import MessageQueue

logger = logging.getLogger(__name__)


class AssignedQueues:
    """The queues of one push consumer. Invariant: a queue is in `owned`, in `leaving` or in neither; each one in
    `owned` has a pull loop.

    `kept_locked` are queues that were released while their listener still ran.
    """

    def __init__(
        self,
        group: str,
        *,
        offsets: OffsetStore,
        start_offset: Callable[[MessageQueue], Awaitable[int]],
        pull_loop: Callable[[OwnedQueue], PullLoop],
        dropped: Callable[[MessageQueue], None],
        changed: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._group, self._offsets, self._start_offset = group, offsets, start_offset
        self._pull_loop, self._dropped, self._changed, self._now_ms = pull_loop, dropped, changed, now_ms
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self.leaving: dict[MessageQueue, OwnedQueue] = {}
        self.kept_locked: list[MessageQueue] = []
        self._pulls: dict[OwnedQueue, asyncio.Task[None]] = {}
        self._unbegun: set[MessageQueue] = set()  # queues whose broker returns no start offset
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._consumption: Consumption | None = None
        self._locks: QueueLocks | None = None

    def connect(self, consumption: Consumption, locks: QueueLocks | None) -> None:
        """Bind late: consumption and locks need these queues, and vice versa."""
        self._consumption, self._locks = consumption, locks

    @property
    def consumption(self) -> Consumption:
        if self._consumption is None:
            raise RuntimeError("call connect() first")
        return self._consumption

    # Interface of Shares

    async def share(self, topic: str, assigned: set[MessageQueue]) -> bool:
        for queue, owned in list(self.owned.items()):
            if owned.dropped or (queue.topic == topic and queue not in assigned):
                self._drop(owned)
        wanted = sorted(queue for queue in assigned if queue not in self.owned and queue not in self.leaving)
        return await self._take(wanted) if wanted else True

    def keep_topics(self, topics: Collection[str]) -> None:
        for queue, owned in list(self.owned.items()):
            if queue.topic not in topics:
                self._drop(owned)

    # Taking

    async def _take(self, wanted: list[MessageQueue]) -> bool:
        if self._locks is None:
            return await self._begin_all(wanted, None)
        return all(await for_each(partial(self._take_locked, self._locks), by_broker(wanted).values()))

    async def _take_locked(self, locks: QueueLocks, wanted: list[MessageQueue]) -> bool:
        """Lock queues of one broker, and start those that it grants."""
        asked_at, losses = asyncio.get_running_loop().time(), locks.losses_of(wanted[0])
        locked = set(wanted)  # if we are cancelled, an unseen response may have granted the lock
        try:
            locked = await locks.lock(wanted)
            begun = await self._begin_all([queue for queue in wanted if queue in locked], asked_at)
            if losses != locks.losses_of(wanted[0]):
                locks.broker_lost(wanted[0].broker_name)
        finally:
            if useless := sorted(queue for queue in locked if queue not in self.owned):
                await locks.unlock(useless)
        return begun and len(locked) == len(wanted)

    async def _begin_all(self, queues: list[MessageQueue], locked_at: float | None) -> bool:
        begun = await asyncio.gather(*(self._begin(queue, locked_at) for queue in queues))
        if taken := sum(begun):
            logger.info("group %s has %d more queues of %s", self._group, taken, queues[0].topic)
        return all(begun)

    async def _begin(self, queue: MessageQueue, locked_at: float | None) -> bool:
        self._offsets.remove(queue)  # outdated since we last had the queue
        try:
            offset = await self._start_offset(queue)
        except MQError as error:
            self._complain(queue, error)
            return False
        self._unbegun.discard(queue)
        owned = OwnedQueue(queue, offset, now_ms=self._now_ms())
        owned.locked_at = locked_at
        self.owned[queue] = owned
        self.consumption.take(owned)
        pulls = asyncio.create_task(self._pull_loop(owned).run(), name=f"{self._group} pulls from {queue}")
        self._pulls[owned] = pulls
        pulls.add_done_callback(lambda task: self._pulls_ended(owned, task))
        return True

    def _complain(self, queue: MessageQueue, error: MQError) -> None:
        quiet = queue in self._unbegun or isinstance(error, PassedOver)  # once per outage
        self._unbegun.add(queue)
        level = logging.DEBUG if quiet else logging.WARNING
        logger.log(level, "group %s: no broker returned a start offset for %s, retrying: %s", self._group, queue, error)

    def _pulls_ended(self, owned: OwnedQueue, task: "asyncio.Task[None]") -> None:
        """Give up an owned queue whose pull loop ended, so that it is taken again."""
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            logger.error("group %s: pulling %s failed with an internal error", self._group, owned.queue, exc_info=error)
        owned.drop()
        self._changed()

    # Releasing

    def _drop(self, owned: OwnedQueue, *, moved_to: int | None = None) -> None:
        """Drop the queue. *moved_to*, if given, is the offset set by an operator; it replaces our progress."""
        del self.owned[owned.queue]
        self.leaving[owned.queue] = owned
        owned.drop(forfeit=moved_to is not None)
        task = asyncio.create_task(self._goodbye(owned, moved_to), name=f"{self._group} lets go of {owned.queue}")
        self._goodbyes.add(task)
        task.add_done_callback(self._goodbyes.discard)

    async def _goodbye(self, owned: OwnedQueue, moved_to: int | None) -> None:
        queue = owned.queue
        try:
            await _end(self._pulls.pop(owned, None))
            self._dropped(queue)
            await self.consumption.release(owned)
            if moved_to is not None:
                self._offsets.update(queue, moved_to, increase_only=False)
            if moved_to is not None or not owned.forfeited:
                await self._save([queue])
                await self._unlock([owned])
            self._offsets.remove(queue)
            logger.info("group %s released %s", self._group, queue)
        finally:
            del self.leaving[queue]
            self._changed()  # it may be assigned to us again already

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets; messages of these queues in consumption no longer count."""
        for queue, offset in offsets.items():
            owned = self.owned.get(queue)
            if owned is not None:
                self._drop(owned, moved_to=offset)

    async def persist(self) -> None:
        """Save the offsets."""
        if self.owned:
            await self._offsets.persist(list(self.owned))

    async def _save(self, queues: list[MessageQueue]) -> None:
        try:
            await self._offsets.persist(queues, confirmed=True)  # the next owner reads it
        except MQError as error:
            logger.warning(
                "group %s: %d offsets were not saved, so some messages will be redelivered: %s",
                self._group,
                len(queues),
                error,
            )

    async def _unlock(self, ours: list[OwnedQueue]) -> None:
        """Release the locks, except of queues whose listener still runs: a second one must not run concurrently."""
        if self._locks is None:
            return
        busy = [owned.queue for owned in ours if self.consumption.is_busy(owned)]
        await self._locks.unlock([owned.queue for owned in ours if owned.queue not in busy])
        self.kept_locked += busy

    async def close(self, seconds: float) -> bool:
        """Stop pulling, let listeners end, save offsets, release locks; False if listeners were left behind."""
        for task in (pulls := list(self._pulls.values())):
            task.cancel()
        if pulls:
            await asyncio.wait(pulls)
        in_time = await self.consumption.close(seconds)
        if goodbyes := list(self._goodbyes):  # they waited for the listeners, which have ended
            await asyncio.wait(goodbyes)
        for owned in self.owned.values():
            owned.drop()
        ours = [owned for owned in self.owned.values() if not owned.forfeited]
        await self._save([owned.queue for owned in ours])
        await self._unlock(ours)
        self.owned.clear()
        self._pulls.clear()
        return in_time


async def _end(task: "asyncio.Task[Any] | None") -> None:
    """Cancel *task*, and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))
