"""Start offset of a group in a queue: its committed offset, else the start point that the program chose.

Agrees with Java's RebalancePushImpl.computePullFromWhereWithException:

    no offset yet      a topic                        the group's retry topic
    "last"             behind the last message        the first message
    "first"            the first message              the first message
    a moment           the first one stored then      behind the last message

For an unknown group the first message is at offset 0; if that is deleted, the broker's response says where to continue.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, TypeAlias

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import QueueAccess, milliseconds
from hanabi.client.consumer.offsets.offset_store import OffsetStore, ReadFrom
from hanabi.message import MessageQueue
from hanabi.wire.system_names import RETRY_PREFIX

ConsumeFrom: TypeAlias = Literal["last", "first"] | datetime

FIRST_OFFSET = 0


async def first_offset(
    topic: str,
    consume_from: ConsumeFrom,
    *,
    max_offset: Callable[[], Awaitable[int]],
    offset_at: Callable[[datetime], Awaitable[int]],
) -> int:
    """Return the start offset in a queue of *topic* for which the group has no offset."""
    is_retry = topic.startswith(RETRY_PREFIX)
    if consume_from == "first":
        return FIRST_OFFSET
    if consume_from == "last":
        # Failed messages are never skipped: the retry topic may have been created after the first was sent back.
        return FIRST_OFFSET if is_retry else await max_offset()
    return await max_offset() if is_retry else await offset_at(consume_from)


class StartPoint:
    """Start points of one group. Queries the brokers if needed; raises if they cannot answer."""

    def __init__(self, core: Core, offsets: OffsetStore, consume_from: ConsumeFrom) -> None:
        self._core, self._ask, self._offsets, self._consume_from = core, QueueAccess(core), offsets, consume_from

    async def offset(self, queue: MessageQueue) -> int:
        """Return the start offset in *queue*. A broker that has not answered recently is not waited for."""
        self._core.api.silent.pass_over(await self._ask.reading_address(queue))
        saved = await self._offsets.read(queue, ReadFrom.STORE)
        if saved is not None:
            return saved
        offset = await first_offset(
            queue.topic,
            self._consume_from,
            max_offset=lambda: self._ask.end_offset(queue),
            offset_at=lambda moment: self._ask.offset_at(queue, milliseconds(moment)),
        )
        self._offsets.begin(queue, offset)
        return offset
