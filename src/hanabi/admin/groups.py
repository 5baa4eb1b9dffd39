"""Consumer groups: list, create, change and delete them; their progress, members and subscriptions.

Sends the requests of mqadmin's updateSubGroup, deleteSubGroup, consumerProgress, consumerConnection, consumerStatus and
getConsumerConfig. Each broker has its own groups, so every master is queried.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from hanabi.admin.access import EVERYWHERE, SUCCESS, Access, BrokerAt, Where, each
from hanabi.admin.answer import Answer
from hanabi.errors import (
    ConfigError,
    InvalidParameter,
    RequestCodeNotSupported,
    SubscriptionGroupNotExist,
    TransportError,
)
from hanabi.wire.bodies.clients import Connection, ConsumerConnection, ConsumerRunningInfo, ProducerConnection
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from hanabi.wire.bodies.pop import MessageRequestMode, MessageRequestModeTable
from hanabi.wire.bodies.stats import ConsumeStats
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.client import (
    GetConsumerConnectionListHeader,
    GetConsumerRunningInfoHeader,
    GetProducerConnectionListHeader,
)
from hanabi.wire.headers.group import DeleteSubscriptionGroupHeader, GetConsumeStatsHeader
from hanabi.wire.headers.namesrv import DeleteTopicInNamesrvHeader
from hanabi.wire.headers.topic import DeleteTopicHeader
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, TOOLS_GROUP

# Brokers create these for themselves and for tools; the first two prefixes are 5.x's.
SYSTEM_GROUPS: Final = frozenset(
    {
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SCHEDULE_CONSUMER",
        "__MONITOR_CONSUMER",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_ONS-HTTP-PROXY",
    }
)
SYSTEM_GROUP_PREFIXES: Final = (SYSTEM_GROUP_PREFIX, "CID_DefaultHeartBeatSyncerTopic", "CID_SYS_RMQ_")


_NO_INFO: Final = (
    "the member answered without saying anything: its queues, figures and stacks are not known. What is shown of it is "
    "what the broker knows"
)


class GroupSettings(Answer, frozen=True, kw_only=True):
    """Settings of a group on one broker."""

    cluster: str
    broker: str
    consume_enabled: bool
    broadcast_enabled: bool
    from_min_enabled: bool
    retry_max: int
    retry_queues: int


class GroupSummary(Answer, frozen=True, kw_only=True):
    """Summary of a group. `lag` is the number of unconsumed messages, in all topics where it has begun."""

    group: str
    kind: str  # normal or system
    brokers: list[GroupSettings]
    members: int
    message_model: str | None
    lag: int
    consume_tps: float


class QueueProgress(Answer, frozen=True, kw_only=True):
    """Progress of a group in a queue. `last_consumed` is the store time of the last message that it consumed.

    `in_flight` counts messages of a POP group from its offset up to the last that was handed out; they are part of the
    lag.
    """

    topic: str
    broker: str
    queue_id: int
    max_offset: int
    group_offset: int
    lag: int
    last_consumed: int
    in_flight: int = 0


class GroupProgress(Answer, frozen=True, kw_only=True):
    """Progress of a group."""

    group: str
    lag: int
    in_flight: int
    consume_tps: float
    queues: list[QueueProgress]


class Member(Answer, frozen=True, kw_only=True):
    """One client of a group; `brokers` are those that it is connected to."""

    client_id: str
    address: str
    language: str
    version: int
    brokers: list[str]


class GroupMembers(Answer, frozen=True, kw_only=True):
    """Members of a group; a value that no reachable broker knows is None."""

    group: str
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    members: list[Member]


class RequestMode(Answer, frozen=True, kw_only=True):
    """How a group gets the messages of a topic from one broker: PULL or POP. `share_queues`: with POP each member pops
    its own queues and those of so many other members; 0 or less: all queues."""

    broker: str
    topic: str
    group: str
    mode: str
    share_queues: int


class HeldQueue(Answer, frozen=True, kw_only=True):
    """State of one queue at a member."""

    topic: str
    broker: str
    queue_id: int
    group_offset: int
    cached: int
    locked: bool
    last_pulled: int
    last_consumed: int


class TopicSpeed(Answer, frozen=True, kw_only=True):
    """Consumption rate of a member in one topic: per second, and milliseconds."""

    topic: str
    ok_tps: float
    failed_tps: float
    consume_ms: float
    pull_tps: float
    pull_ms: float


class RunningInfo(Answer, frozen=True, kw_only=True):
    """State of a member, as it reports it; `missing` says which parts it does not report, and why."""

    client_id: str
    properties: dict[str, str]
    queues: list[HeldQueue]
    topics: list[TopicSpeed]
    stacks: str
    missing: str = ""


class Subscription(Answer, frozen=True, kw_only=True):
    """Subscription of a group to a topic, as a broker reports it."""

    topic: str
    expression: str
    expression_type: str
    version: int
    brokers: list[str]


class Opinion(Answer, frozen=True, kw_only=True):
    """Subscriptions that only some members have. Only Hanabi's brokers report this."""

    subscribes: str
    client_ids: list[str]


class GroupSubscriptions(Answer, frozen=True, kw_only=True):
    """Subscriptions of a group. `consistent` is false where brokers or members contradict each other."""

    group: str
    consistent: bool
    subscriptions: list[Subscription]
    opinions: list[Opinion]


class GroupChange(Answer, frozen=True, kw_only=True):
    """Settings of a group; None means the default at creation, and unchanged at an update."""

    consume_enabled: bool | None = None
    broadcast_enabled: bool | None = None
    from_min_enabled: bool | None = None
    retry_max: int | None = None
    retry_queues: int | None = None


def kind_of(group: str) -> str:
    return "system" if group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIXES) else "normal"


class Groups:
    """Queries and actions about consumer groups."""

    def __init__(self, access: Access) -> None:
        self._access = access

    # Settings

    async def names(self) -> list[str]:
        """Return the names of all groups, of the brokers that answer."""

        async def of(broker: BrokerAt) -> Iterable[str]:
            try:
                return await self.configs_at(broker)
            except TransportError:
                return ()

        found = await each(await self._access.masters(), of)
        return sorted({name for names in found for name in names})

    async def all(self, where: Where = EVERYWHERE, *, system: bool = False) -> list[GroupSummary]:
        """Return all groups that brokers know, with their members and lag."""
        masters = await self._access.masters(where)
        names: dict[str, list[tuple[BrokerAt, SubscriptionGroupConfig]]] = {}
        for broker, groups in zip(masters, await each(masters, self.configs_at), strict=True):
            for name, config in groups.items():
                names.setdefault(name, []).append((broker, config))
        wanted = [name for name in sorted(names) if system or kind_of(name) == "normal"]

        async def summary(name: str) -> GroupSummary:
            connections = [found for broker in masters if (found := await self.connection_at(broker, name)) is not None]
            stats = [await self.stats_at(broker, name) for broker in masters]
            return GroupSummary(
                group=name,
                kind=kind_of(name),
                brokers=[_settings(broker, config) for broker, config in names[name]],
                members=len({member.client_id for found in connections for member in found.connection_set}),
                message_model=next((found.message_model for found in connections), None),
                lag=sum(_lag(queue) for table in stats for queue in progress_of(table)),
                consume_tps=sum(table.consume_tps for table in stats),
            )

        return await each(wanted, summary)

    async def settings(self, group: str, where: Where = EVERYWHERE) -> list[GroupSettings]:
        """Return the settings of a group on each broker that knows it; raise if none does."""
        return [_settings(broker, config) for broker, config in await self._found(group, where)]

    async def create(self, group: str, settings: GroupChange, where: Where = EVERYWHERE) -> list[GroupSettings]:
        """Create a group on the masters of a cluster, or on one broker. Raise if it exists."""
        masters = await self._access.masters_of_one_cluster(where)
        tables = await each(masters, self.configs_at)
        have = [broker.broker for broker, table in zip(masters, tables, strict=True) if group in table]
        if have:
            raise InvalidParameter(f"group {group} exists already, on {', '.join(have)}: change it with --update")
        config = _changed(SubscriptionGroupConfig(group_name=group), settings)
        for broker in masters:
            await self._put(broker, config)
        return [_settings(broker, config) for broker in masters]

    async def update(self, group: str, change: GroupChange, where: Where = EVERYWHERE) -> list[GroupSettings]:
        """Change a group on the brokers that know it."""
        if change == GroupChange():
            raise ConfigError(f"nothing to change of group {group}: give a setting")
        changed = [(broker, _changed(config, change)) for broker, config in await self._found(group, where)]
        for broker, config in changed:
            await self._put(broker, config)
        return [_settings(broker, config) for broker, config in changed]

    async def delete(
        self, group: str, where: Where = EVERYWHERE, *, keep_offsets: bool = False, dead_letters: bool = False
    ) -> list[str]:
        """Delete a group, its retry topic and its offsets; with *dead_letters* these too.

        Return the brokers that knew it. Members that are still online create it again, where brokers allow that.
        """
        found = await self._found(group, where)
        header = DeleteSubscriptionGroupHeader(
            group_name=group, remove_offset=not keep_offsets, clean_offset=not keep_offsets
        )
        for broker, _ in found:
            await self._access.ask(broker, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        prefixes = (RETRY_PREFIX, DEAD_LETTER_PREFIX) if dead_letters else (RETRY_PREFIX,)
        for topic in (f"{prefix}{group}" for prefix in prefixes):
            for broker, _ in found:  # a topic that a broker does not have counts as deleted
                await self._access.ask(broker, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=topic))
            if where == EVERYWHERE:
                await self._access.ask_all_name_servers(
                    RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic)
                )
        return [broker.broker for broker, _ in found]

    # Progress

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Return the progress of a group, in all topics where it has begun or in one."""
        masters = await self._access.masters()
        tables = await each(masters, lambda broker: self.stats_at(broker, group, topic))
        queues = [queue for table in tables for queue in progress_of(table)]
        if not queues:
            await self._found(group, EVERYWHERE)  # otherwise the group is unknown, which is a different error
        return GroupProgress(
            group=group,
            lag=sum(map(_lag, queues)),
            in_flight=sum(queue.in_flight for queue in queues),
            consume_tps=sum(table.consume_tps for table in tables),
            queues=sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue_id)),
        )

    # Request modes

    async def request_modes(self, group: str, topic: str | None = None, where: Where = EVERYWHERE) -> list[RequestMode]:
        """Return the modes that were set for a group, of all topics or of one. A topic without one has the broker's
        default, PULL unless configured otherwise. Brokers before 5.x have no modes."""

        async def at(broker: BrokerAt) -> list[RequestMode]:
            try:
                table = await self._access.ask_for(
                    broker, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeTable
                )
            except RequestCodeNotSupported:
                return []
            return [
                RequestMode(
                    broker=broker.broker,
                    topic=name,
                    group=group,
                    mode=groups[group].mode,
                    share_queues=groups[group].pop_share_queue_num,
                )
                for name, groups in sorted(table.message_request_mode_map.items())
                if group in groups and topic in (None, name)
            ]

        await self._found(group, where)
        return [mode for modes in await each(await self._access.masters(where), at) for mode in modes]

    async def set_request_mode(
        self, group: str, topic: str, mode: str, *, share_queues: int = 0, where: Where = EVERYWHERE
    ) -> list[RequestMode]:
        """Set how a group gets the messages of a topic, PULL or POP, on all masters that serve the topic."""
        body = MessageRequestMode(consumer_group=group, topic=topic, mode=mode, pop_share_queue_num=share_queues)
        masters = [broker for broker in await self._access.topic_masters(topic) if where.has(broker)]
        if not masters:
            raise ConfigError(f"topic {topic} is on none of the chosen brokers")
        for broker in masters:
            await self._access.ask(broker, RequestCode.SET_MESSAGE_REQUEST_MODE, None, encode_body(body))
        return [
            RequestMode(broker=broker.broker, topic=topic, group=group, mode=mode, share_queues=share_queues)
            for broker in masters
        ]

    # Members

    async def members(self, group: str) -> GroupMembers:
        """Return the members of a group; an empty list for a known group without members."""
        return members_of(group, await self._connections(group))

    async def producers(self, group: str) -> GroupMembers:
        """Return the connected producers of this group. Brokers know a producer group only while one is connected."""
        masters = await self._access.masters()
        answers = await each(masters, lambda broker: self._producers(broker, group))
        members = _members(zip(masters, answers, strict=True))
        if not members:
            raise InvalidParameter(f"no producer of group {group} is connected to any broker now")
        return GroupMembers(
            group=group, consume_type=None, message_model=None, consume_from_where=None, members=members
        )

    async def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Return the state of one member, as it reports it."""
        header = GetConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=stacks)
        for broker, connection in await self._connections(group):
            for client in connection.connection_set:
                if client.client_id == client_id:
                    reply = await self._access.ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
                    return _running(client, bytes(reply.body))
        raise InvalidParameter(f"group {group} has no member {client_id} now: see group members")

    async def subscriptions(self, group: str) -> GroupSubscriptions:
        """Return the subscriptions of the members of a group, and whether they agree."""
        found = await self._connections(group)
        seen: dict[tuple[str, str, str], Subscription] = {}
        for broker, connection in found:
            for data in connection.subscription_table.values():
                key = (data.topic, data.expression_type, data.sub_string or "")
                known = seen.get(key)
                seen[key] = Subscription(
                    topic=data.topic,
                    expression=data.sub_string or "",
                    expression_type=data.expression_type,
                    version=data.sub_version,
                    brokers=[*(known.brokers if known else ()), broker.broker],
                )
        opinions = {
            opinion.subscribes: Opinion(subscribes=opinion.subscribes, client_ids=sorted(opinion.client_ids))
            for _, connection in found
            for opinion in connection.subscription_opinions or ()
        }
        topics = [topic for topic, _, _ in seen]
        return GroupSubscriptions(
            group=group,
            consistent=not opinions and len(topics) == len(set(topics)),
            subscriptions=[seen[key] for key in sorted(seen)],
            opinions=[opinions[key] for key in sorted(opinions)],
        )

    # Requests to brokers

    async def _connections(self, group: str) -> list[tuple[BrokerAt, ConsumerConnection]]:
        masters = await self._access.masters()
        answers = await each(masters, lambda broker: self.connection_at(broker, group))
        found = [(broker, answer) for broker, answer in zip(masters, answers, strict=True) if answer is not None]
        if not found:
            await self._found(group, EVERYWHERE)
        return found

    async def connection_at(self, broker: BrokerAt, group: str) -> ConsumerConnection | None:
        """Return the members of a group at one broker; None if none is connected."""
        reply = await self._access.ask(
            broker,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            GetConsumerConnectionListHeader(consumer_group=group),
            accept=SUCCESS | {int(ResponseCode.CONSUMER_NOT_ONLINE)},
        )
        if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        return decode_body(reply.body, ConsumerConnection)

    async def _producers(self, broker: BrokerAt, group: str) -> list[Connection]:
        reply = await self._access.ask(
            broker,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            GetProducerConnectionListHeader(producer_group=group),
            accept=SUCCESS | {int(ResponseCode.SYSTEM_ERROR)},  # a broker's answer for a group without any
        )
        if reply.code == ResponseCode.SYSTEM_ERROR:
            return []
        return decode_body(reply.body, ProducerConnection).connection_set

    async def stats_at(self, broker: BrokerAt, group: str, topic: str | None = None) -> ConsumeStats:
        """Return the progress of a group at one broker."""
        header = GetConsumeStatsHeader(consumer_group=group, topic=topic)
        return await self._access.ask_for(broker, RequestCode.GET_CONSUME_STATS, ConsumeStats, header)

    async def configs_at(self, broker: BrokerAt) -> Mapping[str, SubscriptionGroupConfig]:
        """Return the settings of all groups that one broker knows."""
        table = await self._access.ask_for(broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable)
        return table.subscription_group_table

    async def _found(self, group: str, where: Where) -> list[tuple[BrokerAt, SubscriptionGroupConfig]]:
        masters = await self._access.masters(where)
        tables = await each(masters, self.configs_at)
        found = [(broker, table[group]) for broker, table in zip(masters, tables, strict=True) if group in table]
        if not found:
            names = ", ".join(broker.broker for broker in masters)
            raise SubscriptionGroupNotExist(f"no broker of {names} knows group {group}: see group list")
        return found

    async def _put(self, broker: BrokerAt, config: SubscriptionGroupConfig) -> None:
        await self._access.ask(broker, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))


def members_of(group: str, found: Sequence[tuple[BrokerAt, ConsumerConnection]]) -> GroupMembers:
    """Return the members of a group, from the brokers at which some are connected."""
    first = found[0][1] if found else None
    return GroupMembers(
        group=group,
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        consume_from_where=first.consume_from_where if first else None,
        members=_members((broker, connection.connection_set) for broker, connection in found),
    )


def _members(found: Iterable[tuple[BrokerAt, Iterable[Connection]]]) -> list[Member]:
    """Return the clients that brokers list, each once."""
    members: dict[str, Member] = {}
    for broker, clients in found:
        for client in clients:
            client_id = client.client_id or ""
            known = members.get(client_id)
            members[client_id] = Member(
                client_id=client_id,
                address=client.client_addr or "",
                language=client.language or "",
                version=client.version,
                brokers=[*(known.brokers if known else ()), broker.broker],
            )
    return [members[name] for name in sorted(members)]


def _changed(config: SubscriptionGroupConfig, change: GroupChange) -> SubscriptionGroupConfig:
    new = {
        "consume_enable": change.consume_enabled,
        "consume_broadcast_enable": change.broadcast_enabled,
        "consume_from_min_enable": change.from_min_enabled,
        "retry_max_times": change.retry_max,
        "retry_queue_nums": change.retry_queues,
    }
    return msgspec.structs.replace(config, **{name: value for name, value in new.items() if value is not None})


def _settings(broker: BrokerAt, config: SubscriptionGroupConfig) -> GroupSettings:
    return GroupSettings(
        cluster=broker.cluster,
        broker=broker.broker,
        consume_enabled=config.consume_enable,
        broadcast_enabled=config.consume_broadcast_enable,
        from_min_enabled=config.consume_from_min_enable,
        retry_max=config.retry_max_times,
        retry_queues=config.retry_queue_nums,
    )


def _running(client: Connection, body: bytes) -> RunningInfo:
    if not body:  # Go clients support the request, but some of their versions return nothing
        return RunningInfo(
            client_id=client.client_id or "",
            properties={
                "address": client.client_addr or "",
                "language": client.language or "",
                "version": str(client.version),
            },
            queues=[],
            topics=[],
            stacks="",
            missing=_NO_INFO,
        )
    info = decode_body(body, ConsumerRunningInfo)
    return RunningInfo(
        client_id=client.client_id or "",
        properties=info.properties,
        queues=[
            HeldQueue(
                topic=queue.topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                group_offset=held.commit_offset,
                cached=held.cached_msg_count,
                locked=held.locked,
                last_pulled=max(held.last_pull_timestamp, 0),
                last_consumed=max(held.last_consume_timestamp, 0),
            )
            for queue, held in sorted(info.mq_table.items())
        ],
        topics=[
            TopicSpeed(
                topic=topic,
                ok_tps=status.consume_ok_tps,
                failed_tps=status.consume_failed_tps,
                consume_ms=status.consume_rt,
                pull_tps=status.pull_tps,
                pull_ms=status.pull_rt,
            )
            for topic, status in sorted(info.status_table.items())
        ],
        stacks=info.jstack or "",
    )


def progress_of(table: ConsumeStats) -> list[QueueProgress]:
    """Return the progress in each queue, from the answer of one broker."""
    return [
        QueueProgress(
            topic=queue.topic,
            broker=queue.broker_name,
            queue_id=queue.queue_id,
            max_offset=offset.broker_offset,
            group_offset=offset.consumer_offset,
            lag=offset.broker_offset - offset.consumer_offset,
            last_consumed=max(offset.last_timestamp, 0),
            in_flight=max(offset.pull_offset - offset.consumer_offset, 0),
        )
        for queue, offset in table.offset_table.items()
    ]


def _lag(queue: QueueProgress) -> int:
    return queue.lag
