"""Prefetch of messages for a lite pull consumer: one task per queue pulls ahead until enough is held.

Same limits and times as the pull tasks of Java's DefaultLitePullConsumerImpl, but waits for room instead of polling
every 50 ms. Queue assignment and offset commits are decided elsewhere.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

from hanabi.client.consumer.pull.fetched_queue import FetchedQueue
from hanabi.client.consumer.pull_failures import ERROR_S, PullFailures
from hanabi.client.consumer.pull_request import PullResult, PullStatus
from hanabi.client.consumer.queue_progress import QueueLimits
from hanabi.clock import wall_ms
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage

EMPTY_S: Final = 0.05  # shortest interval between pulls from a broker that does not hold them

logger = logging.getLogger(__name__)


class Pull(Protocol):
    """Sends one pull from the queue's next offset."""

    def __call__(self, queue: MessageQueue, offset: int) -> Awaitable[PullResult]: ...


class Fetching:
    """Prefetch of several queues. Invariant: every queue in `queues` has a pulling task, and is in `_ready` when it
    holds messages.
    """

    def __init__(
        self,
        group: str,
        *,
        start_offset: Callable[[MessageQueue], Awaitable[int]],
        pull: Pull,
        limits: QueueLimits,
        messages_max: int,
    ) -> None:
        self._group, self._start_offset, self._pull = group, start_offset, pull
        self._limits, self._messages_max = limits, messages_max
        self.queues: dict[MessageQueue, FetchedQueue] = {}
        self.moved: set[FetchedQueue] = set()  # queues whose position changed since it was last settled
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._ready: dict[MessageQueue, None] = {}  # in round-robin order
        self._held = 0  # messages of all queues
        self.state = 0  # changes whenever taken messages may have become invalid
        self._arrived, self._room = asyncio.Event(), asyncio.Event()

    # Queues

    def take_on(self, queues: Iterable[MessageQueue]) -> None:
        """Start to fetch from these queues too."""
        for queue in queues:
            if queue not in self.queues:
                self.queues[queue] = FetchedQueue(queue)
                self._begin(queue)

    def drop(self, queue: MessageQueue) -> FetchedQueue:
        """Stop fetching from the queue; its held messages are not handed out."""
        fetched = self.queues.pop(queue)
        self.state += 1
        self._held -= fetched.count
        self._ready.pop(queue, None)
        self.moved.discard(fetched)
        self._end(queue)
        self._room.set()
        return fetched

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset*. The result of a pull in flight is discarded."""
        fetched = self.queues[queue]
        self.state += 1
        self._held -= fetched.count
        self._ready.pop(queue, None)
        fetched.seek(offset)
        self.moved.add(fetched)
        self._end(queue)
        self._begin(queue)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self.state += 1
        for queue in queues:
            self.queues[queue].paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            fetched = self.queues[queue]
            fetched.paused = False
            if fetched.count:
                self._ready[queue] = None
                self._arrived.set()
        self._room.set()

    def _begin(self, queue: MessageQueue) -> None:
        name = f"{self._group} fetches from {queue.topic} {queue.broker_name} {queue.queue_id}"
        self._tasks[queue] = asyncio.create_task(self._run(self.queues[queue]), name=name)

    def _end(self, queue: MessageQueue) -> None:
        task = self._tasks.pop(queue)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Stop all fetching."""
        for queue in list(self._tasks):
            self._end(queue)
        if self._ending:
            await asyncio.wait(list(self._ending))
        self._arrived.set()

    # Handing out

    def take(self, count: int) -> list[StoredMessage]:
        """Return held messages, at most *count*, from the queues in round-robin order."""
        taken: list[StoredMessage] = []
        while self._ready and len(taken) < count:
            queue = next(iter(self._ready))
            del self._ready[queue]
            fetched = self.queues[queue]
            if fetched.paused:
                continue  # `resume` puts it back
            taken += fetched.take(count - len(taken))
            self.moved.add(fetched)
            if fetched.count:
                self._ready[queue] = None
        if taken:
            self._held -= len(taken)
            self._room.set()
        return taken

    def give_back(self, messages: Collection[tuple[MessageQueue, int]]) -> None:
        """Hold these messages of the last `take` again; each is given as queue and offset."""
        for queue in {queue for queue, _ in messages} & self.queues.keys():
            fetched = self.queues[queue]
            before = fetched.count
            fetched.give_back({offset for each, offset in messages if each == queue})
            self._held += fetched.count - before
            if fetched.count:
                self._ready[queue] = None
                self._arrived.set()

    async def arrival(self) -> None:
        """Wait until messages may be held. Check before and after the call."""
        self._arrived.clear()
        await self._arrived.wait()

    def wake(self) -> None:
        """End the wait for messages."""
        self._arrived.set()

    # Fetching

    async def _run(self, fetched: FetchedQueue) -> None:
        failures = PullFailures(self._group, fetched.queue)
        while True:
            await self._until_room(fetched)
            try:
                pause_s = await self._once(fetched, failures)
            except MQError as error:
                pause_s = failures.failed(error, fetched.next_offset)
            except Exception:
                logger.exception("group %s: pulling from %s failed with an internal error", self._group, fetched.queue)
                pause_s = ERROR_S
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _until_room(self, fetched: FetchedQueue) -> None:
        while fetched.paused or self._held > self._messages_max or fetched.over(self._limits) is not None:
            self._room.clear()
            await self._room.wait()

    async def _once(self, fetched: FetchedQueue, failures: PullFailures) -> float:
        """Pull once; return the seconds to wait before the next pull."""
        loop = asyncio.get_running_loop()
        if fetched.next_offset is None:
            fetched.next_offset = await self._start_offset(fetched.queue)
        began = loop.time()
        fetched.last_pull_ms = wall_ms()
        result = await self._pull(fetched.queue, fetched.next_offset)
        if result.stands_still(fetched.next_offset):
            return failures.behind(fetched.next_offset, result)
        failures.succeeded()
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "group %s: %s has no offset %d any more, or not yet; continuing at %d",
                self._group,
                fetched.queue,
                fetched.next_offset,
                result.next_offset,
            )
            fetched.next_offset = result.next_offset
            self.moved.add(fetched)
            return EMPTY_S
        before = fetched.count
        fetched.add(result.messages, result.next_offset)
        self._held += fetched.count - before
        if fetched.count > before:
            self._ready[fetched.queue] = None
            self._arrived.set()
        elif not before:
            self.moved.add(fetched)  # filtered messages move the position too
        return EMPTY_S if result.status is PullStatus.NO_NEW_MESSAGE and loop.time() - began < EMPTY_S else 0.0
