"""Bodies of the requests that a controller of 5.x answers.

Agrees with Java's SyncStateSet, ElectMasterResponseBody and BrokerReplicasInfo.
"""

from hanabi.wire.bodies.route import BrokerMemberGroup
from hanabi.wire.body import Body, always_written, always_written_new
from hanabi.wire.header import Int32, Int64


class SyncStateSetBody(Body, frozen=True, kw_only=True):
    """The ids of the replicas in sync with their master, and the epoch of this set."""

    sync_state_set: list[Int64] = always_written_new(list)
    sync_state_set_epoch: Int32 = always_written(0)


class ElectMasterBody(Body, frozen=True, kw_only=True):
    """The reply to 1002: the members of the broker name, and the set after the election."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = always_written_new(list)


class ReplicaIdentity(Body, frozen=True, kw_only=True):
    """One replica, and whether its heartbeats arrive."""

    alive: bool = always_written(False)
    broker_address: str | None = None
    broker_id: Int64 | None = None
    broker_name: str | None = None


class ReplicasInfo(Body, frozen=True, kw_only=True):
    """All replicas of one broker name."""

    in_sync_replicas: list[ReplicaIdentity] = always_written_new(list)
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = always_written(0)
    not_in_sync_replicas: list[ReplicaIdentity] = always_written_new(list)
    sync_state_set_epoch: Int32 = always_written(0)


class BrokerReplicasInfo(Body, frozen=True, kw_only=True):
    """The reply to 1006: the replicas of each broker name that was asked for."""

    replicas_info_table: dict[str, ReplicasInfo] = always_written_new(dict)


class EpochEntry(Body, frozen=True, kw_only=True):
    """One epoch of a log."""

    end_offset: Int64 = always_written(0)
    epoch: Int32 = always_written(0)
    start_offset: Int64 = always_written(0)


class EpochEntryCache(Body, frozen=True, kw_only=True):
    """The reply to 1007: the epochs of a broker's log."""

    broker_id: Int64 = always_written(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: list[EpochEntry] = always_written_new(list)
    max_offset: Int64 = always_written(0)
