"""Questions to brokers that answer for as many as answer: a silent broker is named, and the others are shown."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from hanabi.admin import Admin, BrokerAt
from hanabi.admin.access import each
from hanabi.admin.groups import GroupMembers, QueueProgress, members_of, progress_of
from hanabi.admin.topics import QueueStatus
from hanabi.errors import MQError, TransportError
from hanabi.wire.bodies.groups import GroupList, SubscriptionGroupConfig
from hanabi.wire.bodies.stats import ConsumeStatsList
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.admin import GetBrokerConsumeStatsHeader
from hanabi.wire.headers.topic import QueryTopicConsumeByWhoHeader

T = TypeVar("T")
SILENT_MS: Final = 10_000


class Part(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Answers of the brokers that gave one, and why the others did not."""

    found: list[tuple[BrokerAt, T]]
    missing: dict[str, str]  # broker name: reason

    @property
    def complete(self) -> bool:
        return not self.missing


class SilentBrokers:
    """Brokers that did not answer a moment ago: they are not asked again at once, so they hold up no other question."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._until: dict[str, tuple[int, str]] = {}

    def why(self, broker: BrokerAt) -> str | None:
        """Return why a broker is not asked now; None if it is."""
        until, reason = self._until.get(broker.address, (0, ""))
        return reason if self._now_ms() < until else None

    def note(self, broker: BrokerAt, reason: str) -> None:
        """Record that a broker did not answer."""
        self._until[broker.address] = (self._now_ms() + SILENT_MS, reason)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a group, as far as brokers answered. `lag` is None if no broker did."""

    lag: int | None
    consume_tps: float | None
    queues: list[QueueProgress]
    missing: dict[str, str]


class Reading:
    """Questions of the pages about topics and groups."""

    def __init__(self, admin: Admin, now_ms: Callable[[], int]) -> None:
        self._admin, self._silent = admin, SilentBrokers(now_ms)

    async def _of_brokers(self, brokers: Iterable[BrokerAt], ask: Callable[[BrokerAt], Awaitable[T]]) -> Part[T]:
        found: list[tuple[BrokerAt, T]] = []
        missing: dict[str, str] = {}

        async def one(broker: BrokerAt) -> None:
            if reason := self._silent.why(broker):
                missing[broker.broker] = reason
                return
            try:
                found.append((broker, await ask(broker)))
            except MQError as error:
                missing[broker.broker] = str(error)
                if isinstance(error, TransportError):
                    self._silent.note(broker, str(error))

        await each(brokers, one)
        return Part(found=sorted(found, key=lambda pair: pair[0]), missing=missing)

    async def topic_names(self) -> list[str]:
        return await self._admin.topics.names()

    async def topic_configs(self) -> Part[dict[str, TopicConfig]]:
        """Return the topics of each master, by name."""
        return await self._of_brokers(await self._admin.access.masters(), self._admin.topics.configs_at)

    async def group_configs(self) -> Part[Mapping[str, SubscriptionGroupConfig]]:
        """Return the groups of each master, by name."""
        return await self._of_brokers(await self._admin.access.masters(), self._admin.groups.configs_at)

    async def topic_queues(self, topic: str, *, everywhere: bool = False) -> Part[list[QueueStatus]]:
        """Return the queues of a topic on each of its masters; *everywhere*: on all, as for brokers' own topics."""
        access, topics = self._admin.access, self._admin.topics
        masters = await (access.masters() if everywhere else access.topic_masters(topic))
        return await self._of_brokers(masters, lambda broker: topics.queues_at(broker, topic))

    async def topic_groups(self, topic: str) -> Part[list[str]]:
        """Return the groups that consume a topic, as its masters know them."""
        access = self._admin.access

        async def ask(broker: BrokerAt) -> list[str]:
            header = QueryTopicConsumeByWhoHeader(topic=topic)
            return list(
                (await access.ask_for(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, GroupList, header)).group_list
            )

        return await self._of_brokers(await access.topic_masters(topic), ask)

    async def progress(self, group: str, topic: str | None = None) -> Progress:
        """Return the progress of a group."""
        groups, masters = self._admin.groups, await self._admin.access.masters()
        part = await self._of_brokers(masters, lambda broker: groups.stats_at(broker, group, topic))
        queues = [queue for _, table in part.found for queue in progress_of(table)]
        return Progress(
            lag=sum(queue.lag for queue in queues) if part.found else None,
            consume_tps=sum(table.consume_tps for _, table in part.found) if part.found else None,
            queues=sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue_id)),
            missing=part.missing,
        )

    async def all_lags(self) -> Part[ConsumeStatsList]:
        """Return the progress of all groups on each master, by one request a broker."""
        header = GetBrokerConsumeStatsHeader(is_order=False)

        async def ask(broker: BrokerAt) -> ConsumeStatsList:
            reply = await self._admin.access.ask(broker, RequestCode.GET_BROKER_CONSUME_STATS, header)
            return await asyncio.to_thread(decode_body, bytes(reply.body), ConsumeStatsList)

        return await self._of_brokers(await self._admin.access.masters(), ask)

    async def topic_rates(self, topics: list[str]) -> Part[list[float]]:
        """Return the messages a second that each master stored of *topics* in the last minute, one request at a time
        to each.
        """

        async def ask(broker: BrokerAt) -> list[float]:
            return [await self._admin.brokers.put_rate(broker, topic) for topic in topics]

        return await self._of_brokers(await self._admin.access.masters(), ask)

    async def members(self, group: str) -> GroupMembers | None:
        """Return the members of a group; None if no broker answers."""
        groups, masters = self._admin.groups, await self._admin.access.masters()
        part = await self._of_brokers(masters, lambda broker: groups.connection_at(broker, group))
        if not part.found:
            return None
        return members_of(group, [(broker, found) for broker, found in part.found if found is not None])
