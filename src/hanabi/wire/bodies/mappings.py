"""5.x static topics: the brokers that hold each stretch of each logical queue. Carried, never interpreted, by us.

Agrees with Java's TopicQueueMappingInfo, TopicQueueMappingDetail and LogicQueueMappingItem.
"""

from hanabi.wire.body import Body, always_written
from hanabi.wire.header import Int32, Int64


class QueueMapping(Body, frozen=True, kw_only=True):
    """5.x: which logical queues of a static topic a broker holds (Java's TopicQueueMappingInfo)."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] | None = None
    dirty: bool = always_written(False)
    epoch: Int64 = always_written(0)
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always_written(0)


class QueueMappingItem(Body, frozen=True, kw_only=True, gc=False):
    """5.x: one stretch of a logical queue (Java's LogicQueueMappingItem)."""

    bname: str | None = None
    end_offset: Int64 = always_written(-1)
    gen: Int32 = always_written(0)
    logic_offset: Int64 = always_written(0)
    queue_id: Int32 = always_written(0)
    start_offset: Int64 = always_written(0)
    time_of_end: Int64 = always_written(-1)
    time_of_start: Int64 = always_written(-1)


class QueueMappingDetail(Body, frozen=True, kw_only=True):
    """5.x: the whole mapping of a static topic on one broker (Java's TopicQueueMappingDetail)."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] | None = None
    dirty: bool = always_written(False)
    epoch: Int64 = always_written(0)
    hosted_queues: dict[Int32, list[QueueMappingItem]] | None = None
    scope: str | None = None
    topic: str | None = None
    total_queues: Int32 = always_written(0)
