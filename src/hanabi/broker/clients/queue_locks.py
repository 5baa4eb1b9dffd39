"""Queue locks: in a group that consumes in order, one client at a time may consume a queue.

A client renews its locks every 20 seconds; a lock that was not renewed for 60 seconds is free. When a client leaves:

* It unregisters: it has stopped, so its locks are free at once. Java keeps them until they expire.
* Its connection ends: it may live on and consume what it has pulled. Every client trusts its own lock for 30 seconds
after the last renewal, so the lock is kept for that time and a margin. Java keeps it for 60. Freeing it at once would
let two members consume one queue at the same time: Java clients close a connection on which a reply was late.

Does no I/O. Agrees with Java's RebalanceLockManager.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hanabi.errors import SystemBusy
from hanabi.message import MessageQueue

logger = logging.getLogger(__name__)

LOCK_LIFE_MS = 60_000
ABANDONED_LIFE_MS = 35_000  # 30 s for which clients trust a lock, and 5 s for a renewal in flight
LOCKS_MAX = 200_000  # of all groups together; some 60 MB


@dataclass(slots=True)
class QueueLock:
    """Owner of a queue's lock, and the time of its last renewal."""

    client_id: str
    renewed_ms: int
    life_ms: int

    def has_expired(self, now_ms: int) -> bool:
        return now_ms - self.renewed_ms > self.life_ms


class QueueLocks:
    """Locks of all groups. *now_ms* should be monotonic: locks are lost when a clock is set forward."""

    def __init__(self, now_ms: Callable[[], int], *, life_ms: int = LOCK_LIFE_MS, locks_max: int = LOCKS_MAX) -> None:
        self._now_ms = now_ms
        self._life_ms = life_ms
        self._locks_max = locks_max
        self._locks: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Lock the free ones of *queues*, renew those that the client holds; return both. The remaining queues have an
        owner, and the client retries later."""
        now_ms = self._now_ms()
        locks = self._locks.setdefault(group, {})
        try:
            return [queue for queue in dict.fromkeys(queues) if self._lock(locks, group, client_id, queue, now_ms)]
        finally:
            if not locks:
                del self._locks[group]

    def _lock(
        self, locks: dict[MessageQueue, QueueLock], group: str, client_id: str, queue: MessageQueue, now_ms: int
    ) -> bool:
        lock = locks.get(queue)
        if lock is None:
            if self._count >= self._locks_max:
                raise SystemBusy(f"{self._count} queues are locked already, by all groups together")
            self._count += 1
            locks[queue] = QueueLock(client_id, now_ms, self._life_ms)
            return True
        if lock.client_id != client_id:
            if not lock.has_expired(now_ms):
                return False
            logger.info(
                "group %s: the lock of %s on %s has expired; %s has it", group, lock.client_id, queue, client_id
            )
        lock.client_id, lock.renewed_ms, lock.life_ms = client_id, now_ms, self._life_ms
        return True

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free those of *queues* that the client holds; locks of other clients stay."""
        locks = self._locks.get(group, {})
        self._free(group, [queue for queue in queues if (lock := locks.get(queue)) and lock.client_id == client_id])

    def left(self, group: str, client_id: str, said_so: bool) -> None:
        """Release the locks of a client that left the group. *said_so*: it unregistered, so it has stopped."""
        locks = self._locks.get(group, {})
        own = [queue for queue, lock in locks.items() if lock.client_id == client_id]
        if said_so:
            self._free(group, own)
            return
        for queue in own:
            locks[queue].life_ms = min(self._life_ms, ABANDONED_LIFE_MS)

    def forget_expired(self) -> None:
        """Remove expired locks from memory. Call it from time to time."""
        now_ms = self._now_ms()
        for group, locks in list(self._locks.items()):
            self._free(group, [queue for queue, lock in locks.items() if lock.has_expired(now_ms)])

    def remove_group(self, group: str) -> None:
        """Remove all locks of a deleted group."""
        self._count -= len(self._locks.pop(group, {}))

    def of_group(self, group: str) -> Mapping[MessageQueue, QueueLock]:
        """Return the locks of a group, read-only; some may have expired."""
        return self._locks.get(group, {})

    def _free(self, group: str, queues: Iterable[MessageQueue]) -> None:
        locks = self._locks.get(group)
        if locks is None:
            return
        for queue in queues:
            if locks.pop(queue, None) is not None:
                self._count -= 1
        if not locks:
            del self._locks[group]
