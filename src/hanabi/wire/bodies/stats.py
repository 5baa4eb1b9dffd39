"""Figures for operators: the content of a topic, the lag of a group, the statistics of a broker.

Agrees with Java's TopicStatsTable, TopicOffset, ConsumeStats, OffsetWrapper, ConsumeStatsList, BrokerStatsData,
BrokerStatsItem, QueryConsumeQueueResponseBody and ConsumeQueueData.
"""

from hanabi.message import MessageQueue
from hanabi.wire.bodies.heartbeat import SubscriptionData
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class TopicOffset(Body, frozen=True, kw_only=True, gc=False):
    """The offsets of one queue: min_offset <= offset < max_offset."""

    last_update_timestamp: Int64 = always_written(0)
    max_offset: Int64 = always_written(0)
    min_offset: Int64 = always_written(0)


class TopicStatsTable(Body, frozen=True, kw_only=True):
    """The offsets of a topic's queues."""

    offset_table: dict[MessageQueue, TopicOffset] = always_written_new(dict)
    topic_put_tps: float | None = None  # 5.x only


class OffsetWrapper(Body, frozen=True, kw_only=True, gc=False):
    """The end of a queue and one group's offset in it."""

    broker_offset: Int64 = always_written(0)
    consumer_offset: Int64 = always_written(0)
    last_timestamp: Int64 = always_written(0)
    pull_offset: Int64 = 0  # 5.x only


class ConsumeStats(Body, frozen=True, kw_only=True):
    """The offsets of one group in all its queues."""

    consume_tps: float = always_written(0.0)
    offset_table: dict[MessageQueue, OffsetWrapper] = always_written_new(dict)


class ConsumeStatsList(Body, frozen=True, kw_only=True):
    """The offsets of all groups of a broker. Each entry has one group, with an item per topic."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = always_written_new(list)
    total_diff: Int64 = always_written(0)
    total_inflight_diff: Int64 = 0  # 5.x only


class BrokerStatsItem(Body, frozen=True, kw_only=True, gc=False):
    """One counter over one period."""

    avgpt: float = always_written(0.0)
    sum: Int64 = always_written(0)
    tps: float = always_written(0.0)


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """One counter over the last minute, hour and day."""

    stats_day: BrokerStatsItem = always_written_new(BrokerStatsItem)
    stats_hour: BrokerStatsItem = always_written_new(BrokerStatsItem)
    stats_minute: BrokerStatsItem = always_written_new(BrokerStatsItem)


class ConsumeQueueData(Body, frozen=True, kw_only=True, gc=False):
    """One entry of a consume queue, and whether a group's filter lets it pass."""

    bit_map: str | None = None
    eval: bool = always_written(False)
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = always_written(0)
    physic_size: Int32 = always_written(0)
    tags_code: Int64 = always_written(0)


class ConsumeQueueReply(Body, frozen=True, kw_only=True):
    """A stretch of a consume queue (Java's QueryConsumeQueueResponseBody)."""

    filter_data: str | None = None
    max_queue_index: Int64 = always_written(0)
    min_queue_index: Int64 = always_written(0)
    queue_data: list[ConsumeQueueData] | None = None
    subscription_data: SubscriptionData | None = None
