"""Planning of offset resets of a group to a point in time.

Only decides; `clients/client_calls.py` notifies the members. Agrees with Java's Broker2Client.resetOffset, and for a
single queue (5.x) with AdminBrokerProcessor.resetOffsetInner.
"""

from typing import Protocol

from hanabi.broker.tables.topics import Topics
from hanabi.errors import BrokerError
from hanabi.wire.headers.offset import ResetOffsetHeader

LATEST_MS = -1  # instead of a time: the end of the queue
NO_OFFSET = -1


class CommittedOffsets(Protocol):
    def find(self, group: str, topic: str, queue_id: int) -> int:
        """Return the group's offset; -1 if it has none."""


class QueueEnds(Protocol):
    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...


class OffsetsByTime(Protocol):
    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int: ...


class OffsetReset:
    """Planner of resets. *ends* and *times* are a store's `reader` and `queries`."""

    def __init__(self, topics: Topics, offsets: CommittedOffsets, ends: QueueEnds, times: OffsetsByTime) -> None:
        self._topics = topics
        self._offsets = offsets
        self._ends = ends
        self._times = times

    def plan(self, asked: ResetOffsetHeader) -> dict[int, int]:
        """Return the new offset by queue id; raise an error with the reason if there cannot be one."""
        topic = self._topics.find(asked.topic)
        if topic is None:
            raise BrokerError(f"[reset-offset] reset offset failed, no topic in this broker. topic={asked.topic}")
        if is_for_one_queue(asked):
            queue_id = asked.queue_id or 0
            if queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
                raise BrokerError(f"topic {asked.topic} has no queue {queue_id}")
            return {queue_id: self._exactly(asked, queue_id)}
        committed = [self._offsets.find(asked.group, asked.topic, queue) for queue in range(topic.write_queue_nums)]
        if all(offset == NO_OFFSET for offset in committed):
            # Java raises this if a single queue has no offset: a group that has not had a message from every queue
            # could not be reset.
            raise BrokerError(f"THe consumer group <{asked.group}> not exist")
        return {
            queue_id: chosen_offset(current, self._at_time(asked, queue_id), asked.is_force)
            for queue_id, current in enumerate(committed)
        }

    def _at_time(self, asked: ResetOffsetHeader, queue_id: int) -> int:
        if asked.timestamp == LATEST_MS:
            return self._ends.max_offset(asked.topic, queue_id)
        return max(0, self._times.offset_by_time(asked.topic, queue_id, asked.timestamp))

    def _exactly(self, asked: ResetOffsetHeader, queue_id: int) -> int:
        if asked.offset is None or asked.offset == NO_OFFSET:
            return self._at_time(asked, queue_id)
        low, high = self._ends.min_offset(asked.topic, queue_id), self._ends.max_offset(asked.topic, queue_id)
        if not low <= asked.offset <= high:
            raise BrokerError(f"Target offset {asked.offset} not in consume queue range [{low}-{high}]")
        return asked.offset


def is_for_one_queue(asked: ResetOffsetHeader) -> bool:
    return asked.queue_id is not None and asked.queue_id >= 0


def chosen_offset(current: int, wanted: int, is_force: bool) -> int:
    """Return the offset to set: without force, a group moves back but never forward."""
    return wanted if is_force or current == NO_OFFSET else min(current, wanted)
