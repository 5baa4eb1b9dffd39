"""Which queues of its topics a member of a group has: worked out at the start, on notice, and every 20 s.

Broadcasting members have all queues. Members that share ask a broker who they are, and divide the queues, each for
itself, by the same rule. What could not be worked out or taken is tried again after a second, then less and less
often: a queue that nobody consumes is worse than a question too many.

Agrees with Java's RebalanceImpl. What it means to take and to drop a queue is the consumer's business.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from typing import Final, Protocol

from hanabi.client.consumer.allocate import Allocate, sort_client_ids, sort_queues
from hanabi.client.core import Core
from hanabi.client.namespace import RETRY_PREFIX
from hanabi.client.routes import Route
from hanabi.errors import ConnectError, MQError
from hanabi.message import MessageQueue

RETRY_S: Final = 1.0  # after the first time that something was missing; then twice as long each time
RETRY_S_MAX: Final = 20.0

logger = logging.getLogger(__name__)


class Shares(Protocol):
    """The queues that a consumer has."""

    async def share(self, topic: str, assigned: set[MessageQueue]) -> bool:
        """Take and drop queues of *topic* until it has those *assigned*. False: not yet, ask again soon."""
        ...

    def keep_topics(self, topics: Collection[str]) -> None:
        """Drop the queues of all other topics."""
        ...


def retry_delay(failures: int) -> float:
    """How long to wait when it was incomplete so many times in a row. Pure."""
    return min(RETRY_S_MAX, RETRY_S * 2.0 ** min(failures - 1, 10))


class Rebalance:
    """For one member of one group. `run` until cancelled; `soon` asks for a turn."""

    def __init__(
        self,
        core: Core,
        group: str,
        *,
        topics: Callable[[], Collection[str]],
        shares: Shares,
        allocate: Allocate,
        broadcasting: bool,
    ) -> None:
        self._core, self._group = core, group
        self._topics, self._shares, self._allocate, self._broadcasting = topics, shares, allocate, broadcasting
        self._wanted = asyncio.Event()
        self._complaints: dict[str, str] = {}

    def soon(self) -> None:
        """Share the queues anew; returns at once, and many calls are one."""
        self._wanted.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._wanted.clear()
            failures = 0 if await self._once() else failures + 1
            try:
                async with asyncio.timeout(retry_delay(failures) if failures else None):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _once(self) -> bool:
        complete = True
        topics = list(self._topics())
        self._shares.keep_topics(topics)
        for topic in topics:
            try:
                complete = await self._topic(topic) and complete
            except MQError as error:
                complete = False
                self._complain(topic, error)
            except Exception:
                complete = False
                logger.exception("group %s: sharing the queues of %s failed", self._group, topic)
            else:
                self._complaints.pop(topic, None)
        return complete

    async def _topic(self, topic: str) -> bool:
        route = await self._core.routes.find(topic)
        queues = sort_queues(route.read_queues)
        if self._broadcasting or not queues:
            return await self._shares.share(topic, set(queues))
        client_ids = await self._members(topic, route)
        if self._core.client_id not in client_ids:
            # A broker that restarted has forgotten us, and the others divide the queues without us.
            await self._core.heartbeat_now()
            client_ids = await self._members(topic, route)
        share = set(self._allocate(self._core.client_id, queues, sort_client_ids(client_ids)))
        complete = await self._shares.share(topic, share)
        return complete and self._core.client_id in client_ids

    async def _members(self, topic: str, route: Route) -> list[str]:
        """The ids of the group's members, from any broker of the topic that answers."""
        names = random.sample(sorted(route.brokers), len(route.brokers))
        failure: MQError | None = None
        for name in names:
            address = route.address_of(name)
            if address is None:
                continue
            try:
                return await self._core.api.consumer_ids(address, self._group, self._core.config.request_timeout_s)
            except MQError as error:
                failure = error
        raise failure or ConnectError(f"topic {topic} has no broker that could be asked for the group's members")

    def _complain(self, topic: str, error: MQError) -> None:
        """Once for each reason. A retry topic is made by the broker, and may well not be there for a moment."""
        text = str(error)
        if self._complaints.get(topic) == text:
            return
        self._complaints[topic] = text
        level = logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING
        logger.log(level, "group %s: the queues of %s are not shared, trying again: %s", self._group, topic, error)
