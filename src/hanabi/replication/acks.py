"""The master's view of its slaves for puts: connected slaves, their progress, and waiting puts.

    refused = acks.why_refused(end)                 before the append; a sentence: code 1, nothing is stored
    acks.wait(end_offset, on_done)                  after it; calls on_done at once or later, once

Pure: the clock is handed in, and the owner calls `expire` when `next_deadline` has come. One thread, that of the loop.
"""

from collections.abc import Callable, Collection

from hanabi.replication.rules.progress import AckMark, SlaveProgress, in_sync_slaves
from hanabi.replication.rules.put_rules import (
    PutRule,
    Standing,
    acknowledgements_needed,
    status_at_once,
    why_refused,
)
from hanabi.replication.rules.waiters import OnDone, Waiters
from hanabi.store.message_store import PutStatus


class Acknowledgements:
    """Slaves by their progress, and the puts that wait for them."""

    def __init__(
        self,
        rule: PutRule,
        *,
        timeout_seconds: float,
        now: Callable[[], float],
        waiting_max: int = 100_000,
        on_wait: Callable[[float], None] = lambda deadline: None,
    ) -> None:
        """*on_wait* gets the deadline of each put that begins to wait while no other does."""
        self.rule, self._timeout_seconds, self._now = rule, timeout_seconds, now
        self._waiting_max, self._on_wait = waiting_max, on_wait
        self._slaves: list[SlaveProgress] = []
        self._waiters: dict[int, tuple[AckMark, Waiters]] = {}  # by the number of slaves that must acknowledge
        self.alive: int | None = None  # brokers of this name that are alive, where that is known
        for count in {1, (rule.in_sync_replicas or 2) - 1} - {0}:
            self._waiting_for(count)  # their marks count from the beginning

    def use(self, rule: PutRule, timeout_seconds: float) -> None:
        """Apply changed settings to later puts."""
        self.rule, self._timeout_seconds = rule, timeout_seconds
        self._waiting_for((rule.in_sync_replicas or 2) - 1 or 1)

    # The slaves

    @property
    def slaves(self) -> Collection[SlaveProgress]:
        """Slaves that are connected and have asked for a position."""
        return tuple(self._slaves)

    def join(self, slave: SlaveProgress) -> None:
        """Count *slave* from now on."""
        self._slaves.append(slave)

    def leave(self, slave: SlaveProgress) -> None:
        """Stop counting *slave*. What it has acknowledged stays acknowledged."""
        self._slaves.remove(slave)

    def acknowledged(self) -> None:
        """Release the puts that enough slaves hold: one of them has acknowledged more."""
        for mark, waiters in self._waiters.values():
            if mark.advance(self._slaves) and waiters:
                waiters.release(mark.offset)

    def standing(self, end: int) -> Standing:
        """Return the number of slaves that a put ending at *end* can count on."""
        in_sync = in_sync_slaves(self._slaves, end, self.rule.fall_behind_bytes_max)
        return Standing(len(self._slaves), len(in_sync), self.alive)

    # The puts

    @property
    def needs_waiting(self) -> bool:
        """Return whether puts may have to wait at all: if not, the caller can skip `wait`."""
        return self.rule.is_sync

    def why_refused(self, end: int) -> str | None:
        """Return why nothing may be stored behind *end* now; None if it may."""
        return why_refused(self.rule, self.standing(end)) if self.rule.may_refuse else None

    def wait(self, end_offset: int, on_done: OnDone) -> None:
        """Call *on_done* once: at once, or when enough slaves hold the log up to *end_offset*, or at the deadline."""
        standing = self.standing(end_offset)
        status = status_at_once(self.rule, standing)
        if status is not None:
            on_done(status)
            return
        mark, waiters = self._waiting_for(acknowledgements_needed(self.rule, standing))
        deadline = self._now() + self._timeout_seconds
        if mark.offset >= end_offset:
            on_done(PutStatus.PUT_OK)
        elif not waiters.add(end_offset, deadline, on_done):
            on_done(PutStatus.FLUSH_SLAVE_TIMEOUT)  # it is stored here, and there is no room for another waiter
        elif len(waiters) == 1:
            self._on_wait(deadline)

    @property
    def waiting(self) -> int:
        """Number of waiting puts."""
        return sum(len(waiters) for _, waiters in self._waiters.values())

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if no put waits."""
        deadlines = [waiters.next_deadline for _, waiters in self._waiters.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expire(self) -> int:
        """End the puts whose deadline has passed; return their number."""
        now = self._now()
        return sum(waiters.expire(now) for _, waiters in self._waiters.values())

    def end_all(self) -> None:
        """End every waiting put, as the broker stops: it is stored here, and no slave will acknowledge it."""
        for _, waiters in self._waiters.values():
            waiters.end_all(PutStatus.FLUSH_SLAVE_TIMEOUT)

    def _waiting_for(self, count: int) -> tuple[AckMark, Waiters]:
        """Return the mark and the waiters of *count* acknowledgements: only few different counts occur."""
        found = self._waiters.get(count)
        if found is None:
            mark = AckMark(count)
            mark.advance(self._slaves)
            found = self._waiters[count] = (mark, Waiters(self._waiting_max))
        return found
