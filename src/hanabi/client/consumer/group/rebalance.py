"""Rebalance: computes this member's queues at the start, on notice, and every 20 s.

Broadcasting members have all queues. Sharing members ask a broker for the member list; each divides the queues by the
same rule. A failed rebalance or take is retried soon, then with growing delays: an unconsumed queue is worse than a
superfluous request.

Agrees with Java's RebalanceImpl. The consumer implements taking and dropping a queue.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple, Protocol, TypeVar

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import Route
from hanabi.client.cluster.unresponsive_brokers import PassedOver
from hanabi.client.consumer.group.allocate import Allocate, sort_client_ids, sort_queues
from hanabi.client.consumer.group.broker_share import BrokersChoice, BrokerShare
from hanabi.client.for_each import for_each
from hanabi.errors import ConnectError, MQError, RequestCodeNotSupported
from hanabi.message import MessageQueue
from hanabi.wire.system_names import RETRY_PREFIX

RETRY_S: Final = 0.2  # after the first incomplete rebalance; doubles each time
RETRY_S_MAX: Final = 20.0  # limit while brokers or name servers do not answer
HANDOVER_S: Final = 0.2  # one or two round trips between a broker and the queue's last owner
TAKE_S_MAX: Final = 1.0  # limit while a queue could not be taken: its last owner may release it at any moment

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Shares(Protocol):
    """The queues of one consumer."""

    async def share(self, topic: str, assigned: set[MessageQueue]) -> bool:
        """Take and drop queues of *topic* until they match *assigned*. False: not complete, retry soon."""
        ...

    def keep_topics(self, topics: Collection[str]) -> None:
        """Drop the queues of all other topics."""
        ...


def retry_delay(failures: int, longest: float) -> float:
    """Return the delay after this many incomplete rebalances in a row. Pure."""
    return min(longest, RETRY_S * 2.0 ** min(failures - 1, 10))


class Assignment(NamedTuple):
    """This member's queues of a topic. `is_member`: the brokers know us; `has_others`: the group has more members."""

    queues: set[MessageQueue]
    is_member: bool = True
    has_others: bool = False


class Rebalance:
    """Rebalance of one member of one group. `run` until cancelled; `soon` requests a turn."""

    def __init__(
        self,
        core: Core,
        group: str,
        *,
        topics: Callable[[], Collection[str]],
        shares: Shares,
        allocate: Allocate,
        broadcasting: bool,
        handover_s: float = HANDOVER_S,
        broker: "tuple[BrokerShare, Shares] | None" = None,
    ) -> None:
        """*broker*, if given, decides: the first part asks a broker, the second has the queues to pop."""
        self._broker = broker
        self._core, self._group, self._handover_s = core, group, handover_s
        self._had: dict[str, set[MessageQueue]] = {}  # the last assignment
        self._topics, self._shares, self._allocate, self._broadcasting = topics, shares, allocate, broadcasting
        self._wanted = asyncio.Event()
        self._complaints: dict[str, str] = {}

    def soon(self) -> None:
        """Request a rebalance; returns at once, and calls coalesce."""
        self._wanted.set()

    async def run(self) -> None:
        failures, again = 0, None
        while True:
            self._wanted.clear()
            late = await self._once(again)
            failures = failures + 1 if late else 0
            again = None
            try:
                async with asyncio.timeout(retry_delay(failures, min(late.values())) if late else None):
                    await self._wanted.wait()
            except TimeoutError:
                again = late.keys()

    async def _once(self, only: Collection[str] | None) -> dict[str, float]:
        """Settle all topics, or *only* these. Return the incomplete topics, each with the longest delay before its
        retry.
        """
        topics = list(self._topics())
        self._shares.keep_topics(topics)
        if self._broker is not None:
            self._broker[1].keep_topics(topics)
        self._had = {topic: queues for topic, queues in self._had.items() if topic in topics}
        chosen = [topic for topic in topics if only is None or topic in only]
        # concurrently: a topic with a hanging broker does not delay the rest
        waits = await for_each(self._settle, chosen)
        return {topic: wait for topic, wait in zip(chosen, waits, strict=True) if wait is not None}

    async def _settle(self, topic: str) -> float | None:
        """Rebalance *topic*; return None if it is complete, else the longest delay before the retry."""
        if (broker := self._broker) is not None:
            try:
                return await self._settle_by_broker(topic, *broker)
            except RequestCodeNotSupported as error:
                logger.warning("group %s: the members share the queues themselves: %s", self._group, error)
                broker[1].keep_topics(())
                self._broker = None
        assignment = await self._attempt(topic, self._assignment(topic))
        if assignment is None:
            return RETRY_S_MAX
        await self._hand_over(topic, assignment)
        taken = await self._attempt(topic, self._shares.share(topic, assignment.queues))
        self._had[topic] = assignment.queues
        return None if taken and assignment.is_member else TAKE_S_MAX

    async def _settle_by_broker(self, topic: str, asking: BrokerShare, pops: Shares) -> float | None:
        choice: BrokersChoice | None
        try:
            choice = await asking.ask(topic)
        except RequestCodeNotSupported:
            raise
        except MQError as error:
            self._complain(topic, error)
            return RETRY_S_MAX
        if choice is None:
            return TAKE_S_MAX
        await self._hand_over(topic, Assignment(choice.pulls, has_others=True))
        popped = await self._attempt(topic, pops.share(topic, choice.pops))
        taken = await self._attempt(topic, self._shares.share(topic, choice.pulls))
        self._had[topic] = choice.pulls
        return None if taken and popped else TAKE_S_MAX

    async def _attempt(self, topic: str, work: Awaitable[T]) -> T | None:
        """Return the result of *work*; None if it failed."""
        try:
            result = await work
        except MQError as error:
            self._complain(topic, error)
            return None
        except Exception:
            logger.exception("group %s: rebalancing the queues of %s failed", self._group, topic)
            return None
        self._complaints.pop(topic, None)
        return result

    async def _hand_over(self, topic: str, assignment: Assignment) -> None:
        """Release queues that now belong to other members, and give the previous owners of our new queues a moment to
        commit their offsets: uncommitted messages would be consumed twice.
        """
        had = self._had.get(topic, set())
        if self._handover_s and assignment.has_others and assignment.queues - had:
            await self._attempt(topic, self._shares.share(topic, assignment.queues & had))
            await asyncio.sleep(self._handover_s)

    async def _assignment(self, topic: str) -> Assignment:
        route = await self._core.routes.find(topic)
        queues = sort_queues(route.read_queues)
        if self._broadcasting or not queues:
            return Assignment(set(queues))
        client_id = self._core.client_id
        address, client_ids = await self._members(topic, route)
        if client_id not in client_ids:
            # A restarted broker has forgotten us, and the remaining members divide the queues without us.
            await self._core.heartbeat_to(address)
            _, client_ids = await self._members(topic, route)
        share = set(self._allocate(client_id, queues, sort_client_ids(client_ids)))
        return Assignment(share, is_member=client_id in client_ids, has_others=len(client_ids) > 1)

    async def _members(self, topic: str, route: Route) -> tuple[str, list[str]]:
        """Return the ids of the group's members, from any broker of the topic that answers, and that broker's
        address.
        """
        failure: MQError | None = None
        for name in random.sample(sorted(route.brokers), len(route.brokers)):
            address = route.address_of(name)
            if address is None:
                continue
            try:
                self._core.api.silent.pass_over(address)
                return address, await self._core.api.consumer_ids(
                    address, self._group, self._core.config.request_timeout_s
                )
            except MQError as error:
                failure = error
        raise failure or ConnectError(f"topic {topic} has no broker that could return the group's members")

    def _complain(self, topic: str, error: MQError) -> None:
        """Log each reason once. A retry topic is created by the broker and may be missing for a moment."""
        text = str(error)
        if self._complaints.get(topic) == text:
            return
        self._complaints[topic] = text
        quiet = topic.startswith(RETRY_PREFIX) or isinstance(error, PassedOver)
        level = logging.DEBUG if quiet else logging.WARNING
        logger.log(level, "group %s: the queues of %s could not be rebalanced, retrying: %s", self._group, topic, error)
