"""Acknowledgements of a master in controller mode: puts wait for the replicas in sync, by their ids.

    acks.begin(...)            this broker is master of an epoch
    acks.wait(end, on_done)    as `Acknowledgements.wait`
    acks.confirmed             readers see nothing above

The set is read when an acknowledgement comes, not when a put begins to wait: a replica that joined meanwhile must hold
the put as well, since it may be elected.
"""

from collections.abc import Callable, Collection
from typing import Final

from hanabi.replication.acks import Acknowledgements
from hanabi.replication.rules.progress import SlaveProgress
from hanabi.replication.rules.put_rules import PutRule, Standing
from hanabi.replication.rules.sync_set import Replica, SyncSet, acknowledged_by, acknowledged_by_all
from hanabi.replication.rules.waiters import OnDone, Waiters
from hanabi.store.message_store import PutStatus

NO_LIMIT: Final = 1 << 62
_UNKNOWN: Final = -1


class InSyncAcks(Acknowledgements):
    """The replicas of one broker. It has none while the broker is a slave."""

    def __init__(
        self,
        rule: PutRule,
        *,
        timeout_seconds: float,
        now: Callable[[], float],
        waiting_max: int = 100_000,
        on_wait: Callable[[float], None] = lambda deadline: None,
        end_offset: Callable[[], int] = lambda: 0,
        on_confirmed: Callable[[int], None] = lambda offset: None,
    ) -> None:
        """*end_offset* returns the end of the log; *on_confirmed* gets each new limit of readers."""
        super().__init__(rule, timeout_seconds=timeout_seconds, now=now, waiting_max=waiting_max, on_wait=on_wait)
        self._end_offset, self._on_confirmed = end_offset, on_confirmed
        self._waiting_puts = Waiters(waiting_max)
        self.replicas: dict[int, Replica] = {}  # connected ones
        self.master_id, self.epoch_start = 0, 0
        self.sync_set = SyncSet(members=frozenset(), epoch=0)
        self._mark = 0  # what enough replicas hold; never falls within an epoch
        self.confirmed = NO_LIMIT
        self.fence: str | None = None

    def use(self, rule: PutRule, timeout_seconds: float) -> None:
        self.rule, self._timeout_seconds = rule, timeout_seconds
        self.acknowledged()

    # The set

    def begin(self, master_id: int, sync_set: SyncSet) -> None:
        """Start an epoch of this master."""
        end = self._end_offset()
        self.master_id, self.sync_set, self.epoch_start, self._mark = master_id, sync_set, end, 0
        self.replicas.clear()
        self.confirmed = _UNKNOWN
        self.acknowledged()

    def end(self) -> None:
        """Stop being a master: the waiting puts are stored here, and may be lost."""
        self.replicas.clear()
        self.end_all()

    def use_set(self, sync_set: SyncSet) -> None:
        """Apply a change of the set."""
        self.sync_set = sync_set
        self.acknowledged()

    @property
    def is_limited(self) -> bool:
        """Return whether readers must wait for replicas."""
        return self.rule.is_all and len(self.sync_set.required) > 1

    # The slaves

    def join(self, slave: SlaveProgress) -> None:
        return None  # replicas join by their id

    def leave(self, slave: SlaveProgress) -> None:
        return None

    def join_replica(self, replica: Replica) -> None:
        """Count a connected replica from now on; an older connection of it is void."""
        self.replicas[replica.broker_id] = replica

    def leave_replica(self, replica: Replica) -> None:
        """Stop counting *replica*, unless it has connected again."""
        if self.replicas.get(replica.broker_id) is replica:
            del self.replicas[replica.broker_id]

    @property
    def slaves(self) -> Collection[SlaveProgress]:
        return ()

    def acknowledged(self) -> None:
        required, rule = self.sync_set.required, self.rule
        if rule.is_all:
            held = acknowledged_by_all(required, self.replicas.values(), master_id=self.master_id)
        else:
            held = acknowledged_by((rule.in_sync_replicas or 1) - 1, required, self.replicas.values())
        if held is None:
            self._mark = NO_LIMIT
            if self._is_enough:
                self._waiting_puts.release(NO_LIMIT)
        elif self._mark == NO_LIMIT:
            self._mark = self._end_offset()  # what this broker acknowledged alone stays acknowledged
        elif held > self._mark:
            self._mark_at(held)
        self._confirm()

    @property
    def _is_enough(self) -> bool:
        """Return whether the set is so large that its acknowledgement counts: it may have shrunk since a put."""
        return len(self.sync_set.required) >= self.rule.min_in_sync_replicas

    def _mark_at(self, offset: int) -> None:
        self._mark = offset
        if self._waiting_puts:
            self._waiting_puts.release(offset)

    def _confirm(self) -> None:
        confirmed = self._mark if self.is_limited else NO_LIMIT
        if confirmed != self.confirmed:
            self.confirmed = confirmed
            self._on_confirmed(confirmed)

    # The puts

    @property
    def needs_waiting(self) -> bool:
        return True

    def standing(self, end: int) -> Standing:
        return Standing(len(self.replicas), len(self.sync_set.members) - 1)

    def why_refused(self, end: int) -> str | None:
        if self.fence is not None:
            return self.fence
        if self.is_limited and end - self._mark >= self.rule.fall_behind_bytes_max:
            return f"the replicas in sync hold the log up to {self._mark}, and it ends at {end}"
        have, need = len(self.sync_set.members), self.rule.min_in_sync_replicas
        return None if have >= need else f"{have} of {need} replicas are in sync"

    def wait(self, end_offset: int, on_done: OnDone) -> None:
        deadline = self._now() + self._timeout_seconds
        if self._mark >= end_offset and self._is_enough:
            on_done(PutStatus.PUT_OK)
        elif not self._waiting_puts.add(end_offset, deadline, on_done):
            on_done(PutStatus.FLUSH_SLAVE_TIMEOUT)
        elif len(self._waiting_puts) == 1:
            self._on_wait(deadline)

    @property
    def waiting(self) -> int:
        return len(self._waiting_puts)

    @property
    def next_deadline(self) -> float | None:
        return self._waiting_puts.next_deadline

    def expire(self) -> int:
        return self._waiting_puts.expire(self._now())

    def end_all(self) -> None:
        self._waiting_puts.end_all(PutStatus.FLUSH_SLAVE_TIMEOUT)
