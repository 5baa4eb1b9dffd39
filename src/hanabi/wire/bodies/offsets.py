"""Offsets of consumers, delay levels and the timer: the tables that brokers copy, reset and correct.

Agrees with Java's ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, ResetOffsetBody, ResetOffsetBodyForC,
GetConsumerStatusBody, QueryCorrectionOffsetBody, QueryConsumeTimeSpanBody, RollbackStats, OffsetMovedEvent,
TimerMetrics and TimerCheckpoint. All are JSON but for the last one.
"""

import struct
from typing import Final, NamedTuple

from hanabi.errors import RemoteProtocolError
from hanabi.message import MessageQueue
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64

_TIMER_OFFSETS: Final = struct.Struct(">4q")
_TIMER_VERSION: Final = struct.Struct(">3q")


class ConsumerOffsetTable(Body, frozen=True, kw_only=True):
    """The offsets of all groups of a broker: queue id to offset, under `topic@group`."""

    data_version: DataVersion | None = None  # 5.x only
    offset_table: dict[str, dict[Int32, Int64]] = always_written_new(dict)


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """The delivery offset of each delay level."""

    data_version: DataVersion | None = None  # 5.x only
    offset_table: dict[Int32, Int64] = always_written_new(dict)


class ResetOffset(Body, frozen=True, kw_only=True):
    """The new offsets of a group's queues after a reset."""

    offset_table: dict[MessageQueue, Int64] = always_written_new(dict)


class QueueAndOffset(Body, frozen=True, kw_only=True, gc=False):
    """A queue and where it starts again, for clients that read no objects as keys (Java's MessageQueueForC)."""

    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetList(Body, frozen=True, kw_only=True):
    """The form of `ResetOffset` for C++ clients."""

    offset_table: list[QueueAndOffset] = always_written_new(list)


class ConsumerStatus(Body, frozen=True, kw_only=True):
    """The offsets that clients hold: one client's own, or those of several by client id."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = always_written_new(dict)
    message_queue_table: dict[MessageQueue, Int64] = always_written_new(dict)


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """The lowest offset of each queue among several groups."""

    correction_offsets: dict[Int32, Int64] = always_written_new(dict)


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """The store times of a queue's messages, and of the one at a group's offset; milliseconds."""

    consume_time_stamp: Int64 = always_written(0)
    delay_time: Int64 = always_written(0)
    max_time_stamp: Int64 = always_written(0)
    message_queue: MessageQueue
    min_time_stamp: Int64 = always_written(0)


class ConsumeTimeSpans(Body, frozen=True, kw_only=True):
    """The time spans of all queues of a topic."""

    consume_time_span_set: list[QueueTimeSpan] = always_written_new(list)


class RollbackStats(Body, frozen=True, kw_only=True, gc=False):
    """The effect of a reset on one queue."""

    broker_name: str | None = None
    broker_offset: Int64 = always_written(0)
    consumer_offset: Int64 = always_written(0)
    queue_id: Int64 = always_written(0)
    rollback_offset: Int64 = always_written(0)
    timestamp_offset: Int64 = always_written(0)


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """A message on a system topic: a consumer asked for an offset that is gone."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_new: Int64 = always_written(0)
    offset_request: Int64 = always_written(0)


class TimerMetric(Body, frozen=True, kw_only=True, gc=False):
    """5.x: the number of timed messages of one topic that wait."""

    count: Int64 = always_written(0)
    time_stamp: Int64 = always_written(0)


class TimerMetricsTable(Body, frozen=True, kw_only=True):
    """5.x: timed messages that wait, by topic (Java's TimerMetricsSerializeWrapper)."""

    data_version: DataVersion = always_written_new(DataVersion)
    timing_count: dict[str, TimerMetric] = always_written_new(dict)


class TimerCheckpoint(NamedTuple):
    """5.x: progress of a timer: all that was due before `read_ms` is delivered, and the timer topic is read up to
    `master_queue_offset`. The second and the third field are of Java's own files."""

    read_ms: int
    log_flush_position: int
    queue_offset: int
    master_queue_offset: int
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Return the 56 bytes of the reply to GET_TIMER_CHECK_POINT."""
    return _TIMER_OFFSETS.pack(*checkpoint[:4]) + _TIMER_VERSION.pack(*checkpoint[4:])


def decode_timer_checkpoint(raw: bytes) -> TimerCheckpoint:
    """Decode such a reply; 5.0 has 32 bytes, without the version. Raise RemoteProtocolError if it is shorter."""
    if len(raw) < _TIMER_OFFSETS.size:
        raise RemoteProtocolError(f"a timer checkpoint of {len(raw)} bytes, {_TIMER_OFFSETS.size} are the least")
    has_version = len(raw) >= _TIMER_OFFSETS.size + _TIMER_VERSION.size
    version = _TIMER_VERSION.unpack_from(raw, _TIMER_OFFSETS.size) if has_version else ()
    return TimerCheckpoint(*_TIMER_OFFSETS.unpack_from(raw), *version)
