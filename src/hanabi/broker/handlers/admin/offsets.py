"""Offsets of groups for administrators: copied as a whole, compared, and cloned from one group to another.

    43   the offsets of all groups          45   how far delayed messages have been delivered
    303  the times of a group's messages    308  the lowest offsets among groups    314  one group's offsets to another

A slave copies 43 and 45. Requests that involve a group's members (reset, their own offsets) are in
`handlers/client_calls.py`; single offsets are in `handlers/offsets.py`. Agrees with AdminBrokerProcessor and
ConsumerOffsetManager (4.9.8), but for two mistakes: asking for the lowest offsets without some groups (308) does not
delete the offsets of those groups, and 314 without a topic takes all topics.
"""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX
from hanabi.broker.handlers.admin.support.long_body import CHUNK, ENTRY_BYTES, LongBody
from hanabi.broker.handlers.admin.support.time_span_5 import time_span_of_5
from hanabi.broker.handlers.admin.support.uncancelled import uncancelled
from hanabi.broker.handlers.yielding import Yielder
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.errors import TopicNotExist
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.of_5 import QueueTimeSpan5, version_of_5
from hanabi.wire.bodies.offsets import ConsumeTimeSpans, CorrectionOffsets, DelayOffsetTable, QueueTimeSpan
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import V5_0_0, Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.group import QueryConsumeTimeSpanHeader
from hanabi.wire.headers.offset import CloneGroupOffsetHeader, QueryCorrectionOffsetHeader

logger = logging.getLogger(__name__)

NEVER = 2**63 - 1  # "no offset": the requesting group is ahead of all other groups

DelayOffsets = Callable[[], Mapping[int, int]]  # delay level -> delivered up to


class OffsetVersions(Protocol):
    """Versions of a slave's tables, by which a returning master of 5.x decides whether to take them."""

    def offsets_version(self, now_ms: int) -> DataVersion: ...
    def delays_version(self, now_ms: int) -> DataVersion: ...


class _OwnVersions:
    """Versions of a master's tables: offsets change all the time, so each copy has its own."""

    def offsets_version(self, now_ms: int) -> DataVersion:
        return DataVersion(timestamp=now_ms)

    delays_version = offsets_version


def offset_table_handlers(
    offsets: ConsumerOffsets,
    delay_offsets: DelayOffsets,
    now_ms: Callable[[], int],
    copied: Callable[[], OffsetVersions | None] = lambda: None,
) -> dict[int, Handler]:
    """Return the handlers of the tables that slaves and exporters copy. *copied* returns a slave's versions."""
    own = _OwnVersions()

    async def all_groups(_header: NoHeader, request: Command, _connection: Connection) -> Reply:
        pace, members = Yielder(), []
        for member in offsets.encoded_members():
            members.append(member)
            await pace.pause()
        table = b'"offsetTable":{%b}' % b",".join(members)
        if request.version < V5_0_0:
            return Reply(body=b"{%b}" % table)
        topics = b",".join([member async for member in _topics_of_groups(offsets, pace)])
        version = encode_body(version_of_5((copied() or own).offsets_version(now_ms())))
        return Reply(body=b'{"dataVersion":%b,"groupTopicMap":{%b},%b}' % (version, topics, table))

    def all_levels(_header: NoHeader, request: Command, _connection: Connection) -> Reply:
        table = encode_body(DelayOffsetTable(offset_table=dict(delay_offsets())))
        if request.version < V5_0_0:
            return Reply(body=table)
        version = encode_body(version_of_5((copied() or own).delays_version(now_ms())))
        return Reply(body=b'{"dataVersion":%b,%b' % (version, table[1:]))

    return {
        RequestCode.GET_ALL_CONSUMER_OFFSET: Handler(NoHeader, all_groups, NO_BODY_BYTES_MAX),
        RequestCode.GET_ALL_DELAY_OFFSET: Handler(NoHeader, all_levels, NO_BODY_BYTES_MAX),
    }


async def _topics_of_groups(offsets: ConsumerOffsets, pace: Yielder) -> AsyncIterator[bytes]:
    """Yield each group with the topics in which it has an offset."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for topic, group in offsets.each_topic_and_group():
        topics[group].append(topic)
        await pace.pause()
    for group, its_topics in topics.items():
        yield b"%b:%b" % (encode_body(group), encode_body(its_topics))
        await pace.pause()


def group_progress_handlers(
    offsets: ConsumerOffsets,
    store: MessageStore,
    topics: Topics,
    consumers: Consumers,
    settings: Settings,
    now_ms: Callable[[], int],
) -> dict[int, Handler]:
    """Return the handlers that compare and copy the progress of groups."""
    handlers = GroupProgressHandlers(offsets, store, topics, consumers, settings, now_ms)
    return {
        RequestCode.QUERY_CONSUME_TIME_SPAN: Handler(
            QueryConsumeTimeSpanHeader,
            handlers.time_spans,
            NO_BODY_BYTES_MAX,
            answer_bytes=handlers.time_spans_bytes,
        ),
        RequestCode.QUERY_CORRECTION_OFFSET: Handler(
            QueryCorrectionOffsetHeader, handlers.correction, NO_BODY_BYTES_MAX
        ),
        RequestCode.CLONE_GROUP_OFFSET: Handler(CloneGroupOffsetHeader, handlers.clone, NO_BODY_BYTES_MAX),
    }


class GroupProgressHandlers:
    """Handlers that compare the progress of groups with the queues and with each other."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        store: MessageStore,
        topics: Topics,
        consumers: Consumers,
        settings: Settings,
        now_ms: Callable[[], int],
    ) -> None:
        self._offsets, self._store, self._topics, self._consumers = offsets, store, topics, consumers
        self._settings, self._now_ms = settings, now_ms

    async def time_spans(self, header: QueryConsumeTimeSpanHeader, request: Command, connection: Connection) -> Reply:
        topic = self._topics.find(header.topic)
        if topic is None:
            raise TopicNotExist(f"topic[{header.topic}] not exist")
        spans, pace = LongBody(), Yielder()
        for first in range(0, topic.write_queue_nums, CHUNK):
            some: list[QueueTimeSpan] = []
            for queue_id in range(first, min(first + CHUNK, topic.write_queue_nums)):
                some.append(self._time_span(header.group, header.topic, queue_id))
                await pace.pause()
            if request.version >= V5_0_0:
                spans.add(list(map(time_span_of_5, some)), list[QueueTimeSpan5])
            else:
                spans.add(some, list[QueueTimeSpan])
        return Reply(body=spans.within(encode_body(ConsumeTimeSpans()), b'"consumeTimeSpanSet":['))

    def time_spans_bytes(self, header: QueryConsumeTimeSpanHeader) -> int:
        """Return how much memory the answer of `time_spans` takes."""
        topic = self._topics.find(header.topic)
        return ENTRY_BYTES * topic.write_queue_nums if topic is not None else 0

    def _time_span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        queries = self._store.queries
        earliest_ms = queries.earliest_store_time(topic, queue_id)
        offset = self._offsets.find(group, topic, queue_id)
        delay_ms = 0
        if offset < self._store.reader.max_offset(topic, queue_id):
            next_ms = queries.store_time(topic, queue_id, max(offset, self._store.reader.min_offset(topic, queue_id)))
            delay_ms = self._now_ms() - next_ms if next_ms >= 0 else 0
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._settings.broker.broker_name, queue_id),
            min_time_stamp=earliest_ms,
            max_time_stamp=queries.latest_store_time(topic, queue_id),
            consume_time_stamp=queries.store_time(topic, queue_id, offset - 1) if offset > 0 else earliest_ms,
            delay_time=delay_ms,
        )

    async def correction(self, header: QueryCorrectionOffsetHeader, _: Command, connection: Connection) -> Reply:
        topic, pace = header.topic, Yielder()
        excluded = set((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic) - excluded:
            for queue_id, offset in self._offsets.of(group, topic).items():
                if offset >= self._store.reader.min_offset(topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, NEVER))
                await pace.pause()
        for queue_id, offset in self._offsets.of(header.compare_group, topic).items():
            if lowest.get(queue_id, NEVER) > offset:
                lowest[queue_id] = NEVER
        return Reply(body=encode_body(CorrectionOffsets(correction_offsets=lowest)))

    async def clone(self, header: CloneGroupOffsetHeader, _: Command, connection: Connection) -> Reply:
        topics = {header.topic} if header.topic and header.topic.strip() else self._offsets.topics_of(header.src_group)
        count = await uncancelled(self._clone(header, topics))
        logger.info(
            "%s: group %s got the offsets of %s in %d topics%s",
            connection.peer,
            header.dest_group,
            header.src_group,
            count,
            f": {header.topic}" if header.topic and count else "",
        )
        return Reply()

    async def _clone(self, header: CloneGroupOffsetHeader, topics: set[str]) -> int:
        pace, count = Yielder(), 0
        for topic in topics:
            await pace.pause()
            group = self._consumers.find_group(header.src_group)
            if not header.offline and group is not None and group.subscriptions and topic not in group.subscriptions:
                continue  # it consumes, but no longer this topic
            if topic in self._topics:
                self._offsets.clone(header.src_group, header.dest_group, topic)
                count += 1
        return count
