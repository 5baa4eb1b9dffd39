"""The sampler: asks the brokers for their figures every ten seconds, and writes them into the ring.

Its requests are few and bounded: each broker is asked once a round for its figures and every third round for the lags
of all groups; rates are asked for at most 200 topics, a few at a time. A round that takes too long is cut off: what it
did not learn stays a gap.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from hanabi.admin.replication_report import BrokerReplication
from hanabi.dashboard.cluster.board import BrokerRow
from hanabi.dashboard.cluster.view import ClusterView
from hanabi.dashboard.history import series
from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.history.series import GroupLag
from hanabi.errors import MQError
from hanabi.wire.system_names import DEAD_LETTER_PREFIX

logger = logging.getLogger(__name__)

EVERY_S: Final = 10.0
LAGS_EVERY: Final = 3  # rounds
SLOW_EVERY: Final = 6  # rounds: replication and dead letters
LAGS_KEPT_MS: Final = 35_000  # between two questions for lags the last ones hold
AT_ONCE: Final = 4
ROUND_S: Final = 8.0
DEAD_LETTER_TOPICS_MAX: Final = 200
WATCHED_MAX: Final = 200


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round learned. None: not asked, or not known."""

    at_ms: int
    brokers: list[BrokerRow]
    lags: dict[str, GroupLag] | None = None
    replication: list[BrokerReplication] | None = None
    dead_letters: dict[str, int] | None = None  # letters that were ever stored, by group


OnRound = Callable[[Round], Awaitable[None]]


class Sampler:
    """Rounds of questions. `watch` keeps the curve of a topic or group that a person looks at."""

    def __init__(self, cluster: ClusterView, ring: Ring, now_ms: Callable[[], int], on_round: OnRound) -> None:
        self._cluster, self._ring, self._now_ms, self._on_round = cluster, ring, now_ms, on_round
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._watched: dict[str, OrderedDict[str, None]] = {"topic": OrderedDict(), "group": OrderedDict()}
        self._number = 0
        self._lags: dict[str, GroupLag] = {}
        self._lags_ms = 0
        self._ends: dict[str, int] = {}
        self._busy: dict[str, float] = {}

    def watch(self, kind: str, name: str) -> None:
        """Keep the curve of a topic or a group from now on; the last 200 of each kind are kept."""
        seen = self._watched[kind]
        seen[name] = None
        seen.move_to_end(name)
        if len(seen) > WATCHED_MAX:
            seen.popitem(last=False)

    async def run(self) -> None:
        """Sample until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self.sample()
            except MQError as error:
                logger.warning("no sample of the cluster: %s", error)
            except Exception:
                logger.exception("no sample of the cluster: an error of the dashboard")
            await asyncio.sleep(max(EVERY_S - (loop.time() - began), 1.0))

    async def sample(self) -> Round:
        """Do one round now."""
        number, self._number = self._number, self._number + 1
        rows, known = await self._cluster.brokers()
        fresh = known.problem is None
        values: dict[str, float] = {}
        lags = replication = letters = None
        deadline = asyncio.get_running_loop().time() + ROUND_S
        try:
            async with asyncio.timeout_at(deadline):
                if number % LAGS_EVERY == 0:
                    lags = await self._ask_lags()
                if number % SLOW_EVERY == 0:
                    replication = (await self._cluster.replication()).value
                    letters = await self._ask_dead_letters()
                busy = {topic: grown for topic, grown in self._busy.items() if grown > 0}
                topics = series.chosen(list(reversed(self._watched["topic"])), busy, series.TOPICS_MAX)
                rates = await self._cluster.topic_rates(topics) if topics else {}
                values |= {series.topic_series(topic): rate for topic, rate in rates.items()}
        except TimeoutError:
            logger.warning("a sample of the cluster took over %g s and is not complete", ROUND_S)
        if fresh:
            values |= broker_values(rows)
        now = self._now_ms()
        if now - self._lags_ms <= LAGS_KEPT_MS:
            values |= self._lag_values(now)
        await self._ring.write(now / 1000, values)
        done = Round(at_ms=now, brokers=rows, lags=lags, replication=replication, dead_letters=letters)
        await self._on_round(done)
        return done

    async def _ask_lags(self) -> dict[str, GroupLag] | None:
        """Ask each master for the lags of all its groups. If one does not tell, none is known: a sum would be low."""
        answers = await self._cluster.all_lags()
        if answers is None:
            return None
        lags, ends = await asyncio.to_thread(series.group_lags, answers)
        self._busy, self._ends = series.grown(self._ends, ends), ends
        self._lags, self._lags_ms = lags, self._now_ms()
        for group, lag in lags.items():
            self._cluster.observe(group, lag.messages)
        return lags

    def _lag_values(self, now_ms: int) -> dict[str, float]:
        values = {series.CLUSTER_LAG: float(sum(lag.messages for lag in self._lags.values()))}
        watched = [name for name in reversed(self._watched["group"]) if name in self._lags]
        sizes = {name: float(lag.messages) for name, lag in self._lags.items()}
        for group in series.chosen(watched, sizes, series.GROUPS_MAX):
            lag = self._lags[group]
            values[series.group_series(group, "lag")] = float(lag.messages)
            if (behind := lag.behind_s(now_ms)) is not None:
                values[series.group_series(group, "behind")] = behind
        return values

    async def _ask_dead_letters(self) -> dict[str, int] | None:
        names = (await self._cluster.topic_names()).value
        if names is None:
            return None
        found: dict[str, int] = {}

        async def ask(topic: str) -> None:
            async with self._gate:
                known = await self._cluster.topic_queues(topic)
            if known.value is not None and known.value.complete and known.problem is None:
                ends = (queue.max_offset for _, queues in known.value.found for queue in queues)
                found[topic.removeprefix(DEAD_LETTER_PREFIX)] = sum(ends)

        topics = [name for name in names if name.startswith(DEAD_LETTER_PREFIX)][:DEAD_LETTER_TOPICS_MAX]
        await asyncio.gather(*map(ask, topics))
        return found


def broker_values(rows: list[BrokerRow]) -> dict[str, float]:
    """Return the values of brokers that answer. The sum over the cluster is known only if all masters answer. Pure."""
    values: dict[str, float] = {}
    sums: dict[str, float | None] = {series.CLUSTER_IN: 0.0, series.CLUSTER_OUT: 0.0}
    for row in rows[: series.BROKERS_MAX]:
        summary = row.summary
        figures = {"in": summary.put_tps, "out": summary.get_tps, "disk": summary.disk_used}
        if row.silent_since_ms is not None:
            figures = dict.fromkeys(figures)
        for figure, value in figures.items():
            if value is not None and value >= 0:
                values[series.broker_series(summary.address, figure)] = value
        if summary.broker_id == 0 and row.listed:
            for name, value in ((series.CLUSTER_IN, figures["in"]), (series.CLUSTER_OUT, figures["out"])):
                before = sums[name]
                sums[name] = None if before is None or value is None else before + value
    return values | ({name: value for name, value in sums.items() if value is not None} if rows else {})
