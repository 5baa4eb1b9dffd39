"""Ordered consumption: one batch per queue at a time, and none before the previous one has succeeded.

A failed batch is retried after a pause while its queue waits; nothing is skipped. Only a message that has reached the
retry limit, if there is one, goes to the dead letters. In a group that shares queues all of this happens under the
broker's lock; without the lock the queue waits.

Same timing and outcomes as Java's ConsumeMessageOrderlyService.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any, Protocol

from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.listening.consumption import Calls, report_failure, tried_again
from hanabi.client.consumer.listening.listener import DeadLetters, failed_positions, succeeded_of, suspend_seconds
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.errors import MQError
from hanabi.message import StoredMessage

logger = logging.getLogger(__name__)


class GiveUp(Protocol):
    """Moves a message to the dead letters; raises when no broker accepted it."""

    def __call__(self, owned: OwnedQueue, message: StoredMessage) -> Coroutine[Any, Any, None]: ...


class Line:
    """Messages of one queue that wait for consumption, and the task that consumes them. `busy` while the first of them
    are with the listener or their result is being handled.
    """

    def __init__(self, owned: OwnedQueue) -> None:
        self.owned = owned
        self.messages: deque[StoredMessage] = deque()
        self.task: asyncio.Task[None] | None = None
        self.busy = False


class Orderly:
    """Ordered consumption. Invariant: at most one batch of a queue is with the listener, and it is the first of the
    line.
    """

    def __init__(
        self,
        group: str,
        settings: PushConfig,
        calls: Calls,
        *,
        needs_lock: bool,
        give_up: GiveUp | None,
        progressed: Callable[[OwnedQueue], None],
        now: Callable[[], float],
    ) -> None:
        self._group, self._settings, self._calls = group, settings, calls
        self._needs_lock, self._give_up, self._progressed, self._now = needs_lock, give_up, progressed, now
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._lines: dict[OwnedQueue, Line] = {}
        self._with_listener: set[OwnedQueue] = set()
        self._paused = self._closing = False

    # Interface of Consumption

    def take(self, owned: OwnedQueue) -> None:
        line = self._lines[owned] = Line(owned)
        line.task = asyncio.create_task(self._consume(line), name=f"{self._group} in order {owned.queue}")
        line.task.add_done_callback(lambda task: self._ended(owned, task))

    def offer(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        line = self._lines.get(owned)
        if line is not None:
            line.messages.extend(messages)
            owned.changed()

    async def release(self, owned: OwnedQueue) -> None:
        """Wait for the listener: the next owner starts where it ended, and must not start earlier. A queue that waits
        for its turn is not waited for.
        """
        line = self._lines.get(owned)
        if line is not None and line.task is not None:
            if not line.busy:
                line.task.cancel()
            await asyncio.wait((line.task,))
            del self._lines[owned]

    def is_busy(self, owned: OwnedQueue) -> bool:
        return owned in self._with_listener

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        for owned in self._lines:
            owned.changed()

    async def close(self, seconds: float) -> bool:
        self._closing = True
        for owned in self._lines:
            owned.changed()
        until = asyncio.get_running_loop().time() + seconds
        if tasks := [line.task for line in self._lines.values() if line.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return await self._calls.close(max(0.0, until - asyncio.get_running_loop().time()))

    # One queue

    def _over(self, owned: OwnedQueue) -> bool:
        return owned.dropped or self._closing

    async def _consume(self, line: Line) -> None:
        owned = line.owned
        while not self._over(owned):
            if not line.messages or self._paused or not self._has_lock(owned):
                await owned.change(self._settings.suspend_s if line.messages and not self._paused else None)
                continue
            async with self._slots:
                if self._over(owned) or self._paused or not self._has_lock(owned):
                    continue
                line.busy = True
                batch = list(islice(line.messages, self._settings.consume_batch))
                error = await self._call(owned, batch)
            if owned.forfeited:
                return
            if error is None:
                self._finish(line, len(batch))
            else:
                await self._failed(line, batch, error)
            line.busy = False

    def _ended(self, owned: OwnedQueue, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "group %s: consuming %s failed with an internal error", self._group, owned.queue, exc_info=error
            )
            owned.drop()  # rebalance takes it again at the same offset

    def _has_lock(self, owned: OwnedQueue) -> bool:
        return not self._needs_lock or owned.lock_is_valid(self._now())

    async def _call(self, owned: OwnedQueue, batch: list[StoredMessage]) -> BaseException | None:
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def tell(error: BaseException | None) -> None:
            self._with_listener.discard(owned)
            if not ended.done():  # done: we were cancelled, and no task waits for it
                ended.set_result(error)

        self._with_listener.add(owned)
        self._calls.start(owned, batch, tell)
        return await ended

    def _finish(self, line: Line, count: int) -> None:
        done = [line.messages.popleft() for _ in range(count)]
        line.owned.progress.finish(done)
        self._progressed(line.owned)

    async def _failed(self, line: Line, batch: list[StoredMessage], error: BaseException) -> None:
        report_failure(self._group, line.owned, batch, error)
        done = await self._buried(line.owned, batch, error)
        if done is None:
            done = succeeded_of(error, len(batch))
        self._finish(line, done)
        rest = batch[done:]
        while rest and self._is_last_try(rest[0]) and await self._bury(line.owned, rest[0]):
            self._finish(line, 1)
            rest = rest[1:]
        if not rest:
            return
        for index, message in enumerate(tried_again(rest)):
            line.messages[index] = message
        await self._suspend(line.owned, suspend_seconds(error, self._settings.suspend_s))

    async def _buried(self, owned: OwnedQueue, batch: list[StoredMessage], error: BaseException) -> int | None:
        """Make dead letters as *error* asks; return how many messages from the first on are finished, None if it does
        not ask. A broadcasting group has no dead letters: it skips the messages.
        """
        if not isinstance(error, DeadLetters):
            return None
        for position in failed_positions(error, len(batch)):
            if self._give_up is None:
                logger.warning("group %s broadcasts, so message %s is skipped", self._group, batch[position].message_id)
            elif not await self._bury(owned, batch[position]):
                return position
        return len(batch)

    def _is_last_try(self, message: StoredMessage) -> bool:
        limit = self._settings.max_reconsume_times
        return self._give_up is not None and limit is not None and message.reconsume_times >= limit

    async def _bury(self, owned: OwnedQueue, message: StoredMessage) -> bool:
        if self._give_up is None:
            return False
        try:
            await self._give_up(owned, message)
        except MQError as error:
            logger.warning(
                "group %s: message %s could not be stored as a dead letter: %s", self._group, message.message_id, error
            )
            return False
        logger.warning(
            "group %s: message %s of %s became a dead letter after %d tries",
            self._group,
            message.message_id,
            owned.queue,
            message.reconsume_times + 1,
        )
        return True

    async def _suspend(self, owned: OwnedQueue, seconds: float) -> None:
        until = self._now() + seconds
        while not self._over(owned) and (left := until - self._now()) > 0:
            await owned.change(left)
