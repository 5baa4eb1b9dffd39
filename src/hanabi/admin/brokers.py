"""Brokers and clusters: list, status, settings, statistics, and cleaning up.

Sends the requests of mqadmin's clusterList (-m too), brokerStatus, getBrokerConfig, updateBrokerConfig, statsAll,
cleanExpiredCQ, cleanUnusedTopic and deleteExpiredCommitLog. Brokers' figures keep the brokers' own names.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hanabi.admin.access import EVERYWHERE, SUCCESS, Access, BrokerAt, Where, each
from hanabi.admin.answer import Answer
from hanabi.errors import ConfigError, MQError, TopicNotExist
from hanabi.wire.bodies.groups import GroupList
from hanabi.wire.bodies.route import KVTable, TopicList
from hanabi.wire.bodies.stats import BrokerStatsData, ConsumeStats, OffsetWrapper
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.admin import ViewBrokerStatsDataHeader
from hanabi.wire.headers.group import GetConsumeStatsHeader
from hanabi.wire.headers.topic import QueryTopicConsumeByWhoHeader
from hanabi.wire.java_properties import decode_properties, format_properties
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

TOPIC_PUT: Final = "TOPIC_PUT_NUMS"
GROUP_GET: Final = "GROUP_GET_NUMS"
SENT_BACK: Final = "SNDBCK_PUT_NUMS"
CLEAN_SECONDS: Final = 60.0


class BrokerSummary(Answer, frozen=True, kw_only=True):
    """Summary of one broker. Unknown values are None; `problem` says why all are."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    version: str | None = None  # of the protocol that it speaks
    program: str | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    disk_used: float | None = None  # used part of the commit log's disk, 0 to 1
    earliest_stored: int | None = None
    problem: str | None = None


class BrokerTable(Answer, frozen=True, kw_only=True):
    """Figures or settings of a broker, under its own names."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    values: dict[str, str]


class TopicFlow(Answer, frozen=True, kw_only=True):
    """Message rates of a topic, and of one of its groups; `group` is None if it has none."""

    topic: str
    group: str | None
    lag: int
    in_tps: float
    out_tps: float
    in_day: int
    out_day: int
    back_day: int  # messages that consumers failed on and sent back


class BrokerFlow(Answer, frozen=True, kw_only=True):
    """Message rates of one broker; `today` begins at its midnight."""

    cluster: str
    broker: str
    address: str
    in_tps: float
    out_tps: float
    in_today: int
    out_today: int
    in_yesterday: int
    out_yesterday: int


class Flows(Answer, frozen=True, kw_only=True):
    """Message rates: by broker, and by topic and group of all of them together."""

    brokers: list[BrokerFlow]
    topics: list[TopicFlow]


class Clean(StrEnum):
    """Data that can be deleted before it expires."""

    QUEUES = "queues"  # queues whose messages are all deleted
    TOPICS = "topics"  # queues of topics that do not exist
    LOG = "log"  # files past their retention


_CLEANING: Final = {
    Clean.QUEUES: RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    Clean.TOPICS: RequestCode.CLEAN_UNUSED_TOPIC,
    Clean.LOG: RequestCode.DELETE_EXPIRED_COMMITLOG,
}


class Brokers:
    """Queries and actions about brokers and their clusters."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self, where: Where = EVERYWHERE) -> list[BrokerSummary]:
        """Return all brokers that the name server knows, including those that do not answer."""

        async def summary(broker: BrokerAt) -> BrokerSummary:
            try:
                info = await self._runtime(broker)
            except MQError as error:  # also a refusal: Apache's slaves have no figures in their first second
                return _summary(broker, {}, str(error))
            return _summary(broker, info, None)

        return await each(await self._access.brokers(where), summary)

    async def status(self, where: Where = EVERYWHERE) -> list[BrokerTable]:
        """Return the status figures of brokers."""

        async def table(broker: BrokerAt) -> BrokerTable:
            return _table(broker, await self._runtime(broker))

        return await each(await self._access.brokers(where), table)

    async def config(self, where: Where = EVERYWHERE) -> list[BrokerTable]:
        """Return the settings of brokers."""

        async def table(broker: BrokerAt) -> BrokerTable:
            reply = await self._access.ask(broker, RequestCode.GET_BROKER_CONFIG)
            return _table(broker, decode_properties(bytes(reply.body)))

        return await each(await self._access.brokers(where), table)

    async def configure(self, settings: Mapping[str, str], where: Where) -> list[BrokerTable]:
        """Change settings of running brokers; each broker decides which can be changed."""
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
        """Return message rates by topic and group, of the last minute and the last day."""
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

    async def flows(self, where: Where = EVERYWHERE, topic: str | None = None, *, system: bool = False) -> Flows:
        """Return message rates by broker and by topic and group; with *system*, of brokers' own topics too."""
        masters = await self._access.masters(where)
        own: set[str] = set()
        if topic is None and not system:
            own = {broker.broker for broker in masters} | {broker.cluster for broker in masters}
            for broker in masters:
                code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
                own |= set((await self._access.ask_for(broker, code, TopicList)).topic_list)

        async def flow(broker: BrokerAt) -> BrokerFlow:
            return _broker_flow(broker, await self._runtime(broker))

        topics = [found for found in await self.stats(where, topic) if found.topic not in own]
        return Flows(brokers=await each(masters, flow), topics=topics)

    async def clean(self, what: Clean, where: Where = EVERYWHERE) -> list[str]:
        """Let brokers delete unused data; return the brokers that did, or will soon."""
        masters = await self._access.masters(where)
        for broker in masters:
            await self._access.ask(broker, _CLEANING[what], seconds=CLEAN_SECONDS)
        return [broker.broker for broker in masters]

    async def _runtime(self, broker: BrokerAt) -> dict[str, str]:
        return (await self._access.ask_for(broker, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table

    async def _flows(self, topic: str, masters: list[BrokerAt]) -> list[TopicFlow]:
        try:
            serving = set((await self._access.route(topic)).brokers)
        except TopicNotExist:
            return []  # deleted since it was listed, or of a broker that is gone
        brokers = [broker for broker in masters if broker.broker in serving]
        coming = [await self._figure(broker, TOPIC_PUT, topic) for broker in brokers]
        in_tps, in_day = sum(each.stats_minute.tps for each in coming), sum(map(_day, coming))
        groups: set[str] = set()
        for broker in brokers:
            header = QueryTopicConsumeByWhoHeader(topic=topic)
            found = await self._access.ask_for(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, GroupList, header)
            groups |= set(found.group_list)
        if topic in groups and not any([await self._offsets(broker, topic) for broker in brokers]):
            groups.remove(topic)  # 5.3 counts the topic itself among its subscribed groups
        flows: list[TopicFlow] = []
        for group in sorted(groups):
            going = [await self._figure(broker, GROUP_GET, f"{topic}@{group}") for broker in brokers]
            back = [await self._figure(broker, SENT_BACK, f"{topic}@{group}") for broker in brokers]
            flows.append(
                TopicFlow(
                    topic=topic,
                    group=group,
                    lag=sum([await self._lag(broker, group, topic) for broker in brokers]),
                    in_tps=in_tps,
                    out_tps=sum(each.stats_minute.tps for each in going),
                    in_day=in_day,
                    out_day=sum(map(_day, going)),
                    back_day=sum(map(_day, back)),
                )
            )
        none = TopicFlow(
            topic=topic, group=None, lag=0, in_tps=in_tps, out_tps=0.0, in_day=in_day, out_day=0, back_day=0
        )
        return flows or [none]

    async def _figure(self, broker: BrokerAt, name: str, key: str) -> BrokerStatsData:
        """Return one counter; a broker answers with the general error for one that was never counted, which is zero
        here.
        """
        reply = await self._access.ask(
            broker,
            RequestCode.VIEW_BROKER_STATS_DATA,
            ViewBrokerStatsDataHeader(stats_name=name, stats_key=key),
            accept=SUCCESS | {int(ResponseCode.SYSTEM_ERROR)},
        )
        return decode_body(reply.body, BrokerStatsData) if reply.code == ResponseCode.SUCCESS else BrokerStatsData()

    async def put_rate(self, broker: BrokerAt, topic: str) -> float:
        """Return the messages a second that a broker stored of a topic in the last minute."""
        return (await self._figure(broker, TOPIC_PUT, topic)).stats_minute.tps

    async def _offsets(self, broker: BrokerAt, group: str, topic: str | None = None) -> list[OffsetWrapper]:
        """Return the offsets of a group in a topic, or in all topics where it has begun."""
        header = GetConsumeStatsHeader(consumer_group=group, topic=topic)
        table = await self._access.ask_for(broker, RequestCode.GET_CONSUME_STATS, ConsumeStats, header)
        return list(table.offset_table.values())

    async def _lag(self, broker: BrokerAt, group: str, topic: str) -> int:
        return sum(each.broker_offset - each.consumer_offset for each in await self._offsets(broker, group, topic))


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
        program=_program(info),
        put_tps=_first_number(info.get("putTps")),
        get_tps=_first_number(info.get("getTransferredTps") or info.get("getTransferedTps")),
        disk_used=_first_number(info.get("commitLogDiskRatio")),
        earliest_stored=max(int(earliest), 0) if earliest.removeprefix("-").isdigit() else None,
        problem=problem,
    )


def _program(info: Mapping[str, str]) -> str | None:
    """Return the program of a broker and its version. Apache's has the version of its protocol."""
    if (ours := info.get("hanabiVersion")) is not None:
        return f"Hanabi {ours}"
    version = info.get("brokerVersionDesc")
    return None if version is None else f"Apache RocketMQ {version.removeprefix('V').replace('_', '.')}"


def _broker_flow(broker: BrokerAt, info: Mapping[str, str]) -> BrokerFlow:
    def count(key: str) -> int:
        text = info.get(key, "")
        return int(text) if text.isdigit() else 0

    def since(way: str) -> tuple[int, int]:
        now, morning, yesterday = (
            count(f"msg{way}Total{when}") for when in ("TodayNow", "TodayMorning", "YesterdayMorning")
        )
        return max(now - morning, 0), max(morning - yesterday, 0)

    (in_today, in_yesterday), (out_today, out_yesterday) = since("Put"), since("Get")
    return BrokerFlow(
        cluster=broker.cluster,
        broker=broker.broker,
        address=broker.address,
        in_tps=_first_number(info.get("putTps")) or 0.0,
        out_tps=_first_number(info.get("getTransferredTps") or info.get("getTransferedTps")) or 0.0,
        in_today=in_today,
        out_today=out_today,
        in_yesterday=in_yesterday,
        out_yesterday=out_yesterday,
    )


def _day(figure: BrokerStatsData) -> int:
    """Return the count of the last day: a broker up for less than an hour has counted only minutes, as in statsAll."""
    return max(figure.stats_day.sum, figure.stats_hour.sum, figure.stats_minute.sum)


def _first_number(text: str | None) -> float | None:
    """Return the first number: brokers report the last ten seconds, minute and ten minutes, separated by spaces."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None
