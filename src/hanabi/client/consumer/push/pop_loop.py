"""Pop loop of one assigned queue, or of all queues of a broker: pop, hand over, acknowledge what the listener finished.

A message that fails gets another invisible time, longer with each attempt; one whose attempts are exhausted becomes a
dead letter (Java's client drops it). Agrees with DefaultMQPushConsumerImpl.popMessage and
ConsumeMessagePopConcurrentlyService (5.3.3) in numbers and times.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from hanabi.client.consumer.consume_stats import ConsumeStats
from hanabi.client.consumer.listening.listener import DEAD_LETTER
from hanabi.client.consumer.push.popped_queue import PoppedQueue
from hanabi.client.consumer.simple.popping import Place, Popping, receipt_of
from hanabi.clock import wall_ms
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.delay_levels import DEFAULT_LEVELS

POP_MAX: Final = 32
WAIT_MS: Final = 15_000
HELD_MAX: Final = 96  # unfinished messages of one assigned queue: Java's popThresholdForQueue
ERROR_S: Final = 3.0
EMPTY_S: Final = 0.05  # shortest interval between pops from a broker that does not hold them
AGAIN_S: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
GIVE_BACK_S: Final = 2.0

logger = logging.getLogger(__name__)


def again_ms(attempts: int, delay_level: int) -> int:
    """Return after how long a failed message comes again: as its listener asked, or by its *attempts* so far. Pure."""
    if delay_level > 0:
        return DEFAULT_LEVELS.delay_ms(min(delay_level, DEFAULT_LEVELS.highest)) or 0
    return AGAIN_S[min(attempts, len(AGAIN_S) - 1)] * 1_000


class Bury(Protocol):
    """Sends a message to the dead letters of the group; raises when no broker accepted it."""

    def __call__(self, message: StoredMessage, topic: str, broker_name: str) -> Awaitable[None]: ...


class PopLoop:
    """Pop loop. `run` until cancelled; `close` afterwards, when the listener's calls have ended."""

    def __init__(
        self,
        group: str,
        assigned: MessageQueue,
        popping: Popping,
        *,
        subscription: Callable[[], SubscriptionData | None],
        wanted: Callable[[list[StoredMessage], SubscriptionData], list[StoredMessage]],
        deliver: Callable[[PoppedQueue, list[StoredMessage]], None],
        bury: Bury,
        resumed: asyncio.Event,
        stats: ConsumeStats,
        batch: int,
        invisible_s: float,
        held_max: int,
        attempts_max: int,
    ) -> None:
        self._group, self._assigned, self._popping = group, assigned, popping
        self._place = Place(assigned.topic, assigned.broker_name)
        self._subscription, self._wanted, self._deliver, self._bury = subscription, wanted, deliver, bury
        self._resumed, self._stats = resumed, stats
        self._batch, self._invisible_s = min(batch, POP_MAX), invisible_s
        self._held_max, self._attempts_max = min(held_max, HELD_MAX), attempts_max
        self._live: dict[PoppedQueue, asyncio.TimerHandle] = {}
        self._acks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._complained = ""

    @property
    def held(self) -> int:
        """Return how many messages are unfinished."""
        return sum(popped.progress.count for popped in self._live)

    async def run(self) -> None:
        while True:
            await self._resumed.wait()
            while self.held >= self._held_max:
                self._room.clear()
                await self._room.wait()
            subscription = self._subscription()
            if subscription is None:  # unsubscribed: the next rebalance ends this loop
                return
            pause_s = await self._pop(subscription)
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _pop(self, subscription: SubscriptionData) -> float:
        """Pop once; return the seconds to wait before the next pop."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            found = await self._popping.pop(
                self._place,
                subscription,
                count=self._batch,
                invisible_ms=round(self._invisible_s * 1_000),
                wait_ms=WAIT_MS,
                queue_id=self._assigned.queue_id,
            )
        except MQError as error:
            if self._complained != str(error):
                self._complained = str(error)
                logger.warning("group %s: popping from %s failed, retrying: %s", self._group, self._assigned, error)
            return ERROR_S
        self._complained = ""
        if not found:
            return EMPTY_S if loop.time() - began < EMPTY_S else 0.0
        totals = self._stats.of(self._assigned.topic, began).totals
        totals.pulls, totals.pulled = totals.pulls + 1, totals.pulled + len(found)
        totals.pull_s += loop.time() - began
        matching = self._wanted(found, subscription)
        if len(matching) < len(found):  # a broker compares only hash codes of tags
            for message in found:
                if message not in matching:
                    self._acknowledge(message)
        self._hand_over(matching, began + self._invisible_s)
        return 0.0

    def _hand_over(self, messages: list[StoredMessage], ends: float) -> None:
        """Give *messages* to the listener, those of each queue apart: offsets are those of a queue."""
        by_queue: dict[tuple[str, int], list[StoredMessage]] = {}
        for message in messages:
            by_queue.setdefault((receipt_of(message).mark, message.queue_id), []).append(message)
        now_ms, loop = wall_ms(), asyncio.get_running_loop()
        for (_, queue_id), some in by_queue.items():
            some.sort(key=lambda message: message.queue_offset)
            queue = MessageQueue(self._assigned.topic, self._assigned.broker_name, queue_id)
            popped = PoppedQueue(queue, some, self._acknowledge, home=self, now_ms=now_ms)
            self._live[popped] = loop.call_at(ends, self._expired, popped)
            self._deliver(popped, some)

    def _expired(self, popped: PoppedQueue) -> None:
        if popped.progress.count:
            logger.warning(
                "group %s: %d messages of %s were not finished within %.0f s and come again: the listener is too slow"
                " for pop_invisible_s",
                self._group,
                popped.progress.count,
                popped.queue,
                self._invisible_s,
            )
        self._forget(popped)
        popped.drop()

    def progressed(self, popped: PoppedQueue) -> None:
        """Note that messages of *popped* are finished."""
        if not popped.progress.count:
            self._forget(popped)
        self._room.set()

    def _forget(self, popped: PoppedQueue) -> None:
        timer = self._live.pop(popped, None)
        if timer is not None:
            timer.cancel()
        self._room.set()

    # Acknowledgements and failures

    def _acknowledge(self, message: StoredMessage) -> None:
        task = asyncio.create_task(self._ack(message))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def _ack(self, message: StoredMessage) -> None:
        try:
            await self._popping.acknowledge(message, self._assigned.topic)
        except MQError as error:
            logger.warning(
                "group %s: message %s could not be acknowledged and comes again: %s",
                self._group,
                message.message_id,
                error,
            )

    async def retry(self, popped: PoppedQueue, message: StoredMessage, delay_level: int) -> None:
        """Have a failed *message* delivered again later, or make it a dead letter."""
        if delay_level == DEAD_LETTER or message.reconsume_times >= self._attempts_max:
            await self._bury(message, self._assigned.topic, self._assigned.broker_name)
            return  # finishing it acknowledges it
        await self._popping.change(message, self._assigned.topic, again_ms(message.reconsume_times, delay_level))
        popped.popped.give_back(message)

    async def close(self) -> None:
        """Wait for acknowledgements, and have messages that the listener did not finish delivered at once."""
        left = [message for popped in self._live for message in popped.popped.unfinished()]
        for popped in list(self._live):
            self._forget(popped)
            popped.drop()
        backs = [asyncio.create_task(self._give_back(message)) for message in left]
        if tasks := [*self._acks, *backs]:
            _, late = await asyncio.wait(tasks, timeout=GIVE_BACK_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _give_back(self, message: StoredMessage) -> None:
        try:
            await self._popping.change(message, self._assigned.topic, 0)
        except MQError as error:
            logger.debug("group %s: message %s comes again later: %s", self._group, message.message_id, error)
