"""Order of the messages of one call that share an ordering key: the next is sent when the previous one is stored.

One connection keeps the order of requests, but a retry of one of them would overtake. If a message fails, the later
ones of its key are not sent, as they would be stored without it. Independent of brokers and queues.
"""

import asyncio
from collections.abc import Awaitable, Callable

from hanabi.client.send_result import SendResult
from hanabi.errors import SendFailed


class OrderedSends:
    """Sends of one `send_many` that have an ordering key."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[bool]] = {}  # by key: True once its last message is stored

    async def send(self, topic: str, key: str, send: Callable[[], Awaitable[SendResult]]) -> SendResult:
        """Call *send* after the earlier ones of *key*. Start these in the order of the messages."""
        before = self._last.get(key)
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._last[key] = stored
        try:
            if before is not None and not await before:
                raise SendFailed(
                    f"topic {topic}: a message with ordering key {key!r} was not sent, because an earlier one failed:"
                    " send them again, in order",
                    topic=topic,
                )
            result = await send()
            stored.set_result(True)
            return result
        finally:
            if not stored.done():
                stored.set_result(False)
