"""State of a queue that this member owns, from the rebalance that assigned it to the one that revokes it.

Holds facts and wakes the tasks that wait for a change; pulling, consuming and locking are elsewhere.
"""

import asyncio
from typing import Final

from hanabi.client.consumer.queue_progress import QueueProgress
from hanabi.message import MessageQueue

LOCK_VALID_S: Final = 30.0  # how long we trust a lock; the broker releases it after 60 s
LOCK_KEPT_S: Final = 60.0


class OwnedQueue:
    """State of one owned queue. `dropped` is final: when the queue is taken again, it gets a new object.

    `forfeited` is stronger: another member may own the queue already, so our offset for it is void. `lock_in_doubt`:
    the connection to the broker that granted the lock ended, and a broker that restarts forgets it.
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
        """Mark the queue as no longer owned."""
        self.dropped = True
        self.forfeited = self.forfeited or forfeit
        self.changed()

    def lock_is_valid(self, now: float) -> bool:
        return self.locked_at is not None and not self.lock_in_doubt and now - self.locked_at < LOCK_VALID_S

    def lock_may_be_lost(self, now: float) -> bool:
        """Return True if another member may have held the lock since we last had it."""
        return self.locked_at is None or now - self.locked_at >= LOCK_KEPT_S

    def changed(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.set()

    async def change(self, seconds: float | None = None) -> None:
        """Wait for a change, or for *seconds*. Check the facts before and after.

        One pulling and one consuming task wait at a time, so each change wakes both.
        """
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
