"""Queue locks at the brokers: only one member at a time consumes a queue in order.

A lock is renewed every 20 s, trusted for 30 s, and released by the broker after 60 s. When the connection to its broker
ends the lock is in doubt, as brokers keep locks only in memory: it is renewed at once, and no new batch starts before.
Agrees with Java's RebalanceImpl.lock, lockAll and unlock, except that Java trusts a lock for 30 s in that case too.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.owned_queue import OwnedQueue
from hanabi.errors import ConnectError, MQError
from hanabi.message import MessageQueue

RENEW_S: Final = 20.0
AGAIN_S: Final = 1.0  # retry delay after a broker did not answer

logger = logging.getLogger(__name__)


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """Group *queues* into one request per broker. Pure."""
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return grouped


class QueueLocks:
    """Locks of one group member. *owned* are the queues whose locks are renewed, including leaving ones; *lost* is
    called when another member has one of them.
    """

    def __init__(
        self,
        core: Core,
        group: str,
        *,
        owned: Callable[[], Collection[OwnedQueue]],
        lost: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._core, self._group, self._owned, self._lost, self._now_ms = core, group, owned, lost, now_ms
        self._soon = asyncio.Event()
        self._unreached: set[str] = set()  # brokers whose outage was logged

    def losses_of(self, queue: MessageQueue) -> int:
        """Return a number that changes when the connection to the queue's broker ends."""
        return self._core.losses_of(queue.broker_name)

    def broker_lost(self, name: str) -> None:
        """Mark the locks of this broker as in doubt: its connection ended."""
        for held in self._owned():
            if held.queue.broker_name == name and held.locked_at is not None:
                held.lock_in_doubt = True
                self._soon.set()

    async def lock(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Try to lock *queues*; return those that are locked. An unreachable broker has locked nothing."""
        parts = [(name, part) for name, part in by_broker(queues).items() if not self._is_silent(name)]
        answers = await asyncio.gather(*(self._lock_at(name, part) for name, part in parts))
        return {queue for answer in answers if answer is not None for queue in answer}

    async def unlock(self, queues: Sequence[MessageQueue]) -> None:
        """Release *queues*. Without the request, the broker releases them after a minute."""
        await asyncio.gather(*(self._unlock_at(name, part) for name, part in by_broker(queues).items()))

    async def renew_forever(self) -> None:
        """Renew the locks until cancelled."""
        pause_s = RENEW_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._soon.wait()
            self._soon.clear()
            pause_s = AGAIN_S
            try:
                if await self.renew():
                    pause_s = RENEW_S
            except Exception:
                logger.exception("renewing the locks of group %s failed", self._group)

    async def renew(self) -> bool:
        """Renew the locks of all queues once. Drop a queue that another member has locked, and its offset. Return False
        if a broker did not answer.
        """
        owned = {queue.queue: queue for queue in self._owned()}
        parts = by_broker(owned).items()
        return all(await asyncio.gather(*(self._renew_at(name, part, owned) for name, part in parts)))

    async def _renew_at(self, name: str, queues: list[MessageQueue], owned: dict[MessageQueue, OwnedQueue]) -> bool:
        asked_at, losses = asyncio.get_running_loop().time(), self._core.losses_of(name)
        locked = await self._lock_at(name, queues)
        if locked is None or losses != self._core.losses_of(name):
            return False  # unknown: the queues are consumed while the last answer is trusted
        for queue in queues:
            held = owned[queue]
            if queue in locked and not held.lock_may_be_lost(asked_at):
                held.locked_at, held.last_lock_ms, held.lock_in_doubt = asked_at, self._now_ms(), False
                held.changed()
            elif not held.forfeited:
                logger.warning("group %s: lost the lock of %s, releasing the queue", self._group, queue)
                held.drop(forfeit=True)
                self._lost()
        return True

    async def _lock_at(self, name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        try:
            locked = await self._core.api.lock_queues(self._master(name), self._core.client_id, self._group, queues)
        except MQError as error:
            level = logging.DEBUG if name in self._unreached else logging.WARNING  # once per outage
            self._unreached.add(name)
            logger.log(level, "group %s: queues of %s could not be locked, retrying: %s", self._group, name, error)
            return None
        self._unreached.discard(name)
        return locked

    async def _unlock_at(self, name: str, queues: list[MessageQueue]) -> None:
        try:
            await self._core.api.unlock_queues(self._master(name), self._core.client_id, self._group, queues)
        except MQError as error:
            logger.info("group %s: queues of %s stay locked until the locks expire: %s", self._group, name, error)

    def _is_silent(self, name: str) -> bool:
        address = self._core.routes.master_of(name)
        return address is not None and self._core.api.silent.is_silent(address)

    def _master(self, name: str) -> str:
        address = self._core.routes.master_of(name)
        if address is None:
            raise ConnectError(f"{name} has no master now")
        return address
