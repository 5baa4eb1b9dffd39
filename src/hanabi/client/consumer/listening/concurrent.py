"""Concurrent consumption: calls of the listener run in parallel, up to a limit and across queues.

Failed messages are sent back to the broker; if that fails, they are retried locally after 5 s. A call that exceeds the
consume timeout is given up: its messages are sent back, and its late result is ignored so that they are not sent back
twice. Offsets advance only to the smallest unfinished message.

Same timing and outcomes as Java's ConsumeMessageConcurrentlyService.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol

from hanabi.client.consumer.config.push_config import PushConfig
from hanabi.client.consumer.listening.consumption import Calls, report_failure, tried_again
from hanabi.client.consumer.listening.listener import delay_level_of, failed_positions
from hanabi.client.consumer.listening.send_back import FIRST_DELAY_LEVEL
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.errors import MQError
from hanabi.message import StoredMessage

AGAIN_S: Final = 5.0
TIMEOUT_CHECKS: Final = 20  # checks per consume timeout
_LAST_S: Final = 0.5  # time left for handling listener failures after the deadline

logger = logging.getLogger(__name__)


class Retry(Protocol):
    """Sends a failed message back for redelivery; raises when no broker accepted it."""

    def __call__(self, owned: OwnedQueue, message: StoredMessage, delay_level: int) -> Coroutine[Any, Any, None]: ...


class Batch:
    """The messages of one listener call. `given_up` once they are retried elsewhere."""

    __slots__ = ("began", "given_up", "messages", "owned", "run")

    def __init__(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        self.owned, self.messages = owned, messages
        self.began = 0.0
        self.given_up = False
        self.run: object = None


class Concurrent:
    """Concurrent consumption. Without a *retry*, as in broadcasting, failed messages are skipped.

    Invariant: each unfinished message of a queue that is not dropped is in one waiting or running batch, or on its way
    back to a broker.
    """

    def __init__(
        self,
        group: str,
        settings: PushConfig,
        calls: Calls,
        *,
        retry: Retry | None,
        progressed: Callable[[OwnedQueue], None],
        now: Callable[[], float],
        again_s: float = AGAIN_S,
    ) -> None:
        self._group, self._settings, self._calls = group, settings, calls
        self._retry, self._progressed, self._now, self._again_s = retry, progressed, now, again_s
        self._waiting: deque[Batch] = deque()
        self._running: dict[Batch, None] = {}  # in start order
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._paused = self._closing = False
        self._watch: asyncio.Task[None] | None = None

    # Interface of Consumption

    def take(self, owned: OwnedQueue) -> None:
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_timeouts(), name=f"consume timeouts of {self._group}")

    def offer(self, owned: OwnedQueue, messages: list[StoredMessage]) -> None:
        size = self._settings.consume_batch
        self._waiting.extend(Batch(owned, messages[start : start + size]) for start in range(0, len(messages), size))
        self._start_more()

    async def release(self, owned: OwnedQueue) -> None:
        """Return at once: the next owner does not wait for our listeners, and a late offset commit would only harm."""
        self._waiting = deque(batch for batch in self._waiting if batch.owned is not owned)

    def is_busy(self, owned: OwnedQueue) -> bool:
        return any(batch.owned is owned for batch in self._running)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._start_more()

    async def close(self, seconds: float) -> bool:
        self._closing = True
        self._waiting.clear()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))
        try:
            async with asyncio.timeout_at(until):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("group %s: %d listener calls have not ended", self._group, len(self._running))
            for batch in self._running:  # unfinished rather than failed: the group starts with it again
                batch.given_up = True
        in_time = await self._calls.close(max(0.0, until - loop.time()))
        if tasks := list(self._tasks):
            await asyncio.wait(tasks, timeout=max(_LAST_S, until - loop.time()))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return in_time

    # The listener

    def _start_more(self) -> None:
        waiting, running, limit = self._waiting, self._running, self._settings.concurrency
        while waiting and len(running) < limit and not self._paused:
            batch = waiting.popleft()
            if batch.owned.dropped:
                continue
            batch.began = self._now()
            running[batch] = None
            batch.run = self._calls.start(batch.owned, batch.messages, partial(self._ended, batch))
        if running:
            self._idle.clear()

    def _ended(self, batch: Batch, error: BaseException | None) -> None:
        del self._running[batch]
        if batch.given_up:
            logger.info(
                "group %s: the listener ended %.0f s after it began with %s, too late: its result is ignored",
                self._group,
                self._now() - batch.began,
                batch.owned.queue,
            )
        elif not batch.owned.dropped:
            if error is None:
                self._finish(batch.owned, batch.messages)
            else:
                self._failed(batch, error)
        if not self._running:
            self._idle.set()
        if self._waiting:
            self._start_more()

    def _finish(self, owned: OwnedQueue, messages: Sequence[StoredMessage]) -> None:
        owned.progress.finish(messages)
        self._progressed(owned)

    def _failed(self, batch: Batch, error: BaseException) -> None:
        report_failure(self._group, batch.owned, batch.messages, error)
        failed = failed_positions(error, len(batch.messages))
        self._give_back(batch.owned, [batch.messages[position] for position in failed], delay_level_of(error))
        if len(failed) < len(batch.messages):
            consumed = [message for position, message in enumerate(batch.messages) if position not in failed]
            self._finish(batch.owned, consumed)

    # Failed messages

    def _give_back(self, owned: OwnedQueue, messages: list[StoredMessage], delay_level: int) -> None:
        if self._retry is None:
            logger.warning("group %s broadcasts, so %d failed messages are skipped", self._group, len(messages))
            self._finish(owned, messages)
            return
        task = asyncio.create_task(self._send_back(self._retry, owned, messages, delay_level))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_back(
        self, retry: Retry, owned: OwnedQueue, messages: list[StoredMessage], delay_level: int
    ) -> None:
        answers = await asyncio.gather(*(self._is_back(retry, owned, message, delay_level) for message in messages))
        kept = [message for message, is_back in zip(messages, answers, strict=True) if not is_back]
        if kept:
            await asyncio.sleep(self._again_s)
            if not owned.dropped and not self._closing:
                self.offer(owned, tried_again(kept))

    async def _is_back(self, retry: Retry, owned: OwnedQueue, message: StoredMessage, delay_level: int) -> bool:
        try:
            await retry(owned, message, delay_level)
        except MQError as error:
            logger.warning(
                "group %s: message %s of %s could not be sent back, retrying in %.0f s: %s",
                self._group,
                message.message_id,
                owned.queue,
                self._again_s,
                error,
            )
            return False
        if not owned.dropped:
            self._finish(owned, (message,))
        return True

    # Listeners that never return

    async def _watch_timeouts(self) -> None:
        while True:
            await asyncio.sleep(self._settings.consume_timeout_s / TIMEOUT_CHECKS)
            latest = self._now() - self._settings.consume_timeout_s
            for batch in list(self._running):
                if batch.began > latest:
                    break
                if not batch.given_up and not batch.owned.dropped:
                    self._give_up(batch)

    def _give_up(self, batch: Batch) -> None:
        batch.given_up = True
        stopped = self._calls.stop(batch.run)
        logger.warning(
            "group %s: the listener has not returned for %.0f s with %d messages of %s from offset %d on;"
            " they are redelivered%s",
            self._group,
            self._now() - batch.began,
            len(batch.messages),
            batch.owned.queue,
            batch.messages[0].queue_offset,
            "" if stopped else ", and its thread stays busy",
        )
        self._give_back(batch.owned, batch.messages, FIRST_DELAY_LEVEL)
