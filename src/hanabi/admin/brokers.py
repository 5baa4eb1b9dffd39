"""Brokers and clusters: which there are, what they do, their settings, their figures, and cleaning up.

Agrees with mqadmin's clusterList, brokerStatus, getBrokerConfig, updateBrokerConfig, statsAll, cleanExpiredCQ,
cleanUnusedTopic and deleteExpiredCommitLog in what brokers are asked. What they say of themselves is passed on under
their own names.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hanabi.admin.access import EVERYWHERE, SUCCESS, Access, BrokerAt, Where, each
from hanabi.admin.answer import Answer
from hanabi.client.namespace import DEAD_LETTER_PREFIX, RETRY_PREFIX
from hanabi.errors import ConfigError, TransportError
from hanabi.wire.bodies.groups import GroupList
from hanabi.wire.bodies.route import KVTable, TopicList
from hanabi.wire.bodies.stats import BrokerStatsData, ConsumeStats
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.admin import ViewBrokerStatsDataHeader
from hanabi.wire.headers.group import GetConsumeStatsHeader
from hanabi.wire.headers.topic import QueryTopicConsumeByWhoHeader
from hanabi.wire.java_properties import decode_properties, format_properties

TOPIC_PUT: Final = "TOPIC_PUT_NUMS"
GROUP_GET: Final = "GROUP_GET_NUMS"
CLEAN_SECONDS: Final = 60.0


class BrokerSummary(Answer, frozen=True, kw_only=True):
    """One broker in a line. What cannot be known is None; `problem` says why nothing is."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    version: str | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    disk_used: float | None = None  # part of the commit log's disk, 0 to 1
    earliest_stored: int | None = None
    problem: str | None = None


class BrokerTable(Answer, frozen=True, kw_only=True):
    """What a broker says under its own names: figures, or settings."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    values: dict[str, str]


class TopicFlow(Answer, frozen=True, kw_only=True):
    """What goes into a topic, and to one of its groups; `group` is None where it has none."""

    topic: str
    group: str | None
    lag: int
    in_tps: float
    out_tps: float
    in_day: int
    out_day: int


class Clean(StrEnum):
    """What can be deleted before its time."""

    QUEUES = "queues"  # whose messages are all gone
    TOPICS = "topics"  # queues of topics that do not exist
    LOG = "log"  # files older than is kept


_CLEANING: Final = {
    Clean.QUEUES: RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    Clean.TOPICS: RequestCode.CLEAN_UNUSED_TOPIC,
    Clean.LOG: RequestCode.DELETE_EXPIRED_COMMITLOG,
}


class Brokers:
    """Everything about brokers and the clusters that they are in."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self, where: Where = EVERYWHERE) -> list[BrokerSummary]:
        """All brokers that the name server knows, also those that do not answer."""

        async def summary(broker: BrokerAt) -> BrokerSummary:
            try:
                info = await self._runtime(broker)
            except TransportError as error:
                return _summary(broker, {}, str(error))
            return _summary(broker, info, None)

        return await each(await self._access.brokers(where), summary)

    async def status(self, where: Where = EVERYWHERE) -> list[BrokerTable]:
        """What brokers say of themselves."""

        async def table(broker: BrokerAt) -> BrokerTable:
            return _table(broker, await self._runtime(broker))

        return await each(await self._access.brokers(where), table)

    async def config(self, where: Where = EVERYWHERE) -> list[BrokerTable]:
        """The settings of brokers."""

        async def table(broker: BrokerAt) -> BrokerTable:
            reply = await self._access.ask(broker, RequestCode.GET_BROKER_CONFIG)
            return _table(broker, decode_properties(bytes(reply.body)))

        return await each(await self._access.brokers(where), table)

    async def configure(self, settings: Mapping[str, str], where: Where) -> list[BrokerTable]:
        """Change settings of brokers while they run; each broker decides which it lets be changed."""
        if not settings:
            raise ConfigError("nothing to change: give KEY=VALUE")
        brokers = await self._access.brokers(where)
        body = format_properties(dict(settings)).encode()
        for broker in brokers:
            await self._access.ask(broker, RequestCode.UPDATE_BROKER_CONFIG, None, body)
        wanted = set(settings)
        return [
            _table(
                BrokerAt(cluster=each.cluster, broker=each.broker, broker_id=each.broker_id, address=each.address),
                {key: value for key, value in each.values.items() if key in wanted},
            )
            for each in await self.config(where)
        ]

    async def stats(self, where: Where = EVERYWHERE, topic: str | None = None) -> list[TopicFlow]:
        """What goes in and out, by topic and group, in the last minute and the last day."""
        masters = await self._access.masters(where)
        if topic is None:
            reply = await self._access.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            names = sorted(decode_body(reply.body, TopicList).topic_list)
            names = [name for name in names if not name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))]
        else:
            await self._access.route(topic)
            names = [topic]
        found = await each(names, lambda name: self._flows(name, masters))
        return [flow for flows in found for flow in flows]

    async def clean(self, what: Clean, where: Where = EVERYWHERE) -> list[str]:
        """Let brokers delete what is of no use any more; the brokers that did, or will soon."""
        masters = await self._access.masters(where)
        for broker in masters:
            await self._access.ask(broker, _CLEANING[what], seconds=CLEAN_SECONDS)
        return [broker.broker for broker in masters]

    async def _runtime(self, broker: BrokerAt) -> dict[str, str]:
        return (await self._access.ask_for(broker, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table

    async def _flows(self, topic: str, masters: list[BrokerAt]) -> list[TopicFlow]:
        serving = set((await self._access.route(topic)).brokers)
        brokers = [broker for broker in masters if broker.broker in serving]
        coming = [await self._figure(broker, TOPIC_PUT, topic) for broker in brokers]
        in_tps, in_day = sum(each.stats_minute.tps for each in coming), sum(each.stats_day.sum for each in coming)
        groups: set[str] = set()
        for broker in brokers:
            header = QueryTopicConsumeByWhoHeader(topic=topic)
            found = await self._access.ask_for(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, GroupList, header)
            groups |= set(found.group_list)
        flows: list[TopicFlow] = []
        for group in sorted(groups):
            going = [await self._figure(broker, GROUP_GET, f"{topic}@{group}") for broker in brokers]
            flows.append(
                TopicFlow(
                    topic=topic,
                    group=group,
                    lag=sum([await self._lag(broker, group, topic) for broker in brokers]),
                    in_tps=in_tps,
                    out_tps=sum(each.stats_minute.tps for each in going),
                    in_day=in_day,
                    out_day=sum(each.stats_day.sum for each in going),
                )
            )
        none = TopicFlow(topic=topic, group=None, lag=0, in_tps=in_tps, out_tps=0.0, in_day=in_day, out_day=0)
        return flows or [none]

    async def _figure(self, broker: BrokerAt, name: str, key: str) -> BrokerStatsData:
        """One counter; what was never counted is the general error with a broker, and zero here."""
        reply = await self._access.ask(
            broker,
            RequestCode.VIEW_BROKER_STATS_DATA,
            ViewBrokerStatsDataHeader(stats_name=name, stats_key=key),
            accept=SUCCESS | {int(ResponseCode.SYSTEM_ERROR)},
        )
        return decode_body(reply.body, BrokerStatsData) if reply.code == ResponseCode.SUCCESS else BrokerStatsData()

    async def _lag(self, broker: BrokerAt, group: str, topic: str) -> int:
        header = GetConsumeStatsHeader(consumer_group=group, topic=topic)
        table = await self._access.ask_for(broker, RequestCode.GET_CONSUME_STATS, ConsumeStats, header)
        return sum(each.broker_offset - each.consumer_offset for each in table.offset_table.values())


def _table(broker: BrokerAt, values: Mapping[str, str]) -> BrokerTable:
    return BrokerTable(
        cluster=broker.cluster,
        broker=broker.broker,
        broker_id=broker.broker_id,
        address=broker.address,
        values=dict(sorted(values.items())),
    )


def _summary(broker: BrokerAt, info: Mapping[str, str], problem: str | None) -> BrokerSummary:
    earliest = info.get("earliestMessageTimeStamp", "")
    return BrokerSummary(
        cluster=broker.cluster,
        broker=broker.broker,
        broker_id=broker.broker_id,
        address=broker.address,
        version=info.get("brokerVersionDesc"),
        put_tps=_first_number(info.get("putTps")),
        get_tps=_first_number(info.get("getTransferredTps") or info.get("getTransferedTps")),
        disk_used=_first_number(info.get("commitLogDiskRatio")),
        earliest_stored=max(int(earliest), 0) if earliest.removeprefix("-").isdigit() else None,
        problem=problem,
    )


def _first_number(text: str | None) -> float | None:
    """Brokers say the last ten seconds, the last minute and the last ten minutes, with spaces between them."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None
