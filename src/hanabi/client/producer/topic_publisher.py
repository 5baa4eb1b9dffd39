"""Targets for messages of each topic: the route, the next queue, and the brokers that have yet to create the topic.

Reads the routes and never sends. `known` runs for every message and does not wait; `find` does. Agrees with Java's
TopicPublishInfo and DefaultMQProducerImpl.tryToFindTopicPublishInfo.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from typing import Final

from hanabi.client.cluster.routes import Route, Routes, describe
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.routing.fault_tolerance import FaultTolerance
from hanabi.client.producer.routing.queue_choice import QueueChoice
from hanabi.client.producer.routing.topic_creation import TopicCreation
from hanabi.errors import MQError, SendFailed
from hanabi.message import MessageQueue

DOUBT_SECONDS: Final = 1.0  # a doubtful route is refreshed at most once in this time, however many sends fail

logger = logging.getLogger(__name__)


def why_unwritable(route: Route) -> str:
    """Return the reason why a route has no queue that can be written. Pure."""
    slaves_only = sorted(name for name in route.brokers if route.master_of(name) is None)
    if not slaves_only:
        return "the topic or its brokers are read-only"
    return f"{', '.join(slaves_only)} has no master now, only slaves, which store nothing; is it down?"


class TopicPublisher:
    """Targets for messages of one topic, for as long as its route does not change.

    `queues` have the names that the program uses, without a namespace. *first* are the brokers that have yet to create
    the topic, with the route that has their addresses: the topic's own route may not have them yet.
    """

    def __init__(
        self,
        route: Route,
        queues: list[MessageQueue],
        choice: QueueChoice,
        first: tuple[TopicCreation, Route] | None = None,
    ) -> None:
        self.route, self.queues = route, queues
        self._choice = choice
        self.first = first

    def next(self) -> MessageQueue:
        """Return the queue of the next message."""
        if self.first is not None and (queue := self.first[0].next()) is not None:
            return queue
        return self._choice.next()

    def another(self, tried: Collection[str]) -> MessageQueue:
        """Return a queue of a broker that is not among *tried*, if there is one."""
        return self._choice.next(tried)

    def at(self, broker_name: str) -> MessageQueue | None:
        """Return any queue of this broker."""
        return next((queue for queue in self.queues if queue.broker_name == broker_name), None)

    def master_of(self, broker_name: str) -> str | None:
        """Return the address for messages to this broker."""
        address = self.route.master_of(broker_name)
        if address is None and self.first is not None:
            return self.first[1].master_of(broker_name)
        return address

    def answered(self, broker_name: str) -> None:
        """Record that the broker responded or failed: if it had yet to create the topic, it had its chance."""
        if self.first is not None:
            self.first[0].mark_tried(broker_name)
            if self.first[0].over and not self.route.is_default:
                self.first = None

    @property
    def is_outdated(self) -> bool:
        """Return True once the brokers have created the topic, so that it has its own route."""
        return self.route.is_default and (self.first is None or self.first[0].over)


class TopicPublishers:
    """Targets of all topics of one producer. *unwrap* removes the namespace from a topic."""

    def __init__(
        self,
        routes: Routes,
        settings: ProducerConfig,
        faults: FaultTolerance | None,
        unwrap: Callable[[str], str],
        *,
        random_below: Callable[[int], int] = random.randrange,
    ) -> None:
        self._routes, self._settings, self._faults = routes, settings, faults
        self._unwrap, self._random_below = unwrap, random_below
        self._by_topic: dict[str, TopicPublisher] = {}
        self._doubted: dict[str, asyncio.Task[None]] = {}
        self._doubted_at: dict[str, float] = {}

    def known(self, topic: str) -> TopicPublisher | None:
        """Return the targets of *topic* if they are known; None: call `find`."""
        found = self._by_topic.get(topic)
        route = self._routes.known(topic)
        if found is None:
            return None
        if found.route is route:
            return found
        if route is None:
            return None if found.is_outdated else found
        return self._take(topic, route) if route.write_queues else None

    async def find(self, topic: str) -> TopicPublisher:
        """Find the targets of *topic*. Queries the name servers, with the default topic as fallback for a missing
        one.
        """
        route = await self._find(topic, fresh=False)
        if not route.write_queues:  # its only master may be back by now
            route = await self._find(topic, fresh=True)
        if not route.write_queues:
            raise SendFailed(
                f"no queue of topic {topic} can be written: {why_unwritable(route)}. Its route is"
                f" {describe(route) or 'empty'}",
                topic=self._unwrap(topic),
            )
        return self._take(topic, route)

    async def _find(self, topic: str, *, fresh: bool) -> Route:
        settings = self._settings
        return await self._routes.find(
            topic,
            allow_default=True,
            fresh=fresh,
            default_topic=settings.default_topic,
            default_queues=settings.default_topic_queues,
        )

    def _take(self, topic: str, route: Route) -> TopicPublisher:
        old = self._by_topic.get(topic)
        if old is not None and old.route is route:
            return old
        name = self._unwrap(topic)
        queues = route.write_queues
        if name != topic:
            queues = [MessageQueue(name, queue.broker_name, queue.queue_id) for queue in queues]
        first = old.first if old is not None else None
        if first is not None and first[0].over and not route.is_default:
            first = None
        if first is None and route.is_default:
            first = (TopicCreation(queues), route)
        # The name server fixes the queues of an ordered topic, also those of brokers without a master.
        served = [queue for queue in queues if route.master_of(queue.broker_name) is not None] or queues
        choice = QueueChoice(served, self._random_below(len(served)), self._faults)
        taken = self._by_topic[topic] = TopicPublisher(route, queues, choice, first)
        return taken

    def doubt(self, topic: str) -> None:
        """Refresh the route in the background, after a failure that a stale route may have caused."""
        now = asyncio.get_running_loop().time()
        if topic in self._doubted or now - self._doubted_at.get(topic, -DOUBT_SECONDS) < DOUBT_SECONDS:
            return
        self._doubted_at[topic] = now
        task = asyncio.ensure_future(self._ask_again(topic))
        self._doubted[topic] = task
        task.add_done_callback(lambda _: self._doubted.pop(topic, None))

    async def _ask_again(self, topic: str) -> None:
        try:
            await self._routes.find(topic, fresh=True)
        except MQError as error:
            logger.info("the route of topic %s may be stale and could not be refreshed: %s", topic, error)

    async def close(self) -> None:
        if tasks := list(self._doubted.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
