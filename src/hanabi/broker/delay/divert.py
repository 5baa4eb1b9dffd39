"""Detection of delayed messages, and the form in which they are stored until they are due.

    with a delay level       ─> SCHEDULE_TOPIC_XXXX, queue level - 1        see `delivery`
    with a time of its own   ─> rmq_sys_wheel_timer, queue 0                see `timer`

The message keeps its properties; REAL_TOPIC and REAL_QID name its final destination. Bytes and order are Apache's.
Agrees with CommitLog.asyncPutMessage (4.9.8) for levels and HookUtils.handleScheduleMessage (5.3.3) for times. Only
decides; stores nothing.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.broker.delay.timer_rules import java_long, requested_ms, timer_out_ms
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, MessageRefused
from hanabi.store.log.commit_log import TOPIC_BYTES_MAX, PendingMessage
from hanabi.wire.delay_levels import DelayLevels
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.java_hash_map import encode_again
from hanabi.wire.message.properties import decode_properties
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC

_TIMES: Final = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)
_NOT_FOR_READERS: Final = sysflag.TRANSACTION_PREPARED  # bit of both types that are never consumed


def may_divert(properties: bytes) -> bool:
    """Return whether a message with these *properties* must go through `Diverter.divert`. Cheap: a search of bytes."""
    return b"DELAY\x01" in properties or b"TIMER_DE" in properties


class Diverter:
    """Converter of delayed messages into the form in which they wait."""

    def __init__(self, levels: DelayLevels, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._levels, self._settings, self._now_ms = levels, settings, now_ms

    def divert(self, message: PendingMessage) -> PendingMessage:
        """Return *message*, or the waiting message to store instead.

        Raise MessageRefused or another BrokerError, in Apache's words, if it asks for an impossible time.
        """
        if message.sys_flag & _NOT_FOR_READERS:
            return message
        properties = decode_properties(message.properties)
        level = _level(properties)
        if level > 0:
            for name in _TIMES:  # a level takes precedence over a time, as in 5.x
                properties.pop(name, None)
            level = min(level, self._levels.highest)
            properties[names.DELAY_LEVEL] = str(level)
            return _waiting(message, properties, SCHEDULE_TOPIC, level - 1)
        if (
            message.topic == TIMER_TOPIC
            or names.TIMER_OUT_MS in properties  # it has already waited
            or not any(name in properties for name in _TIMES)
        ):
            return message
        return self._divert_to_timer(message, properties)

    def _divert_to_timer(self, message: PendingMessage, properties: dict[str, str]) -> PendingMessage:
        config = self._settings.broker
        if not config.timer_enabled:
            raise BrokerError("accurate timer message is not enabled, timerWheelEnable is false")
        now_ms = self._now_ms()
        deliver_ms = requested_ms(properties, now_ms)
        max_ms = config.timer_max_delay_sec * 1_000
        is_cancellation = names.TIMER_DEL_UNIQUE_KEY in properties
        if deliver_ms is None or deliver_ms - now_ms > max_ms or (deliver_ms <= now_ms and is_cancellation):
            raise MessageRefused(
                f"timer message illegal, the delay time should not be bigger than the max delay {max_ms}ms; "
                "or if set del msg, the delay time should be bigger than the current time"
            )
        if deliver_ms <= now_ms:
            return message
        properties[names.TIMER_OUT_MS] = str(timer_out_ms(deliver_ms))
        return _waiting(message, properties, TIMER_TOPIC, 0)


def _level(properties: dict[str, str]) -> int:
    text = properties.get(names.DELAY_LEVEL)
    if text is None:
        return 0
    level = java_long(text)
    if level is None or not -(2**31) <= level < 2**31:
        raise MessageRefused(f"{names.DELAY_LEVEL} must be the number of a delay level, not {text[:50]!r}")
    return level


def _waiting(message: PendingMessage, properties: dict[str, str], topic: str, queue_id: int) -> PendingMessage:
    if len(message.topic.encode()) > TOPIC_BYTES_MAX:  # the retry topic of a very long group
        size = len(message.topic.encode())
        raise MessageRefused(f"a topic of {size} bytes, limit {TOPIC_BYTES_MAX}: {message.topic[:32]}...")
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    raw = encode_again(properties, message.properties)
    return msgspec.structs.replace(message, topic=topic, queue_id=queue_id, properties=raw)
