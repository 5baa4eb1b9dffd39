"""Running lite pull consumer, between start and shutdown: connects its parts.

    rebalance, or assign ──> fetching ──> poll
                                │
                             offsets

Names of topics and groups are those on the wire. Contains little logic of its own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess
from hanabi.client.cluster.routes import Route
from hanabi.client.consumer.config.pull_config import LitePullConfig
from hanabi.client.consumer.group.rebalance import Rebalance
from hanabi.client.consumer.group.start_checks import check_subscriptions
from hanabi.client.consumer.offsets.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from hanabi.client.consumer.offsets.start_point import StartPoint
from hanabi.client.consumer.pull.fetching import Fetching
from hanabi.client.consumer.pull.lite_member import LiteMember
from hanabi.client.consumer.pull_request import Pulling, PullResult
from hanabi.errors import MQError
from hanabi.message import MessageQueue, StoredMessage
from hanabi.wire.bodies.heartbeat import SubscriptionData

logger = logging.getLogger(__name__)

QueuesChanged = Callable[[str, set[MessageQueue]], object]


class LiteSession:
    """One run of a lite pull consumer: construct, `open`, `close`.

    *subscriptions* (topics with shared queues) and *filters* (topics with assigned queues) are by topic and may change
    meanwhile. *rebalanced* is called with a topic, all its queues, and those that are this member's now.
    """

    def __init__(
        self,
        core: Core,
        group: str,
        settings: LitePullConfig,
        *,
        subscriptions: Mapping[str, SubscriptionData],
        filters: Mapping[str, SubscriptionData],
        rebalanced: Callable[[str, set[MessageQueue], set[MessageQueue]], None],
    ) -> None:
        self._core, self._group, self._settings = core, group, settings
        self._subscriptions, self._filters, self._rebalanced = subscriptions, filters, rebalanced
        self.ended = False
        self.ask = QueueAccess(core)
        self.offsets: OffsetStore = (
            LocalOffsets.of(core.config, group) if settings.broadcasting else RemoteOffsets(core, group)
        )
        self._start_point = StartPoint(core, self.offsets, settings.consume_from)
        self._pulling = Pulling(core, group, lite=True, tells_subscription=True)
        self.fetching = Fetching(
            group,
            start_offset=self._start_offset,
            pull=self._pull,
            limits=settings.limits,
            messages_max=settings.messages_max,
        )
        self._rebalance = Rebalance(
            core,
            group,
            topics=lambda: self._subscriptions,
            shares=self,
            allocate=settings.allocate,
            broadcasting=settings.broadcasting,
        )
        self._member = LiteMember(
            group,
            broadcasting=settings.broadcasting,
            consume_from=settings.consume_from,
            unit_mode=settings.unit_mode,
            subscriptions=lambda: list(self._subscriptions.values()),
            queues=lambda: self.fetching.queues,
            persist=self.persist,
            rebalance_soon=self._rebalance.soon,
            reset=self._reset,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._sharing: asyncio.Task[None] | None = None
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._watched: dict[str, tuple[frozenset[MessageQueue] | None, list[QueuesChanged]]] = {}

    # Open and close

    async def open(self) -> None:
        """Join the group. Refusals by brokers are raised; unreachable brokers are retried until they answer."""
        await self.offsets.load()
        await check_subscriptions(self._core, self._group, (*self._subscriptions.values(), *self._filters.values()))
        await self._core.add_consumer(self._group, self._member)
        self._core.routes.on_change.append(self._route_changed)
        if self._subscriptions:
            self._share()

    async def close(self) -> None:
        """Stop fetching, save settled offsets, and leave."""
        self.ended = True
        if self._route_changed in self._core.routes.on_change:
            self._core.routes.on_change.remove(self._route_changed)
        try:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            await self.fetching.close()
            if self._leaving:
                await asyncio.wait(list(self._leaving.values()))
            await self._save(list(self.fetching.queues))
        except asyncio.CancelledError:
            await self.fetching.close()
            raise
        finally:
            self.offsets.close()
            await self._core.remove_consumer(self._group)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{self._group} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Queues of this member

    def _share(self) -> None:
        if self._sharing is None:
            self._sharing = self._begin(self._rebalance.run(), "shares queues")

    def subscriptions_changed(self) -> None:
        """Send the subscriptions to the brokers, and rebalance new topics."""
        self._share()
        self._begin(self._announce(), "announces its subscriptions")

    async def _announce(self) -> None:
        with contextlib.suppress(MQError):  # the next heartbeat carries it, and the core has logged the failure
            await self._core.heartbeat_now()
        self._rebalance.soon()

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """Fetch from exactly these queues."""
        for queue in list(self.fetching.queues):
            if queue not in queues:
                self._drop(queue)
        self.fetching.take_on(sorted(queues))

    async def share(self, topic: str, assigned: set[MessageQueue]) -> bool:
        """Take and drop queues of *topic* as *assigned* by rebalance."""
        before = {queue for queue in self.fetching.queues if queue.topic == topic}
        for queue in before - assigned:
            self._drop(queue)
        self.fetching.take_on(sorted(assigned - before))
        if before != assigned:
            route = self._core.routes.known(topic)
            self._rebalanced(topic, set(route.read_queues) if route else set(assigned), assigned)
        return True

    def keep_topics(self, topics: Collection[str]) -> None:
        for queue in list(self.fetching.queues):
            if queue.topic not in topics:
                self._drop(queue)

    def _drop(self, queue: MessageQueue) -> None:
        self.fetching.drop(queue)
        before = self._leaving.get(queue)
        task = asyncio.create_task(self._goodbye(queue, before), name=f"{self._group} lets go of {queue}")
        self._leaving[queue] = task
        task.add_done_callback(lambda done: self._left(queue, done))

    async def _goodbye(self, queue: MessageQueue, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        await self._save([queue])

    def _left(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        if self._leaving.get(queue) is task:
            del self._leaving[queue]
        if queue not in self.fetching.queues:
            self.offsets.remove(queue)
            self._pulling.forget(queue)

    async def _start_offset(self, queue: MessageQueue) -> int:
        if (leaving := self._leaving.get(queue)) is not None:
            await asyncio.wait((leaving,))  # a queue that comes back continues at its old offset, once that is saved
        self.offsets.remove(queue)  # outdated since we last had the queue
        return await self._start_point.offset(queue)

    def _reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if queue in self.fetching.queues:
                self.fetching.seek(queue, offset)
                self.offsets.update(queue, offset, increase_only=False)

    # Messages and offsets

    async def _pull(self, queue: MessageQueue, offset: int) -> PullResult:
        subscription = self._subscriptions.get(queue.topic) or self._filters.get(queue.topic)
        if subscription is None:  # unsubscribed: the next rebalance takes the queue away
            raise MQError(f"topic {queue.topic} is not subscribed to any more")
        settings = self._settings
        return await self._pulling.pull(queue, offset, subscription, count=settings.pull_batch, hold_s=settings.hold_s)

    def take(self, count: int) -> list[StoredMessage]:
        """Return held messages, at most *count*. With automatic commits, the previously taken ones count as
        consumed.
        """
        if self._settings.auto_commit and self.fetching.moved:
            self.settle()
        return self.fetching.take(count)

    def settle(self) -> None:
        """Mark everything taken as consumed."""
        for fetched in self.fetching.moved:
            done = fetched.settle()
            if done is not None:
                self.offsets.update(fetched.queue, done, increase_only=False)
        self.fetching.moved.clear()

    async def persist(self) -> None:
        """Save settled offsets."""
        if self.fetching.queues:
            await self.offsets.persist(list(self.fetching.queues))

    async def _save(self, queues: Iterable[MessageQueue]) -> None:
        try:
            await self.offsets.persist(queues, confirmed=True)
        except MQError as error:
            logger.warning("group %s: offsets were not saved, so messages will be redelivered: %s", self._group, error)

    # Changes of queues

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        return (await self._core.routes.find(topic, fresh=True)).read_queues

    def watch(self, topic: str, callback: QueuesChanged) -> None:
        """Call *callback* whenever the queues of *topic* change."""
        route = self._core.routes.known(topic)
        seen, callbacks = self._watched.get(topic, (None, []))
        self._watched[topic] = (frozenset(route.read_queues) if route else seen, [*callbacks, callback])
        if route is None:
            self._begin(self._find(topic), f"looks for {topic}")

    async def _find(self, topic: str) -> None:
        """Find the route of *topic*. Known routes are kept fresh; changes are reported to `_route_changed`."""
        with contextlib.suppress(MQError):  # a consumer that assigns its queues gets the error there
            await self._core.routes.find(topic)

    def _route_changed(self, topic: str, route: Route | None) -> None:
        if topic not in self._watched:
            return
        seen, callbacks = self._watched[topic]
        now = frozenset(route.read_queues) if route else frozenset[MessageQueue]()
        self._watched[topic] = (now, callbacks)
        if seen is None or seen == now:
            return
        for callback in callbacks:
            try:
                callback(topic, set(now))
            except Exception:
                logger.exception("group %s: the listener for the queues of %s failed", self._group, topic)
