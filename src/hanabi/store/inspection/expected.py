"""The entries a record should have in consume queues and index. Pure: from the record and the broker's delay levels.

A store does not record the delay levels of its broker, and they may have changed. If they are not given, the delivery
time in the queues of delayed messages is only known to be a time. It may even precede the store time: while a broker's
clock is behind its store's times, our brokers count from the clock.

Agrees with CommitLog.java (checkMessageAndReturnSize), the two dispatchers of DefaultMessageStore.java, and
ScheduleMessageService.java for the levels.
"""

from typing import Final, NamedTuple

from hanabi.store.index.key_hash import key_hash
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import find_property
from hanabi.wire.message.record import Dispatch
from hanabi.wire.system_names import SCHEDULE_TOPIC

DELIVERY_MS_MAX: Final = 10 * 365 * 86_400_000  # no delivery is further from the time of storing: no level is so long

_MULTI_DISPATCH: Final = names.INNER_MULTI_DISPATCH.encode()
_MULTI_QUEUE_OFFSET: Final = names.INNER_MULTI_QUEUE_OFFSET.encode()
_LIGHT_QUEUE_PREFIX: Final = "%LMQ%"  # MixAll.LMQ_PREFIX


class ExpectedEntry(NamedTuple):
    """The place where a record should be found, and the fields there other than its offset and size."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int | None  # None: a time of delivery, by levels that are not known
    stored_ms: int
    is_certain: bool  # otherwise it depends on the broker's settings whether it is there

    def allows(self, tags_code: int | None) -> bool:
        """Return whether an entry may have that tags code."""
        if self.tags_code is None:
            return tags_code is not None and abs(tags_code - self.stored_ms) <= DELIVERY_MS_MAX
        return tags_code == self.tags_code

    @property
    def tags_code_text(self) -> str:
        return "a time of delivery" if self.tags_code is None else str(self.tags_code)


def expected_entries(record: Dispatch, delays_ms: tuple[int, ...] | None) -> list[ExpectedEntry]:
    """Return the consume queue entries of *record*. None for a transaction's first half and for one that was taken
    back."""
    if record.sys_flag & sysflag.TRANSACTION_PREPARED:  # this bit is in both types
        return []
    code: int | None = record.tags_code
    stored_ms = record.store_timestamp_ms
    if record.topic == SCHEDULE_TOPIC and (level := _delay_level(record)):
        code = None if delays_ms is None else stored_ms + delays_ms[min(level, len(delays_ms)) - 1]
    entries = [ExpectedEntry(record.topic, record.queue_id, record.queue_offset, code, stored_ms, True)]
    if _MULTI_DISPATCH in record.properties:
        topics = (find_property(record.properties, _MULTI_DISPATCH) or "").split(",")
        offsets = (find_property(record.properties, _MULTI_QUEUE_OFFSET) or "").split(",")
        for topic, offset in zip(topics, offsets, strict=False):
            queue_id = 0 if topic.startswith(_LIGHT_QUEUE_PREFIX) else record.queue_id
            if offset.isdecimal():
                entries.append(ExpectedEntry(topic, queue_id, int(offset), code, stored_ms, False))
    return entries


def _delay_level(record: Dispatch) -> int:
    """Return the delay level of a message; 0 if it has none."""
    level = find_property(record.properties, names.DELAY_LEVEL.encode())
    return int(level) if level is not None and level.isdecimal() else 0


def expected_key_hashes(record: Dispatch) -> set[int]:
    """Return the hashes under which the index may know *record*."""
    if record.sys_flag & sysflag.TRANSACTION_ROLLBACK == sysflag.TRANSACTION_ROLLBACK:
        return set()
    keys = [*record.keys.split(names.KEY_SEPARATOR), record.unique_key]
    return {key_hash(f"{record.topic}#{key}") for key in keys if key}
