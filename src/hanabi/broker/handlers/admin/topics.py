"""Topics: create, change, delete and show them, and the content of their queues.

    17   create or change one        18   many at once (5.x)          215  delete one
    21   all of them                 351  one of them (5.x)           305  those of the broker itself
    202  content of the queues       300  groups that consume one

Agrees with AdminBrokerProcessor (4.9.8; 5.3.3 where marked). Deleting a topic deletes its queues, its statistics and
the offsets of all groups, as in 5.x: a topic of the same name restarts at 0, and old offsets would skip messages.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.handlers.admin.support.limits import LIST_BYTES_MAX, NO_BODY_BYTES_MAX, QUEUES_MAX
from hanabi.broker.handlers.admin.support.long_body import CHUNK, ENTRY_BYTES, LongBody
from hanabi.broker.handlers.admin.support.offset_removal import forget_topic
from hanabi.broker.handlers.admin.support.queue_removal import QueueRemoval
from hanabi.broker.handlers.admin.support.slave import refuse_on_slave
from hanabi.broker.handlers.admin.support.topic_attributes import changed_attributes
from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.topics import Topics, validate_topic
from hanabi.errors import TopicNotExist, UnknownReplyError
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.groups import GroupList
from hanabi.wire.bodies.of_5 import topics_of_5
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.bodies.stats import TopicOffset, TopicStatsTable
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigList
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.topic import (
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
)
from hanabi.wire.system_names import SYSTEM_TOPICS

logger = logging.getLogger(__name__)

Registered = Callable[[], Awaitable[None]]


def topic_change_handlers(
    topics: Topics,
    settings: Settings,
    removal: QueueRemoval,
    offsets: ConsumerOffsets,
    stats: BrokerStats,
    registered: Registered,
) -> dict[int, Handler]:
    """Return the handlers that change topics. *registered* returns when the name servers know the change, or on
    timeout."""
    changes = TopicChangeHandlers(topics, settings, removal, offsets, stats, registered)
    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: Handler(CreateTopicHeader, changes.update, NO_BODY_BYTES_MAX),
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Handler(NoHeader, changes.update_many, LIST_BYTES_MAX),
        RequestCode.DELETE_TOPIC_IN_BROKER: Handler(DeleteTopicHeader, changes.delete, NO_BODY_BYTES_MAX),
    }


def topic_view_handlers(
    topics: Topics,
    settings: Settings,
    store: MessageStore,
    stats: BrokerStats,
    consumers: Consumers,
    offsets: ConsumerOffsets,
) -> dict[int, Handler]:
    """Return the handlers that show topics."""
    views = TopicViewHandlers(topics, settings, store, stats, consumers, offsets)
    return {
        RequestCode.GET_ALL_TOPIC_CONFIG: Handler(NoHeader, views.all, NO_BODY_BYTES_MAX),
        RequestCode.GET_TOPIC_CONFIG: Handler(GetTopicConfigHeader, views.one, NO_BODY_BYTES_MAX),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Handler(NoHeader, views.of_the_system, NO_BODY_BYTES_MAX),
        RequestCode.GET_TOPIC_STATS_INFO: Handler(
            GetTopicStatsInfoHeader, views.stats, NO_BODY_BYTES_MAX, answer_bytes=views.stats_bytes
        ),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Handler(
            QueryTopicConsumeByWhoHeader, views.consumed_by, NO_BODY_BYTES_MAX
        ),
    }


class TopicChangeHandlers:
    """Handlers that create, change or delete topics."""

    def __init__(
        self,
        topics: Topics,
        settings: Settings,
        removal: QueueRemoval,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        registered: Registered,
    ) -> None:
        self._topics, self._settings, self._removal = topics, settings, removal
        self._offsets, self._stats, self._registered = offsets, stats, registered

    async def update(self, header: CreateTopicHeader, _: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        topic = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        self._check(topic)
        known = self._topics.newest(topic.topic_name)
        attributes = changed_attributes(known.attributes if known else None, header.attributes, is_new=known is None)
        await self._topics.update(msgspec.structs.replace(topic, attributes=attributes))
        logger.info("%s: topic %s is created or changed", connection.peer, topic.topic_name)
        await self._registered()
        return Reply()

    async def update_many(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        asked = decode_body(request.body, TopicConfigList).topic_config_list
        pace = Yielder()
        for topic in asked:  # all are checked before the first is created
            self._check(topic)
            self._with_attributes(topic)
            await pace.pause()
        await self._topics.update(*map(self._with_attributes, asked))
        logger.info("%s: %d topics are created or changed", connection.peer, len(asked))
        await self._registered()
        return Reply()

    async def delete(self, header: DeleteTopicHeader, _: Command, connection: Connection) -> Reply:
        refuse_on_slave(self._settings)
        topic = header.topic
        self._check_name(topic)
        count = await uncancelled(self._delete(topic))
        logger.info("%s: topic %s is deleted, with %d queues", connection.peer, topic, count)
        await self._registered()
        return Reply()

    async def _delete(self, topic: str) -> int:
        await self._topics.delete(topic)
        await forget_topic(self._offsets, topic)
        count = await self._removal.remove_topic(topic)
        self._stats.remove_topic(topic)
        return count

    def _with_attributes(self, topic: TopicConfig) -> TopicConfig:
        """Return the topic with its existing attributes, changed as *topic* says."""
        known = self._topics.newest(topic.topic_name)
        if topic.attributes is None and (known is None or known.attributes is None):
            return topic
        text = ",".join(f"{key}={value}" if value else key for key, value in (topic.attributes or {}).items())
        attributes = changed_attributes(known.attributes if known else None, text, is_new=known is None)
        return msgspec.structs.replace(topic, attributes=attributes)

    def _check(self, topic: TopicConfig) -> None:
        self._check_name(topic.topic_name)
        for count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= count <= QUEUES_MAX:
                raise UnknownReplyError(f"topic {topic.topic_name} cannot have {count} queues, limit {QUEUES_MAX}")

    def _check_name(self, topic: str) -> None:
        why_not = validate_topic(topic)
        if why_not is not None:
            raise UnknownReplyError(why_not)
        if self._topics.is_system(topic):
            raise UnknownReplyError(f"The topic[{topic}] is conflict with system topic.")


def _queue_nums(topic: TopicConfig) -> int:
    return max(topic.write_queue_nums, topic.read_queue_nums)


class TopicViewHandlers:
    """Handlers that show topics."""

    def __init__(
        self,
        topics: Topics,
        settings: Settings,
        store: MessageStore,
        stats: BrokerStats,
        consumers: Consumers,
        offsets: ConsumerOffsets,
    ) -> None:
        self._topics, self._settings, self._store, self._stats = topics, settings, store, stats
        self._consumers, self._offsets = consumers, offsets

    def all(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        table = self._topics.table()
        return Reply(body=encode_body(topics_of_5(table) if request.version >= V5_0_0 else table))

    def one(self, header: GetTopicConfigHeader, _: Command, connection: Connection) -> Reply:
        topic = self._topics.find(header.topic)
        if topic is None:
            raise TopicNotExist(f"No topic in this broker. topic: {header.topic}")
        # Only 5.x clients ask, and they always need these.
        return Reply(body=encode_body(msgspec.structs.replace(topic, attributes=topic.attributes or {})))

    def of_the_system(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        names = SYSTEM_TOPICS.union(name for name in self._topics.names() if self._topics.is_system(name))
        return Reply(body=encode_body(TopicList(topic_list=sorted(names))))

    async def stats(self, header: GetTopicStatsInfoHeader, _: Command, connection: Connection) -> Reply:
        topic = self._topics.find(header.topic)
        if topic is None:
            raise TopicNotExist(f"topic[{header.topic}] not exist")
        table, pace, broker_name = LongBody(), Yielder(), self._settings.broker.broker_name
        queue_nums = _queue_nums(topic)
        for first in range(0, queue_nums, CHUNK):
            queues: dict[MessageQueue, TopicOffset] = {}
            for queue_id in range(first, min(first + CHUNK, queue_nums)):
                queues[MessageQueue(header.topic, broker_name, queue_id)] = self._queue_stats(header.topic, queue_id)
                await pace.pause()
            table.add(queues, dict[MessageQueue, TopicOffset])
        empty = encode_body(TopicStatsTable(topic_put_tps=self._stats.topic_put_tps(header.topic)))
        return Reply(body=table.within(empty, b'"offsetTable":{'))

    def stats_bytes(self, header: GetTopicStatsInfoHeader) -> int:
        """Return how much memory the answer of `stats` takes."""
        topic = self._topics.find(header.topic)
        return ENTRY_BYTES * _queue_nums(topic) if topic is not None else 0

    def _queue_stats(self, topic: str, queue_id: int) -> TopicOffset:
        reader = self._store.reader
        return TopicOffset(
            min_offset=reader.min_offset(topic, queue_id),
            max_offset=reader.max_offset(topic, queue_id),
            last_update_timestamp=max(0, self._store.queries.latest_store_time(topic, queue_id)),
        )

    def consumed_by(self, header: QueryTopicConsumeByWhoHeader, _: Command, connection: Connection) -> Reply:
        groups = self._consumers.groups_of_topic(header.topic) | self._offsets.groups_of(header.topic)
        return Reply(body=encode_body(GroupList(group_list=sorted(groups))))
