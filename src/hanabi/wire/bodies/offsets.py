"""Consumer offsets: the tables that brokers copy, reset and correct.

Agrees with Java's ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, ResetOffsetBody, ResetOffsetBodyForC,
GetConsumerStatusBody, QueryCorrectionOffsetBody, QueryConsumeTimeSpanBody, RollbackStats and OffsetMovedEvent.
"""

from hanabi.message import MessageQueue
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.body import Body, written, written_new
from hanabi.wire.header import Int32, Int64


class ConsumerOffsetTable(Body, frozen=True, kw_only=True):
    """The offsets of all groups of a broker: queue id to offset, under `topic@group`."""

    data_version: DataVersion | None = None  # 5.x only
    offset_table: dict[str, dict[Int32, Int64]] = written_new(dict)


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """The delivery offset of each delay level."""

    data_version: DataVersion | None = None  # 5.x only
    offset_table: dict[Int32, Int64] = written_new(dict)


class ResetOffset(Body, frozen=True, kw_only=True):
    """The new offsets of a group's queues after a reset."""

    offset_table: dict[MessageQueue, Int64] = written_new(dict)


class QueueAndOffset(Body, frozen=True, kw_only=True, gc=False):
    """A queue and where it starts again, for clients that read no objects as keys (Java's MessageQueueForC)."""

    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetList(Body, frozen=True, kw_only=True):
    """The form of `ResetOffset` for C++ clients."""

    offset_table: list[QueueAndOffset] = written_new(list)


class ConsumerStatus(Body, frozen=True, kw_only=True):
    """The offsets that clients hold: one client's own, or those of several by client id."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = written_new(dict)
    message_queue_table: dict[MessageQueue, Int64] = written_new(dict)


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """The lowest offset of each queue among several groups."""

    correction_offsets: dict[Int32, Int64] = written_new(dict)


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """The store times of a queue's messages, and of the one at a group's offset; milliseconds."""

    consume_time_stamp: Int64 = written(0)
    delay_time: Int64 = written(0)
    max_time_stamp: Int64 = written(0)
    message_queue: MessageQueue
    min_time_stamp: Int64 = written(0)


class ConsumeTimeSpans(Body, frozen=True, kw_only=True):
    """The time spans of all queues of a topic."""

    consume_time_span_set: list[QueueTimeSpan] = written_new(list)


class RollbackStats(Body, frozen=True, kw_only=True, gc=False):
    """The effect of a reset on one queue."""

    broker_name: str | None = None
    broker_offset: Int64 = written(0)
    consumer_offset: Int64 = written(0)
    queue_id: Int64 = written(0)
    rollback_offset: Int64 = written(0)
    timestamp_offset: Int64 = written(0)


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """A message on a system topic: a consumer asked for an offset that is gone."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_new: Int64 = written(0)
    offset_request: Int64 = written(0)
