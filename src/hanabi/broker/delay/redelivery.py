"""Conversion of a delayed message to its final form, and its identity across that conversion.

The properties stay as they are, with REAL_TOPIC, REAL_QID and DELAY: Apache removes those from the map, but stores the
text that it made before. Agrees with ScheduleMessageService.messageTimeup (4.9.8) and TimerMessageStore.convert
(5.3.3). Pure.
"""

from collections.abc import Mapping
from typing import Final

from hanabi.broker.delay.timer_rules import java_long
from hanabi.errors import MQError
from hanabi.store.log.commit_log import PendingMessage
from hanabi.wire.message import property_names as names
from hanabi.wire.message.java_hash_map import encode_again
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties, find_property
from hanabi.wire.message.record import Record

ADDED_LATER: Final = (names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES)


class NoDestinationError(MQError):
    """A delayed message without a valid destination."""


def after_level(record: Record) -> PendingMessage:
    """Return the message to deliver for *record* of the delay topic."""
    topic, queue_id = _destination(record)
    return _with(record, topic, queue_id, record.properties)


def after_timer(record: Record, now_ms: int) -> PendingMessage:
    """Return the message to deliver for *record* of the timer topic."""
    topic, queue_id = _destination(record)
    return _with(record, topic, queue_id, _touched(record, decode_properties(record.properties), now_ms))


def rolled(record: Record, now_ms: int) -> PendingMessage:
    """Return *record* of the timer topic for storing again, so that it lies in a younger part of the log."""
    properties = decode_properties(record.properties)
    properties[names.TIMER_ROLL_TIMES] = str(_times_rolled(properties) + 1)
    return _with(record, record.topic, record.queue_id, _touched(record, properties, now_ms))


def identity(record: Record) -> int:
    """Return a hash that a waiting message and its delivery share; only valid in this process.

    Indistinguishable messages have the same identity, so the caller must count them. A message and its rolled copy have
    different ones: either may be in the log without the other.
    """
    return _identity(record, rolls_back=0)


def identity_before_roll(record: Record) -> int:
    """Return the identity of the message that *record* was rolled from."""
    return _identity(record, rolls_back=1)


def _identity(record: Record, rolls_back: int) -> int:
    properties = decode_properties(record.properties)
    times_rolled = _times_rolled(properties) - rolls_back
    for name in ADDED_LATER:
        properties.pop(name, None)
    told_apart_by = record.born_timestamp_ms, record.born_host, record.crc, record.flag, record.reconsume_times
    return hash((told_apart_by, times_rolled, frozenset(properties.items())))


def _times_rolled(properties: Mapping[str, str]) -> int:
    return java_long(properties.get(names.TIMER_ROLL_TIMES, "0")) or 0


def _destination(record: Record) -> tuple[str, int]:
    topic = find_property(record.properties, b"REAL_TOPIC")
    queue_id = java_long(find_property(record.properties, b"REAL_QID") or "")
    if topic is None or queue_id is None or not 0 <= queue_id < 2**31:
        raise NoDestinationError(
            f"message {record.queue_offset} of {record.topic}/{record.queue_id} does not say to which topic and queue "
            f"it belongs"
        )
    return topic, queue_id


def _touched(record: Record, properties: dict[str, str], now_ms: int) -> bytes:
    """Return *properties* with the times of arrival and delivery; without them if that would exceed the size limit: an
    accepted message is delivered in any case."""
    properties[names.TIMER_ENQUEUE_MS] = str(record.store_timestamp_ms)
    properties[names.TIMER_DEQUEUE_MS] = str(now_ms)
    noted = encode_again(properties, record.properties)
    return noted if len(noted) <= PROPERTIES_BYTES_MAX else record.properties


def _with(record: Record, topic: str, queue_id: int, properties: bytes) -> PendingMessage:
    return PendingMessage(
        topic,
        queue_id,
        record.body,
        properties,
        record.born_timestamp_ms,
        record.born_host,
        record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        is_stored=True,
    )
