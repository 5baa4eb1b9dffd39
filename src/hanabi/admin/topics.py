"""Topics: list, create, change and delete them; their routes and contents.

Sends the requests of mqadmin's updateTopic, updateTopicPerm, deleteTopic, topicList, topicRoute and topicStatus, with
one difference: creating and changing are separate here.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from hanabi.admin.access import EVERYWHERE, Access, BrokerAt, Where, each
from hanabi.admin.answer import Answer
from hanabi.errors import ConfigError, InvalidParameter, MQError, TopicNotExist, TransportError
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.bodies.stats import TopicStatsTable
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.namesrv import DeleteKVConfigHeader, DeleteTopicInNamesrvHeader, PutKVConfigHeader
from hanabi.wire.headers.topic import CreateTopicHeader, DeleteTopicHeader, GetTopicStatsInfoHeader
from hanabi.wire.system_names import DEAD_LETTER_PREFIX, DEFAULT_TOPIC, RETRY_PREFIX, is_system

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
CHANGE_SECONDS: Final = 10.0  # a broker answers when its name servers know of the change


class TopicOnBroker(Answer, frozen=True, kw_only=True):
    """Settings of a topic on one broker."""

    cluster: str
    broker: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool
    attributes: dict[str, str]


class TopicSummary(Answer, frozen=True, kw_only=True):
    """Summary of a topic. Its kind is normal, retry, dead-letter or system."""

    topic: str
    kind: str
    brokers: list[TopicOnBroker]


class TopicListing(Answer, frozen=True, kw_only=True):
    """All topics that the name server knows; those on unreachable brokers have no settings."""

    topics: list[TopicSummary]
    unreachable: list[str]


class RouteEntry(Answer, frozen=True, kw_only=True):
    """Part of a topic that one broker serves, and its addresses by broker id; the master's is 0. `message_type` is
    null if the topic has none, or if the broker does not answer: name servers do not know it."""

    cluster: str
    broker: str
    read_queues: int
    write_queues: int
    perm: int
    message_type: str | None
    addresses: dict[int, str]


class QueueStatus(Answer, frozen=True, kw_only=True):
    """Contents of a queue: messages from `min_offset` up to, but without, `max_offset`."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    last_stored: int


class TopicStatus(Answer, frozen=True, kw_only=True):
    """Contents of a topic."""

    topic: str
    messages: int
    queues: list[QueueStatus]


class TopicChange(Answer, frozen=True, kw_only=True):
    """Changes of a topic; None stays as it is. `attributes` is 5.x's: +name=value or -name, with commas."""

    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: str | None = None


def kind_of(topic: str, system_topics: frozenset[str] = frozenset()) -> str:
    """Return the kind of a topic, by its name."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead-letter"
    return "system" if topic in system_topics or is_system(topic) else "normal"


class Topics:
    """Queries and actions about topics."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def names(self) -> list[str]:
        """Return the names of all topics that name servers know."""
        reply = await self._access.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(decode_body(reply.body, TopicList).topic_list)

    async def all(self, where: Where = EVERYWHERE) -> TopicListing:
        """Return all topics, with their settings on each broker."""
        access = self._access
        names = set(await self.names())
        masters = await access.masters(where)
        unreachable: list[str] = []

        async def tables(broker: BrokerAt) -> tuple[BrokerAt, dict[str, TopicConfig], set[str]]:
            try:
                configs = await self.configs_at(broker)
                system = await access.ask_for(broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, TopicList)
            except TransportError as error:
                unreachable.append(str(error))
                return broker, {}, set()
            return broker, configs, set(system.topic_list)

        found = await each(masters, tables)
        system_topics = frozenset(
            {broker.broker for broker in masters}
            | {broker.cluster for broker in masters}
            | {name for _, _, system in found for name in system}
        )
        on_brokers: dict[str, list[TopicOnBroker]] = {} if where != EVERYWHERE else {name: [] for name in names}
        for broker, configs, _ in found:
            for name, config in configs.items():
                if name in names:  # clients cannot reach topics that a broker does not register
                    on_brokers.setdefault(name, []).append(_on_broker(broker, config))
        return TopicListing(
            topics=[
                TopicSummary(topic=name, kind=kind_of(name, system_topics), brokers=on_brokers[name])
                for name in sorted(on_brokers)
            ],
            unreachable=sorted(unreachable),
        )

    async def settings(self, topic: str, where: Where = EVERYWHERE) -> list[TopicOnBroker]:
        """Return the settings of *topic* on each broker that has it; raise TopicNotExist if none has."""
        found = await self._found(topic, where)
        return [_on_broker(broker, config) for broker, config in found]

    async def create(
        self,
        topic: str,
        *,
        read_queues: int = 8,
        write_queues: int = 8,
        perm: int = 6,
        order: bool = False,
        attributes: str = "",
        where: Where = EVERYWHERE,
    ) -> list[TopicOnBroker]:
        """Create a topic on the masters of a cluster, or on one broker. Raise if it exists."""
        masters = await self._access.masters_of_one_cluster(where)
        have = [broker.broker for broker, config in await self._look(topic, masters) if config is not None]
        if have:
            raise InvalidParameter(f"topic {topic} exists already, on {', '.join(have)}: change it with topic update")
        config = TopicConfig(
            topic_name=topic, read_queue_nums=read_queues, write_queue_nums=write_queues, perm=perm, order=order
        )
        if order:  # first, as brokers clear the ordered flag when the name servers do not have it
            await self._fix_order(topic, masters, write_queues)
        try:
            for broker in masters:
                await self._put(broker, config, attributes)
        except MQError:
            if order:
                await self._free_order(topic)
            raise
        if attributes:
            return await self.settings(topic, where)
        return [_on_broker(broker, config) for broker in masters]

    async def update(self, topic: str, change: TopicChange, where: Where = EVERYWHERE) -> list[TopicOnBroker]:
        """Change a topic on the brokers that have it; other settings stay as they are on each of them."""
        found = await self._found(topic, where)
        changed = [(broker, _changed(config, change)) for broker, config in found]
        if change.order:
            await self._fix_order(topic, [broker for broker, _ in changed], changed[0][1].write_queue_nums)
        elif change.order is False:
            await self._free_order(topic)
        for broker, config in changed:
            await self._put(broker, config, change.attributes or "")
        return await self.settings(topic, where)

    async def delete(self, topic: str, cluster: str | None = None) -> list[str]:
        """Delete a topic, with its messages and the offsets of its groups, in all clusters or in one.

        Return the brokers that had it. A topic that only name servers know is removed there.
        """
        masters = await self._access.masters(Where(cluster=cluster))
        have = [broker for broker, config in await self._look(topic, masters) if config is not None]
        if not have:
            await self._known(topic)
        for broker in have:
            await self._access.ask(
                broker, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=topic), seconds=CHANGE_SECONDS
            )
        await self._access.ask_all_name_servers(
            RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic, cluster_name=cluster)
        )
        await self._free_order(topic)
        return [broker.broker for broker in have]

    async def messages_to_delete(self, topic: str) -> int:
        """Return how many messages would be deleted with a topic."""
        await self._known(topic)
        return (await self.status(topic)).messages

    async def _known(self, topic: str) -> None:
        """Raise if no name server knows *topic*. Automatic creation does not count, as the caller wants to delete
        it.
        """
        try:
            await self._access.route(topic)
        except TopicNotExist as error:
            raise TopicNotExist(
                f"there is no topic {topic}, so nothing is deleted; `hanabi topic list` shows those there are"
            ) from error

    async def route(self, topic: str) -> list[RouteEntry]:
        """Return the route of a topic, as the name server sends it to clients, with the type that brokers keep."""
        types = await self._message_types(topic)
        source = (await self._access.route(topic)).source
        addresses = {data.broker_name: data for data in source.broker_datas}
        return [
            RouteEntry(
                cluster=data.cluster if (data := addresses.get(queue.broker_name)) else "",
                broker=queue.broker_name,
                read_queues=queue.read_queue_nums,
                write_queues=queue.write_queue_nums,
                perm=queue.perm,
                message_type=types.get(queue.broker_name),
                addresses=dict(sorted(data.broker_addrs.items())) if data else {},
            )
            for queue in source.queue_datas
        ]

    async def _message_types(self, topic: str) -> dict[str, str | None]:
        """Return the message type of *topic* by broker; of brokers that do not answer, nothing."""

        async def message_type(broker: BrokerAt) -> tuple[str, str | None]:
            try:
                config = (await self.configs_at(broker)).get(topic)
            except MQError:
                return broker.broker, None
            return broker.broker, (config.attributes or {}).get("message.type") if config else None

        return dict(await each(await self._access.topic_readers(topic), message_type))

    async def status(self, topic: str) -> TopicStatus:
        """Return the contents of each queue of a topic, and its last store time."""
        masters = await self._access.topic_masters(topic)
        found = await each(masters, lambda broker: self.queues_at(broker, topic))
        queues = [queue for at_broker in found for queue in at_broker]
        return TopicStatus(topic=topic, messages=sum(queue.messages for queue in queues), queues=queues)

    async def queues_at(self, broker: BrokerAt, topic: str) -> list[QueueStatus]:
        """Return the contents of each queue of a topic at one broker."""
        header = GetTopicStatsInfoHeader(topic=topic)
        table = await self._access.ask_for(broker, RequestCode.GET_TOPIC_STATS_INFO, TopicStatsTable, header)
        return [
            QueueStatus(
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=max(offset.min_offset, 0),
                max_offset=offset.max_offset,
                messages=offset.max_offset - max(offset.min_offset, 0),
                last_stored=max(offset.last_update_timestamp, 0),
            )
            for queue, offset in sorted(table.offset_table.items())
        ]

    async def configs_at(self, broker: BrokerAt) -> dict[str, TopicConfig]:
        """Return all of the broker's topics: requesting a single one is 5.x's."""
        table = await self._access.ask_for(broker, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
        return table.topic_config_table

    async def _look(self, topic: str, brokers: Sequence[BrokerAt]) -> list[tuple[BrokerAt, TopicConfig | None]]:
        tables = await each(brokers, self.configs_at)
        return [(broker, table.get(topic)) for broker, table in zip(brokers, tables, strict=True)]

    async def _found(self, topic: str, where: Where) -> list[tuple[BrokerAt, TopicConfig]]:
        masters = await self._access.masters(where)
        looked = await self._look(topic, masters)
        found = [(broker, config) for broker, config in looked if config is not None]
        if not found:
            raise TopicNotExist(f"no broker of {', '.join(broker.broker for broker in masters)} has topic {topic}")
        return found

    async def _put(self, broker: BrokerAt, config: TopicConfig, attributes: str) -> None:
        header = CreateTopicHeader(
            topic=config.topic_name,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=attributes or None,
        )
        await self._access.ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header, seconds=CHANGE_SECONDS)

    async def _fix_order(self, topic: str, brokers: Sequence[BrokerAt], queues: int) -> None:
        """Have the name servers fix the queues even while a broker is down, so that the order of keys stays."""
        value = ";".join(f"{broker.broker}:{queues}" for broker in brokers)
        header = PutKVConfigHeader(namespace=ORDER_NAMESPACE, key=topic, value=value)
        await self._access.ask_all_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def _free_order(self, topic: str) -> None:
        header = DeleteKVConfigHeader(namespace=ORDER_NAMESPACE, key=topic)
        accept = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})
        await self._access.ask_all_name_servers(RequestCode.DELETE_KV_CONFIG, header, accept=accept)


def _changed(config: TopicConfig, change: TopicChange) -> TopicConfig:
    new = {
        "read_queue_nums": change.read_queues,
        "write_queue_nums": change.write_queues,
        "perm": change.perm,
        "order": change.order,
    }
    given = {name: value for name, value in new.items() if value is not None}
    if not given and not change.attributes:
        raise ConfigError(f"nothing to change of topic {config.topic_name}: give a setting")
    return msgspec.structs.replace(config, **given)


def _on_broker(broker: BrokerAt, config: TopicConfig) -> TopicOnBroker:
    return TopicOnBroker(
        cluster=broker.cluster,
        broker=broker.broker,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        perm=config.perm,
        order=config.order,
        attributes=config.attributes or {},
    )
