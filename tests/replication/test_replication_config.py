"""Apache's keys and defaults, and the peers that may connect."""

import msgspec
import pytest

from hanabi.errors import ConfigError
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.rules.peers import AllowedPeers


def config(**keys: str) -> ReplicationConfig:
    return msgspec.convert(keys, ReplicationConfig, strict=False)


def test_the_defaults_are_apaches() -> None:
    defaults = {name: getattr(ReplicationConfig(), field) for field, name in _names().items()}
    assert (
        defaults.items()
        >= {
            "haTransferBatchSize": 32768,
            "haSendHeartbeatInterval": 5000,
            "haHousekeepingInterval": 20000,
            "haSlaveFallbehindMax": 256 << 20,
            "haMaxGapNotInSync": 256 << 20,
            "haFlowControlEnable": False,
            "maxHaTransferByteInSecond": 100 << 20,
            "slaveTimeout": 3000,
            "minInSyncReplicas": 1,
            "totalReplicas": 1,
        }.items()
    )


def _names() -> dict[str, str]:
    return {field.name: field.encode_name for field in msgspec.structs.fields(ReplicationConfig)}


def test_settings_are_read_under_apaches_keys() -> None:
    read = config(haTransferBatchSize="65536", inSyncReplicas="2", allAckInSyncStateSet="true")
    assert (read.transfer_batch_bytes, read.in_sync_replicas, read.all_ack_in_sync_state_set) == (65536, 2, True)
    assert read.put_rule(is_sync=True).in_sync_replicas == 2


def test_fewer_replicas_than_the_minimum_are_refused() -> None:
    with pytest.raises(ConfigError, match="inSyncReplicas 1 is less than minInSyncReplicas 2"):
        ReplicationConfig(in_sync_replicas=1, min_in_sync_replicas=2)


@pytest.mark.parametrize(
    ("text", "host", "allowed"),
    [
        ("", "203.0.113.9", True),
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("10.0.0.0/8, 192.0.2.7", "10.20.30.40", True),
        ("10.0.0.0/8;::1", "::1", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("10.0.0.0/8", "::1", False),
    ],
)
def test_peers_are_allowed_by_address_and_network(text: str, host: str, allowed: bool) -> None:
    assert AllowedPeers.parse(text, key="haAllowedPeers").allows(host) == allowed


def test_a_peer_that_is_no_address_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="haAllowedPeers: 'broker-b' is neither"):
        ReplicationConfig(allowed_peers="broker-b")
