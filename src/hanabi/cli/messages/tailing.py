"""The work of `hanabi tail`: pull every queue of a topic and show its messages, without joining a group.

No heartbeat, no membership, no offset saved: each pull carries its own subscription, under the name of the group that
brokers keep for tools. So no group notices, and a broker forgets us with the last pull.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.cli.messages.stopping import stop_signals, until
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.cluster.routes import Route, describe
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.pull_request import Pulling, PullStatus, restored
from hanabi.client.consumer.subscription import Expression, subscription_data
from hanabi.client.namespace import wrap
from hanabi.errors import MQError, NoPermission
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.system_names import TOOLS_GROUP

AGAIN_SECONDS: Final = 1.0  # after a failure that may pass

logger = logging.getLogger(__name__)


class Start(msgspec.Struct, frozen=True):
    """The start: the first message, the end, or messages stored at this time or later."""

    first: bool = False
    since_ms: int | None = None


class Tail:
    """Shows the messages of *topic*, as they come, until `count` of them were shown or a signal came."""

    def __init__(
        self,
        config: ClientConfig,
        topic: str,
        expression: Expression,
        start: Start,
        *,
        count: int | None,
        show: Callable[[StoredMessage], None],
        on_ready: Callable[[list[MessageQueue]], None],
    ) -> None:
        self._config, self._topic = config, wrap(config.namespace, topic)
        self._subscription: SubscriptionData = subscription_data(self._topic, expression, 0)
        self._start = start
        self._left = count
        self._show, self._on_ready = show, on_ready
        self._queues: dict[MessageQueue, asyncio.Task[None]] = {}
        self._new_route = asyncio.Event()

    async def run(self) -> None:
        """Pull until the end; raise errors that will not pass."""
        with stop_signals() as stopped:
            core = await Core.acquire(self._config)
            try:
                await until(stopped, self._follow(core))
            finally:
                await self._end_queues()
                await core.release()

    async def _end_queues(self) -> None:
        for task in self._queues.values():
            task.cancel()
        # What several of them raise for one reason was told once.
        await asyncio.gather(*self._queues.values(), return_exceptions=True)

    async def _follow(self, core: Core) -> None:
        route = await core.routes.find(self._topic)
        if not route.read_queues:
            raise NoPermission(f"topic {self._topic} has no queue that may be read: {describe(route)}")
        core.routes.on_change.append(lambda *_: self._new_route.set())
        pulling = Pulling(core, TOOLS_GROUP, tells_subscription=True)
        starts = await asyncio.gather(*(self._first_offset(core, queue) for queue in route.read_queues))
        for queue, offset in zip(route.read_queues, starts, strict=True):
            self._begin(core, pulling, queue, offset)
        self._on_ready(route.read_queues)
        while self._left != 0:
            self._new_route.clear()
            changed = asyncio.create_task(self._new_route.wait())
            try:
                await asyncio.wait((changed, *self._queues.values()), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            self._look_after_queues(core, pulling, core.routes.known(self._topic))

    def _look_after_queues(self, core: Core, pulling: Pulling, route: Route | None) -> None:
        """Raise what ended a queue's task, and begin with queues that are new: from their first message on."""
        for queue, task in list(self._queues.items()):
            if task.done():
                del self._queues[queue]
                task.result()
        if route is not None and self._left != 0:
            for queue in route.read_queues:
                if queue not in self._queues:
                    self._begin(core, pulling, queue, 0)

    def _begin(self, core: Core, pulling: Pulling, queue: MessageQueue, offset: int) -> None:
        self._queues[queue] = asyncio.create_task(self._pull_for_ever(core, pulling, queue, offset))

    async def _first_offset(self, core: Core, queue: MessageQueue) -> int:
        access = QueueAccess(core)
        if not self._start.first and self._start.since_ms is None:
            return await access.end_offset(queue)
        return await access.start_offset(queue, self._start.since_ms)  # older messages are not shown

    async def _pull_for_ever(self, core: Core, pulling: Pulling, queue: MessageQueue, offset: int) -> None:
        while self._left != 0:
            try:
                result = await pulling.pull(queue, offset, self._subscription)
            except MQError as error:
                if not error.retriable:
                    raise
                logger.warning("%s; trying again", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            is_empty = result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset == offset
            if is_empty or result.stands_still(offset):  # a queue lost its messages, or a slave has not got them yet
                await asyncio.sleep(AGAIN_SECONDS)
            offset = result.next_offset
            for message in result.messages:
                self._shown(restored(message, self._config.namespace))

    def _shown(self, message: StoredMessage) -> None:
        if self._left == 0 or message.store_timestamp_ms < (self._start.since_ms or 0):
            return
        if self._left is not None:
            self._left -= 1
        self._show(message)
