"""The cluster as pages see it: shared answers, the board of brokers, and recent lags of groups."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Final

from hanabi.admin import Admin
from hanabi.admin.brokers import BrokerSummary
from hanabi.admin.groups import GroupMembers
from hanabi.admin.replication_report import BrokerReplication
from hanabi.admin.topics import QueueStatus
from hanabi.dashboard.cluster.board import Board, BrokerRow
from hanabi.dashboard.cluster.collector import Collector, Known
from hanabi.dashboard.cluster.lag import Observation
from hanabi.dashboard.cluster.reading import Part, Progress, Reading
from hanabi.doctor import Diagnosis, examine
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.bodies.stats import ConsumeStatsList
from hanabi.wire.bodies.topics import TopicConfig

NAMES_FRESH_S: Final = 30.0
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"  # after the name of a cluster
OBSERVATIONS_MAX: Final = 120
OBSERVED_GROUPS_MAX: Final = 2_000
OBSERVED_MS: Final = 10 * 60 * 1000


class ClusterView:
    """Answers of the cluster for pages."""

    def __init__(self, admin: Admin, collector: Collector, now_ms: Callable[[], int]) -> None:
        self.admin, self.collector, self.now_ms = admin, collector, now_ms
        self._reading = Reading(admin, now_ms)
        self.board = Board()
        self._lags: OrderedDict[str, deque[Observation]] = OrderedDict()

    async def brokers(self) -> tuple[list[BrokerRow], Known[list[BrokerSummary]]]:
        """Return the rows of all brokers, and the answer that they come from."""
        known = await self.collector.ask(("brokers",), self._brokers)
        return self.board.rows, known

    async def _brokers(self) -> list[BrokerSummary]:
        summaries = await self.admin.brokers.all()
        self.board.note(summaries, self.now_ms())
        return summaries

    async def topic_names(self) -> Known[list[str]]:
        return await self.collector.ask(("topics",), self._reading.topic_names, fresh_s=NAMES_FRESH_S)

    async def system_topics(self) -> frozenset[str]:
        """Return the topics that brokers make for themselves: with the names of clusters and brokers, for replies."""
        rows = self.board.rows or (await self.brokers())[0]
        clusters = {row.summary.cluster for row in rows}
        return frozenset(
            {row.summary.broker for row in rows} | clusters | {f"{name}{REPLY_TOPIC_SUFFIX}" for name in clusters}
        )

    async def topic_configs(self) -> Known[Part[dict[str, TopicConfig]]]:
        return await self.collector.ask(("topic-configs",), self._reading.topic_configs, fresh_s=NAMES_FRESH_S)

    async def group_configs(self) -> Known[Part[Mapping[str, SubscriptionGroupConfig]]]:
        return await self.collector.ask(("group-configs",), self._reading.group_configs, fresh_s=NAMES_FRESH_S)

    async def topic_queues(self, topic: str) -> Known[Part[list[QueueStatus]]]:
        return await self.collector.ask(("queues", topic), lambda: self._reading.topic_queues(topic))

    async def system_queues(self, topic: str) -> Known[Part[list[QueueStatus]]]:
        """Return the queues of a topic of the brokers' own."""

        async def ask() -> Part[list[QueueStatus]]:
            return await self._reading.topic_queues(topic, everywhere=True)

        return await self.collector.ask(("queues", topic, "everywhere"), ask)

    async def topic_groups(self, topic: str) -> Known[Part[list[str]]]:
        return await self.collector.ask(("topic-groups", topic), lambda: self._reading.topic_groups(topic))

    async def queues_of(self, topics: list[str]) -> dict[str, Known[Part[list[QueueStatus]]]]:
        """Return the queues of the topics of one page."""
        answers = await asyncio.gather(*map(self.topic_queues, topics))
        return dict(zip(topics, answers, strict=True))

    async def progress(self, group: str, topic: str | None = None) -> Known[Progress]:
        async def ask() -> Progress:
            found = await self._reading.progress(group, topic)
            if topic is None and found.lag is not None and not found.missing:
                self.observe(group, found.lag)
            return found

        return await self.collector.ask(("progress", group, topic or ""), ask)

    async def progress_of(self, groups: list[str], topic: str | None = None) -> dict[str, Known[Progress]]:
        """Return the progress of the groups of one page."""
        answers = await asyncio.gather(*(self.progress(group, topic) for group in groups))
        return dict(zip(groups, answers, strict=True))

    async def members(self, group: str) -> Known[GroupMembers | None]:
        return await self.collector.ask(("members", group), lambda: self._reading.members(group))

    async def members_of(self, groups: list[str]) -> dict[str, Known[GroupMembers | None]]:
        answers = await asyncio.gather(*map(self.members, groups))
        return dict(zip(groups, answers, strict=True))

    async def replication(self) -> Known[list[BrokerReplication]]:
        return await self.collector.ask(("replication",), self.admin.replication.all)

    async def all_lags(self) -> list[ConsumeStatsList] | None:
        """Return the progress of all groups at each master; None unless all masters tell it."""
        known = await self.collector.ask(("all-lags",), self._reading.all_lags)
        self.collector.forget("all-lags")  # it is large, and only the sampler asks for it
        part = known.value
        if known.problem is not None or part is None or not part.complete or not part.found:
            return None
        return [answer for _, answer in part.found]

    async def topic_rates(self, topics: list[str]) -> dict[str, float]:
        """Return the messages a second that are stored of each topic; nothing unless all masters tell it."""
        part = await self._reading.topic_rates(topics)
        if not part.complete or not part.found:
            return {}
        sums = map(sum, zip(*(rates for _, rates in part.found), strict=True))
        return dict(zip(topics, sums, strict=True))

    async def diagnosis(self) -> Known[Diagnosis]:
        async def ask() -> Diagnosis:
            return await examine(self.admin, seconds=0)

        return await self.collector.ask(("doctor",), ask, fresh_s=60.0)

    def observe(self, group: str, lag: int) -> None:
        """Record the lag of a group, for its time to drain."""
        seen = self._lags.setdefault(group, deque(maxlen=OBSERVATIONS_MAX))
        now = self.now_ms()
        seen.append(Observation(now, lag))
        while seen[0].at_ms < now - OBSERVED_MS:
            seen.popleft()
        self._lags.move_to_end(group)
        if len(self._lags) > OBSERVED_GROUPS_MAX:
            self._lags.popitem(last=False)

    def observations(self, group: str) -> list[Observation]:
        """Return the lags of a group of the last minutes, the oldest first."""
        return list(self._lags.get(group, ()))
