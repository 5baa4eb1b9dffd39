"""Where a queue begins and ends, and where it was at a moment: asked of its master.

Agrees with Java's MQAdminImpl. Names are those on the wire.
"""

from datetime import datetime
from typing import Final

from hanabi.client.consumer.queue_broker import master_address
from hanabi.client.core import Core
from hanabi.message import MessageQueue

LOWER: Final = "LOWER"  # the first of several messages that were stored at the same time


def milliseconds(when: datetime | float) -> int:
    """*when* as brokers count it: milliseconds since 1970. A plain number is seconds, as `time.time()` gives them; a
    datetime without a time zone is local time."""
    return round((when.timestamp() if isinstance(when, datetime) else when) * 1_000)


class QueueOffsets:
    """Questions to the brokers about offsets; what they cannot say is raised."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._seconds = core.config.request_timeout_s

    async def first(self, queue: MessageQueue) -> int:
        """The smallest offset that is still kept."""
        return await self._core.api.get_min_offset(await master_address(self._core, queue), queue, self._seconds)

    async def last(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._core.api.get_max_offset(await master_address(self._core, queue), queue, self._seconds)

    async def at(self, queue: MessageQueue, when: datetime | float) -> int:
        """The offset of the first message that was stored then or later. Brokers before 5.0 may say another one that
        was stored in the same millisecond."""
        address = await master_address(self._core, queue)
        return await self._core.api.search_offset(address, queue, milliseconds(when), self._seconds, boundary=LOWER)

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """When the oldest message that is still kept was stored; -1 if there is none."""
        return await self._core.api.earliest_store_time(await master_address(self._core, queue), queue, self._seconds)
