"""Messages whose invisible time ended without an acknowledgement: stored again in the group's retry topic.

    expired ─> read ─> put into the retry topic ─> close ─> wake the group's pops

The copy is stored before the message is closed, so a crash between the two repeats it. It has body, properties, flag
and born time of the original, one try more, and the time of its first pop. A message that cannot be read or stored
stays in flight and is tried again. Agrees with Java's PopReviveService.reviveRetry (5.3.3).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.send.retry_rules import READ_AND_WRITE
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.errors import MQError
from hanabi.store.log.commit_log import PendingMessage
from hanabi.store.message_store import MessageStore, PutResult, PutStatus
from hanabi.store.read.queue_reader import FOUND, GetStatus
from hanabi.wire.message import property_names as names
from hanabi.wire.message.java_hash_map import encode_again
from hanabi.wire.message.properties import PROPERTIES_BYTES_MAX, decode_properties, find_property
from hanabi.wire.message.record import Record, decode_record
from hanabi.wire.receipts import NORMAL, mark_of, original_topic, retry_topic_v1, retry_topic_v2

RETRY_QUEUES: Final = 1
AGAIN_MS: Final = 10_000  # after a message could not be read or stored
UNSAVED_MS: Final = 20  # until the file has a new retry topic
_TURN_SECONDS: Final = 0.002
_FIRST_POP: Final = names.FIRST_POP_TIME.encode()
_GONE: Final = (GetStatus.OFFSET_TOO_SMALL, GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)

logger = logging.getLogger(__name__)


class Expired(NamedTuple):
    """One message to store again. *finish* closes it, *later* tries it again after that many milliseconds."""

    group: str
    topic: str  # in which it lies
    queue_id: int
    offset: int
    pop_ms: int
    finish: Callable[[], None]
    later: Callable[[int], None]


class Revival:
    """Stores expired messages again, some milliseconds at a time."""

    def __init__(
        self,
        store: MessageStore,
        put: Callable[[PendingMessage], PutResult],
        topics: Topics,
        offsets: ConsumerOffsets,
        settings: Settings,
        wake: Callable[[str, str], None],
    ) -> None:
        """*put* is an `Intake.put_as_is`; *wake* is called with the topic and the group of a message that is back."""
        self._store, self._put, self._topics, self._offsets = store, put, topics, offsets
        self._settings, self._wake = settings, wake
        self._waiting: deque[Expired] = deque()
        self._is_stopped = False
        self.revived = 0

    def stop(self) -> None:
        """Store nothing any more: the broker stops."""
        self._is_stopped = True

    def drop(self) -> None:
        """Forget the messages that wait: this broker is a slave now."""
        self._waiting.clear()

    def add(self, expired: list[Expired]) -> None:
        """Store these messages again, beginning now."""
        is_idle = not self._waiting
        self._waiting.extend(expired)
        if is_idle and self._waiting:
            self._work()

    def _work(self) -> None:
        turn_ends = time.monotonic() + _TURN_SECONDS
        waiting = self._waiting
        while waiting and not self._is_stopped:
            expired = waiting.popleft()
            try:
                self._revive(expired)
            except MQError as error:
                self._postpone(expired, str(error))
            if waiting and time.monotonic() > turn_ends:
                asyncio.get_running_loop().call_soon(self._work)
                return

    def _revive(self, expired: Expired) -> None:
        topic = self._retry_topic(expired)
        if self._topics.create_on_send_back(topic, RETRY_QUEUES, READ_AND_WRITE) is None:
            self._postpone(expired, f"retry topic {topic} cannot be created")
            return
        if topic in self._topics.unsaved:
            expired.later(UNSAVED_MS)
            return
        record = self._read(expired)
        if record is None:
            return
        result = self._put(_copy(record, topic, expired.pop_ms))
        if result.status is not PutStatus.PUT_OK:
            self._postpone(expired, result.reason or result.status.value)
            return
        if self._offsets.find(expired.group, topic, 0) < 0:
            self._offsets.commit(expired.group, topic, 0, 0, "pop")
        self.revived += 1
        expired.finish()
        self._wake(original_topic(topic, expired.group), expired.group)

    def _retry_topic(self, expired: Expired) -> str:
        if mark_of(expired.topic) != NORMAL:
            return expired.topic
        named = retry_topic_v2 if self._settings.broker.retry_topic_v2_enabled else retry_topic_v1
        return named(expired.topic, expired.group)

    def _read(self, expired: Expired) -> Record | None:
        """Return the expired record; None if it is closed because it is gone, or postponed because it is unreadable."""
        result = self._store.get(expired.topic, expired.queue_id, expired.offset, 1)
        record = decode_record(b"".join(result.slices)) if result.status is FOUND else None
        if record is not None and record.queue_offset == expired.offset:
            return record
        if result.status in _GONE or record is not None:  # deleted by age, or unreadable and reported by the reader
            logger.warning(
                "message %d of %s/%d was popped by %s and not acknowledged, but is not in the store any more",
                *(expired.offset, expired.topic, expired.queue_id, expired.group),
            )
            expired.finish()
        else:
            self._postpone(expired, f"it cannot be read: {result.status.value}")
        return None

    def _postpone(self, expired: Expired, why: str) -> None:
        logger.error(
            "message %d of %s/%d, which %s did not acknowledge, is not delivered again yet (%s): retrying in %d s",
            *(expired.offset, expired.topic, expired.queue_id, expired.group, why, AGAIN_MS // 1000),
        )
        expired.later(AGAIN_MS)


def _copy(record: Record, topic: str, pop_ms: int) -> PendingMessage:
    """Return the message to store in the retry *topic*."""
    return PendingMessage(
        topic,
        0,
        record.body,
        _noted(record, pop_ms),
        record.born_timestamp_ms,
        record.born_host,
        record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times + 1,
        is_stored=True,
    )


def _noted(record: Record, pop_ms: int) -> bytes:
    """Return the properties with the time of the first pop, unless they would be too long with it."""
    if find_property(record.properties, _FIRST_POP) is not None:
        return record.properties
    properties = decode_properties(record.properties)
    properties[names.FIRST_POP_TIME] = str(pop_ms)
    noted = encode_again(properties, record.properties)
    return noted if len(noted) <= PROPERTIES_BYTES_MAX else record.properties
