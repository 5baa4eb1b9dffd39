"""Settings of replication: RocketMQ's keys and defaults, as in broker.conf.

Agrees with MessageStoreConfig of 4.9.8 and 5.3.3. `brokerRole`, `haListenPort` and `haMasterAddress` are the broker's.
"""

from typing import Annotated

import msgspec
from msgspec import field

from hanabi.errors import ConfigError
from hanabi.replication.rules.peers import AllowedPeers
from hanabi.replication.rules.put_rules import Group, PutRule
from hanabi.replication.wire import PIECE_BYTES_MAX

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
PieceBytes = Annotated[int, msgspec.Meta(ge=1, le=PIECE_BYTES_MAX)]


class ReplicationConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Replication settings of one broker. Each attribute names its key of broker.conf."""

    transfer_batch_bytes: PieceBytes = field(default=32_768, name="haTransferBatchSize")
    heartbeat_interval_ms: Positive = field(default=5_000, name="haSendHeartbeatInterval")
    housekeeping_interval_ms: Positive = field(default=20_000, name="haHousekeepingInterval")
    flow_control_enabled: bool = field(default=False, name="haFlowControlEnable")
    transfer_bytes_per_second: Long = field(default=100 << 20, name="maxHaTransferByteInSecond")

    # SYNC_MASTER
    slave_timeout_ms: Positive = field(default=3_000, name="slaveTimeout")
    slave_fall_behind_bytes: Long = field(default=256 << 20, name="haSlaveFallbehindMax")
    gap_not_in_sync_bytes: Long = field(default=256 << 20, name="haMaxGapNotInSync")
    total_replicas: Positive = field(default=1, name="totalReplicas")
    in_sync_replicas: Positive | None = field(default=None, name="inSyncReplicas")  # unset: one slave, as 4.9
    min_in_sync_replicas: Positive = field(default=1, name="minInSyncReplicas")
    auto_in_sync_replicas: bool = field(default=False, name="enableAutoInSyncReplicas")
    all_ack_in_sync_state_set: bool = field(default=False, name="allAckInSyncStateSet")
    acting_master_enabled: bool = field(default=False, name="enableSlaveActingMaster")

    # controller mode
    controller_mode_enabled: bool = field(default=False, name="enableControllerMode")
    async_learner: bool = field(default=False, name="asyncLearner")  # never in sync, never a master
    sync_from_last_file: bool = field(default=False, name="syncFromLastFile")
    not_caught_up_ms_max: Positive = field(default=15_000, name="haMaxTimeSlaveNotCatchup")

    # Hanabi's own keys
    allowed_peers: str = field(default="", name="haAllowedPeers")  # addresses and networks; empty: every peer
    ha_connections_max: Positive = field(default=64, name="haConnectionsMax")
    ha_tls_enabled: bool = field(default=False, name="haTlsEnable")  # Apache's brokers cannot speak it
    connect_timeout_ms: Positive = field(default=5_000, name="haConnectTimeout")
    reconnect_interval_ms: Positive = field(default=5_000, name="haReconnectInterval")  # the longest pause

    def __post_init__(self) -> None:
        AllowedPeers.parse(self.allowed_peers, key="haAllowedPeers")
        if self.in_sync_replicas is not None and self.in_sync_replicas < self.min_in_sync_replicas:
            raise ConfigError(
                f"inSyncReplicas {self.in_sync_replicas} is less than minInSyncReplicas {self.min_in_sync_replicas}"
            )

    def peers(self) -> AllowedPeers:
        """Return the peers that may connect."""
        return AllowedPeers.parse(self.allowed_peers, key="haAllowedPeers")

    def put_rule(self, *, is_sync: bool, group: Group | None = None) -> PutRule:
        """Return the requirements of these settings on a put."""
        if group is None and self.controller_mode_enabled:
            group = Group.CONTROLLER
        group = group or (Group.ACTING_MASTER if self.acting_master_enabled else Group.PLAIN)
        gap = self.slave_fall_behind_bytes if group is Group.PLAIN else self.gap_not_in_sync_bytes
        return PutRule(
            is_sync=is_sync,
            group=group,
            in_sync_replicas=self.in_sync_replicas,
            min_in_sync_replicas=self.min_in_sync_replicas,
            is_auto=self.auto_in_sync_replicas,
            is_all=self.all_ack_in_sync_state_set,
            fall_behind_bytes_max=gap,
        )
