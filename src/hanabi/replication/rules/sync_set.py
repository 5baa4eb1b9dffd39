"""Replicas in sync with their master, in controller mode. Pure: the caller passes the time.

    join       not a learner; it acknowledges the confirmed offset and the start of the newest epoch
    leave      disconnected, or not caught up for haMaxTimeSlaveNotCatchup
    confirmed  all members hold the log up to it

While a change is on its way to the controller, the members of both sets must acknowledge: the reply may be lost, and
either set may be in force (apache/rocketmq#5663).
"""

from collections.abc import Collection, Iterable

import msgspec


class Replica(msgspec.Struct):
    """One connected slave, as its master sees it."""

    broker_id: int
    is_learner: bool = False
    acked: int = -1  # -1: it has not acknowledged anything yet
    caught_up_at: float = 0.0


class SyncSet(msgspec.Struct, frozen=True, kw_only=True):
    """The set that the controller has confirmed, and the one that it was asked for."""

    members: frozenset[int]
    epoch: int
    asked: frozenset[int] | None = None

    @property
    def required(self) -> frozenset[int]:
        """Members of either set: all of them must hold what is acknowledged."""
        return self.members | (self.asked or frozenset())


def wanted_members(
    current: Collection[int],
    replicas: Iterable[Replica],
    *,
    master_id: int,
    confirmed: int,
    epoch_start: int,
    now: float,
    silence_seconds: float,
) -> frozenset[int]:
    """Return the members that the set should have."""
    connected = {replica.broker_id: replica for replica in replicas if not replica.is_learner}
    stay = {each for each in current if each in connected and now - connected[each].caught_up_at <= silence_seconds}
    join = {
        number
        for number, replica in connected.items()
        if number not in current and replica.acked >= max(confirmed, epoch_start)
    }
    return frozenset({master_id} | stay | join)


def acknowledged_by_all(required: Collection[int], replicas: Iterable[Replica], *, master_id: int) -> int | None:
    """Return the offset that all required slaves hold; None if there are none, 0 if one is not connected."""
    slaves = {each for each in required if each != master_id}
    if not slaves:
        return None
    acked = {replica.broker_id: replica.acked for replica in replicas}
    return min(acked.get(each, 0) for each in slaves)


def acknowledged_by(count: int, required: Collection[int], replicas: Iterable[Replica]) -> int | None:
    """Return the offset that *count* of the required slaves hold; None if none is needed, 0 if they are too few."""
    if count <= 0:
        return None
    acked = sorted((each.acked for each in replicas if each.broker_id in required), reverse=True)
    return acked[count - 1] if count <= len(acked) else 0
