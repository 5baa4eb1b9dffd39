"""Messages of push consumers, whose invisible time the server renews while the client is there.

A client that is gone gets its messages back at once for the other members. The handle that the client has stays its key
here: brokers make a new one for each renewal.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.errors import MQError
from hanabi.grpc.rules.durations import RENEWED_MS
from hanabi.grpc.rules.handles import Handle

INTERVAL_SECONDS: Final = 5.0
AHEAD_MS: Final = 20_000  # renewed so long before the end
RENEWED_MS_MAX: Final = 3 * 3_600_000  # a message is not renewed for longer
GONE_MS: Final = 1_000  # the rest of the time when the client is gone
MESSAGES_MAX: Final = 4_096  # of one client; further ones are not renewed
TOTAL_MAX: Final = 1_000_000

logger = logging.getLogger(__name__)

Hide = Callable[[str, str, Handle, int], Awaitable[Handle]]  # group, topic, handle, milliseconds


class _Renewed:
    __slots__ = ("begun_ms", "group", "handle", "topic")

    def __init__(self, group: str, topic: str, handle: Handle) -> None:
        self.group, self.topic, self.handle = group, topic, handle
        self.begun_ms = handle.receipt.pop_ms


class Renewals:
    """All messages that are renewed, by client and handle. *hide* gives a message a new invisible time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._by_client: dict[str, dict[str, _Renewed]] = {}
        self._total = 0
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.hide: Hide | None = None
        self.is_present: Callable[[str], bool] = lambda _: True  # whether a client has a session

    def __len__(self) -> int:
        return self._total

    def start(self) -> None:
        """Begin to renew."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Renew no more."""
        tasks = [task for task in (self._task, *self._ending) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, client_id: str, group: str, topic: str, handle: Handle) -> None:
        """Renew a message until it is acknowledged, or its client is gone."""
        mine = self._by_client.get(client_id, {})
        if len(mine) < MESSAGES_MAX and self._total < TOTAL_MAX:
            text = handle.encode()
            self._total += text not in mine
            mine[text] = _Renewed(group, topic, handle)
            self._by_client[client_id] = mine

    def newest(self, client_id: str, text: str) -> Handle | None:
        """Return the newest handle of the message that was delivered with handle *text*; None if it is not renewed."""
        renewed = self._by_client.get(client_id, {}).get(text)
        return renewed.handle if renewed is not None else None

    def end(self, client_id: str, text: str) -> None:
        """Forget a message."""
        mine = self._by_client.get(client_id)
        if mine is not None and mine.pop(text, None) is not None:
            self._total -= 1
            if not mine:
                del self._by_client[client_id]

    def left(self, client_id: str) -> None:
        """Make the messages of a client that is gone visible soon."""
        mine = self._by_client.pop(client_id, None)
        if mine:
            self._total -= len(mine)
            task = asyncio.create_task(self._release(list(mine.values())))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _release(self, messages: list[_Renewed]) -> None:
        for renewed in messages:
            await self._hide(renewed, GONE_MS)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.renew()

    async def renew(self) -> None:
        """Renew the messages whose time ends soon; those of clients without a session are free soon."""
        now_ms = self.now_ms()
        for client_id in list(self._by_client):
            if not self.is_present(client_id):  # it received after its stream was lost, or it never had one
                self.left(client_id)
                continue
            for text, renewed in list(self._by_client.get(client_id, {}).items()):
                receipt = renewed.handle.receipt
                if receipt.pop_ms + receipt.invisible_ms - now_ms > AHEAD_MS:
                    continue
                is_over = now_ms - renewed.begun_ms > RENEWED_MS_MAX
                if is_over or not await self._hide(renewed, RENEWED_MS):
                    self.end(client_id, text)

    async def _hide(self, renewed: _Renewed, ms: int) -> bool:
        if self.hide is None:
            return False
        try:
            renewed.handle = await self.hide(renewed.group, renewed.topic, renewed.handle, ms)
        except MQError as error:  # acknowledged by another stream, or its time has ended
            logger.debug("a message of group %s is not hidden for longer: %s", renewed.group, error)
            return False
        return True
