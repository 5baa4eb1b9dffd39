"""Pull loop of one queue: pull, hand over, pull again, for as long as the queue is owned.

A broker without new messages holds the request for up to 15 s, which gives low latency at low cost. The loop waits
while the consumer is paused, while too much is held already, and after errors. Same limits and times as
DefaultMQPushConsumerImpl.pullMessage, but it waits for room instead of polling every 50 ms.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.offsets.offset_store import OffsetStore
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.client.consumer.pull_failures import ERROR_S, PullFailures
from hanabi.client.consumer.pull_request import PullResult, PullStatus
from hanabi.client.consumer.queue_progress import QueueLimits
from hanabi.clock import wall_ms
from hanabi.errors import MQError
from hanabi.message import StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData

HOLD_S: Final = 15.0
EMPTY_S: Final = 0.05  # shortest interval between pulls from a broker that does not hold them
COMPLAIN_S: Final = 60.0

logger = logging.getLogger(__name__)


class Pull(Protocol):
    """Sends one pull. *commit_offset*, if given, is committed along with the request."""

    def __call__(
        self, owned: OwnedQueue, subscription: SubscriptionData, commit_offset: int | None
    ) -> Awaitable[PullResult]: ...


class PullLoop:
    """Pull loop of one queue. `run` until cancelled or the queue is dropped."""

    def __init__(
        self,
        group: str,
        owned: OwnedQueue,
        *,
        pull: Pull,
        subscription: Callable[[], SubscriptionData | None],
        offsets: OffsetStore,
        commits: bool,
        limits: Callable[[], QueueLimits],
        resumed: asyncio.Event,
        deliver: Callable[[OwnedQueue, list[StoredMessage]], None],
        progressed: Callable[[OwnedQueue], None],
        stats: ConsumeStats,
        interval_s: float,
    ) -> None:
        self._group, self._owned = group, owned
        self._pull, self._subscription, self._offsets, self._commits = pull, subscription, offsets, commits
        self._limits, self._resumed, self._deliver, self._progressed = limits, resumed, deliver, progressed
        self._stats, self._interval_s = stats, interval_s
        self._complained_at = -COMPLAIN_S
        self._failures = PullFailures(group, owned.queue)

    async def run(self) -> None:
        owned = self._owned
        while not owned.dropped:
            await self._resumed.wait()
            await self._room()
            subscription = self._subscription()
            if owned.dropped or subscription is None:  # unsubscribed: the next rebalance takes the queue away
                return
            pause_s = await self._pull_once(subscription)
            if pause_s and not owned.dropped:
                await asyncio.sleep(pause_s)

    async def _room(self) -> None:
        owned = self._owned
        while not owned.dropped and (reason := owned.progress.over(self._limits())) is not None:
            now = asyncio.get_running_loop().time()
            if now - self._complained_at >= COMPLAIN_S:
                self._complained_at = now
                logger.info("group %s: pausing pulls from %s: %s", self._group, owned.queue, reason)
            await owned.change()

    async def _pull_once(self, subscription: SubscriptionData) -> float:
        """Pull once; return the seconds to wait before the next pull."""
        owned, loop = self._owned, asyncio.get_running_loop()
        began = loop.time()
        owned.last_pull_ms = wall_ms()
        try:
            # None for 0, as in Java: nothing is consumed yet.
            commits = self._commits and self._offsets.is_undisputed(owned.queue)
            commit_offset = (owned.progress.committable or None) if commits else None
            result = await self._pull(owned, subscription, commit_offset)
        except MQError as error:
            return self._failures.failed(error, owned.progress.next_offset)
        except Exception:
            logger.exception("group %s: pulling from %s failed with an internal error", self._group, owned.queue)
            return ERROR_S
        if result.stands_still(owned.progress.next_offset):
            return self._failures.behind(owned.progress.next_offset, result)
        self._failures.succeeded()
        seconds = loop.time() - began
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._move(result.next_offset)
            return EMPTY_S
        self._count(result, began, seconds)
        fresh = owned.progress.add(result.messages, result.next_offset)
        if fresh:
            self._deliver(owned, fresh)
            return self._interval_s
        self._progressed(owned)  # filtered messages move the offset too
        return EMPTY_S if result.status is PullStatus.NO_NEW_MESSAGE and seconds < EMPTY_S else 0.0

    def _count(self, result: PullResult, began: float, seconds: float) -> None:
        if result.messages:
            totals = self._stats.of(self._owned.queue.topic, began).totals
            totals.pulls += 1
            totals.pull_s += seconds
            totals.pulled += len(result.messages)

    async def _move(self, offset: int) -> None:
        """Continue at the offset that the broker returned because ours has no message. Held messages are finished
        first: no old offset may be committed after the new one.
        """
        owned = self._owned
        logger.warning(
            "group %s: %s has no offset %d any more, or not yet; continuing at %d",
            self._group,
            owned.queue,
            owned.progress.next_offset,
            offset,
        )
        while not owned.dropped and owned.progress.count:
            await owned.change()
        if not owned.dropped:
            owned.progress.move(offset)
            self._offsets.update(owned.queue, offset, increase_only=False)
            try:
                await self._offsets.persist([owned.queue], confirmed=True)
            except MQError as error:
                logger.warning(
                    "group %s: the new offset of %s could not be saved yet, retrying: %s",
                    self._group,
                    owned.queue,
                    error,
                )
