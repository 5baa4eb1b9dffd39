"""A queue that is this member's to consume, from the rebalance that gave it to the one that takes it away.

Holds facts and wakes those who wait for them to change; who pulls, consumes and locks is elsewhere.
"""

import asyncio
from typing import Final

from hanabi.client.consumer.queue_progress import QueueProgress
from hanabi.message import MessageQueue

LOCK_VALID_S: Final = 30.0  # so long we believe in a lock; the broker gives it to others after 60 s
LOCK_KEPT_S: Final = 60.0


class OwnedQueue:
    """`dropped` is set once and never taken back: who gets the queue again gets a new object.

    `forfeited` says more: somebody else may have it already, so our offset for it counts for nothing.
    `lock_in_doubt`: the connection to the broker that granted the lock ended, and a broker that restarts forgets it.
    """

    def __init__(self, queue: MessageQueue, offset: int, *, now_ms: int) -> None:
        self.queue = queue
        self.progress = QueueProgress(offset)
        self.dropped = False
        self.forfeited = False
        self.locked_at: float | None = None  # by the loop's clock; None: not locked
        self.lock_in_doubt = False
        self.last_lock_ms = self.last_pull_ms = self.last_consume_ms = now_ms
        self._changed = asyncio.Event()

    def drop(self, *, forfeit: bool = False) -> None:
        """It is ours no more."""
        self.dropped = True
        self.forfeited = self.forfeited or forfeit
        self.changed()

    def lock_is_valid(self, now: float) -> bool:
        return self.locked_at is not None and not self.lock_in_doubt and now - self.locked_at < LOCK_VALID_S

    def lock_may_be_lost(self, now: float) -> bool:
        """Whether somebody else may have had the lock since we last had it."""
        return self.locked_at is None or now - self.locked_at >= LOCK_KEPT_S

    def changed(self) -> None:
        """Something that somebody may wait for is different now."""
        self._changed.set()

    async def change(self, seconds: float | None = None) -> None:
        """Wait until something is different, or for so long. Look at the facts first, and again afterwards.

        One waits at a time for pulling and one for consuming, so each turn ends the wait of both.
        """
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
