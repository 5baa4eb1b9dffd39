"""Headers of the requests that a controller of 5.x answers: it elects masters inside the set that is in sync.

Numbers are request codes. Java marks hardly any of these fields as required.
"""

from hanabi.wire.header import Header, Int32, Int64


class AlterSyncStateSetHeader(Header, frozen=True, kw_only=True):
    """1001: a master reports its in-sync set (in the body)."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 = 0


class AlterSyncStateSetReplyHeader(Header, frozen=True, kw_only=True):
    new_sync_state_set_epoch: Int32 = 0


class ElectMasterHeader(Header, frozen=True, kw_only=True):
    """1002: elect a master; with `designate_elect`, this broker and no other."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterReplyHeader(Header, frozen=True, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterToControllerHeader(Header, frozen=True, kw_only=True):
    """1003: a broker that has its id says that it is up."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 = 0


class RegisterToControllerReplyHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoHeader(Header, frozen=True, kw_only=True):
    """1004: the master, and the brokers in sync with it."""

    broker_name: str | None = None


class GetReplicaInfoReplyHeader(Header, frozen=True, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetControllerMetadataReplyHeader(Header, frozen=True, kw_only=True):
    """1005: the controllers themselves, and which of them leads."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class CleanBrokerDataHeader(Header, frozen=True, kw_only=True):
    """1011: forget brokers."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None  # ids, separated by semicolons
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0


class GetNextBrokerIdHeader(Header, frozen=True, kw_only=True):
    """1012: the id that the next new broker of this name may take."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdReplyHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdHeader(Header, frozen=True, kw_only=True):
    """1013: take that id; the check code proves later that it was this broker."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdReplyHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
