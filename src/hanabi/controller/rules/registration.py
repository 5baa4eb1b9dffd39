"""Registration of a broker that has its id, and queries of the state of broker names.

Agrees with ReplicasInfoManager, and refuses more: an id whose holder is alive at another address, and a broker whose
log has an epoch that this controller has not given yet. Both mean that one of the two states is not of this cluster.

A broker registers when its process starts, and a power cut may have taken the unflushed end of its log. So it leaves
the replicas in sync if another of them is alive. A master resigns then, also if the controller has not missed it:
an epoch must not go on with other bytes. (Java's controller lets both go on.)
"""

from collections.abc import Iterable

from msgspec.structs import replace

from hanabi.controller.rules.ids import other_cluster
from hanabi.controller.rules.state import Alive, Answer, BrokerSet, Decision, refused
from hanabi.wire.bodies.v5.controller import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo, SyncStateSetBody
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import (
    GetReplicaInfoHeader,
    GetReplicaInfoReplyHeader,
    RegisterToControllerHeader,
    RegisterToControllerReplyHeader,
)


def register(state: BrokerSet | None, asked: RegisterToControllerHeader, alive: Alive) -> Decision:
    """Take over the address of a broker, and return its master if that is alive."""
    number = asked.broker_id
    if state is None or number not in state.replicas:
        return _unknown(state, asked)
    if (trouble := other_cluster(state, asked.cluster_name) or from_the_future(state, number, alive)) is not None:
        return trouble
    address = asked.broker_address or state.replicas[number].address
    if number in alive and alive[number].address != address:
        return _taken(state, number, alive[number].address, address)
    state = _restarted(_at(state, number, address), number, alive)
    header = RegisterToControllerReplyHeader(cluster_name=asked.cluster_name, broker_name=asked.broker_name)
    if state.master_id in alive:
        header = replace(
            header,
            master_broker_id=state.master_id,
            master_address=state.master_address,
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.sync_epoch,
        )
    return Decision(state, Answer(header=header, body=sync_set_body(state)))


def _restarted(state: BrokerSet, number: int, alive: Alive) -> BrokerSet:
    """Return the state without the broker *number* in sync, or, if no other is alive, in a new epoch of it."""
    if number not in state.in_sync:
        return state
    is_master = number == state.master_id
    if (state.in_sync - {number}) & alive.keys():
        in_sync, sync_epoch = state.in_sync - {number}, state.sync_epoch + 1
        master_id = None if is_master else state.master_id
    else:
        in_sync, sync_epoch, master_id = state.in_sync, state.sync_epoch, state.master_id
        if not is_master:
            return state
    epoch = state.master_epoch + is_master
    return replace(state, master_id=master_id, master_epoch=epoch, in_sync=in_sync, sync_epoch=sync_epoch)


def _at(state: BrokerSet, number: int, address: str) -> BrokerSet:
    known = state.replicas[number]
    if known.address == address:
        return state
    return replace(state, replicas={**state.replicas, number: replace(known, address=address)})


def _unknown(state: BrokerSet | None, asked: RegisterToControllerHeader) -> Decision:
    return refused(
        state,
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        f"BrokerId: {asked.broker_id} of {asked.broker_name} hasn't been registered here. If it was, the controller's"
        " state is lost: restore it. To begin again, delete brokerIdentity and epochFileCheckpoint in the store of the"
        " broker with the most messages and start that one first",
    )


def _taken(state: BrokerSet, number: int, holder: str, asker: str) -> Decision:
    return refused(
        state,
        ResponseCode.CONTROLLER_BROKER_ID_INVALID,
        f"brokerId {number} of {state.name} is alive at {holder}, so {asker} cannot have it: if its store is a copy,"
        " delete brokerIdentity there; if the broker moved, wait until its old address is silent",
    )


def from_the_future(state: BrokerSet, number: int, alive: Alive) -> Decision | None:
    """Refuse a broker whose log has an epoch that was never given; None if its epoch is right or not known."""
    epoch = alive[number].epoch if number in alive else 0
    if epoch <= state.master_epoch:
        return None
    return refused(
        state,
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        f"the log of {state.name}:{number} is of epoch {epoch}, and this controller has given only {state.master_epoch}"
        " epochs: its state was lost or is of another cluster. Restore it, or remove this broker's store",
    )


def replica_info(state: BrokerSet | None, asked: GetReplicaInfoHeader) -> Decision:
    """Return the master and the replicas in sync."""
    if state is None:
        remark = f"Broker metadata is not existed: {asked.broker_name}"
        return refused(state, ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, remark)
    header = GetReplicaInfoReplyHeader(
        master_broker_id=state.master_id, master_address=state.master_address, master_epoch=state.master_epoch
    )
    return Decision(state, Answer(header=header, body=sync_set_body(state)))


def sync_set_body(state: BrokerSet) -> SyncStateSetBody:
    """Return the replicas in sync, as they travel."""
    return SyncStateSetBody(sync_state_set=sorted(state.in_sync), sync_state_set_epoch=state.sync_epoch)


def sync_state_data(sets: Iterable[tuple[BrokerSet, Alive]]) -> BrokerReplicasInfo:
    """Return all replicas of the given broker names."""
    return BrokerReplicasInfo(replicas_info_table={state.name: _replicas_info(state, alive) for state, alive in sets})


def _replicas_info(state: BrokerSet, alive: Alive) -> ReplicasInfo:
    replicas = {
        number: ReplicaIdentity(
            broker_name=state.name, broker_id=number, broker_address=replica.address, alive=number in alive
        )
        for number, replica in sorted(state.replicas.items())
    }
    return ReplicasInfo(
        master_broker_id=state.master_id,
        master_address=state.master_address,
        master_epoch=state.master_epoch,
        sync_state_set_epoch=state.sync_epoch,
        in_sync_replicas=[each for number, each in replicas.items() if number in state.in_sync],
        not_in_sync_replicas=[each for number, each in replicas.items() if number not in state.in_sync],
    )
