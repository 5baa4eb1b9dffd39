"""Offsets of groups (14, 15), and the first, last and by-time offsets of queues (29 to 32).

Agrees with ConsumerManageProcessor and AdminBrokerProcessor (4.9.8). From 5.x: only an existing group and topic get an
offset, since any peer can name them; a client may ask not to be set to 0; a search by time takes a boundary.
"""

from typing import Final

from hanabi.broker.offsets.commit_rules import CommitRules
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.message_store import MessageStore
from hanabi.store.read.offset_by_time import BoundaryType
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.offset import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

BODY_BYTES_MAX: Final = 1024  # none of them has a body


def offset_handlers(
    store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets, commits: CommitRules
) -> dict[int, Handler]:
    """Return the handlers of offsets."""
    of_groups = GroupOffsets(store, topics, groups, offsets, commits)
    of_queues = QueueOffsets(store)
    return {
        RequestCode.QUERY_CONSUMER_OFFSET: Handler(QueryConsumerOffsetHeader, of_groups.query, BODY_BYTES_MAX),
        RequestCode.UPDATE_CONSUMER_OFFSET: Handler(UpdateConsumerOffsetHeader, of_groups.update, BODY_BYTES_MAX),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Handler(SearchOffsetHeader, of_queues.at_time, BODY_BYTES_MAX),
        RequestCode.GET_MAX_OFFSET: Handler(GetMaxOffsetHeader, of_queues.end, BODY_BYTES_MAX),
        RequestCode.GET_MIN_OFFSET: Handler(GetMinOffsetHeader, of_queues.begin, BODY_BYTES_MAX),
        RequestCode.GET_EARLIEST_MSG_STORETIME: Handler(
            GetEarliestMsgStoretimeHeader, of_queues.earliest_time, BODY_BYTES_MAX
        ),
    }


class GroupOffsets:
    """Committed offsets of groups."""

    def __init__(
        self, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets, commits: CommitRules
    ) -> None:
        self._reader = store.reader
        self._topics, self._groups, self._offsets, self._commits = topics, groups, offsets, commits

    def query(self, asked: QueryConsumerOffsetHeader, _request: Command, _connection: Connection) -> Reply:
        """Return the group's offset. A new group gets 0 in a young queue whose first message is still there, so that it
        misses nothing sent before its first consumer. Elsewhere the consumer chooses its own start."""
        topic, queue_id = asked.topic, asked.queue_id
        offset = self._offsets.find(asked.consumer_group, topic, queue_id)
        if offset >= 0:
            return _offset(offset)
        if asked.set_zero_if_not_found is False:
            return Reply(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
        if self._reader.min_offset(topic, queue_id) <= 0 and not self._reader.is_on_disk(topic, queue_id, 0):
            return _offset(0)
        return Reply(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def update(self, asked: UpdateConsumerOffsetHeader, _request: Command, connection: Connection) -> Reply:
        """Commit the group's offset. A late one is ignored, which is success: a better one is stored."""
        group, topic, queue_id, offset = asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset
        config = self._topics.find(topic)
        if config is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if self._groups.find(group) is None:
            return Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if not _has_queue(config, queue_id) or offset < 0:
            return Reply(
                ResponseCode.SYSTEM_ERROR,
                f"offset {offset} of queueId[{queue_id}] is illegal, topic:[{topic}]"
                f" topicConfig.readQueueNums:[{config.read_queue_nums}]",
            )
        increase_only = bool(asked.increase_only)
        if self._commits.commit(group, topic, queue_id, offset, connection, increase_only=increase_only):
            return Reply()
        return Reply(
            remark=f"offset {offset} comes late: another consumer of the group reads this queue, or a crash has"
            " cost the messages before it"
        )


class QueueOffsets:
    """First and last offsets of queues. A queue that does not exist counts as empty."""

    def __init__(self, store: MessageStore) -> None:
        self._reader, self._queries = store.reader, store.queries

    def at_time(self, asked: SearchOffsetHeader, _request: Command, _connection: Connection) -> Reply:
        boundary = _boundary(asked.boundary_type)
        return _offset(self._queries.offset_by_time(asked.topic, asked.queue_id, asked.timestamp, boundary))

    def end(self, asked: GetMaxOffsetHeader, _request: Command, _connection: Connection) -> Reply:
        return _offset(self._reader.max_offset(asked.topic, asked.queue_id))

    def begin(self, asked: GetMinOffsetHeader, _request: Command, _connection: Connection) -> Reply:
        return _offset(self._reader.min_offset(asked.topic, asked.queue_id))

    def earliest_time(self, asked: GetEarliestMsgStoretimeHeader, _request: Command, _connection: Connection) -> Reply:
        found = self._queries.earliest_store_time(asked.topic, asked.queue_id)
        return Reply(header=GetEarliestMsgStoretimeReplyHeader(timestamp=found))


def _boundary(name: str | None) -> BoundaryType | None:
    """Parse a boundary as 5.x does: all but upper is lower. None: a 4.x client, which sends none."""
    if name is None:
        return None
    return BoundaryType.UPPER if name.lower() == BoundaryType.UPPER.value else BoundaryType.LOWER


def _has_queue(topic: TopicConfig, queue_id: int) -> bool:
    """Return whether the queue is readable or writable: a consumer of a queue that is only one of them still has an
    offset there."""
    return 0 <= queue_id < max(topic.read_queue_nums, topic.write_queue_nums)


def _offset(offset: int) -> Reply:
    return Reply(header=OffsetReplyHeader(offset=offset))
