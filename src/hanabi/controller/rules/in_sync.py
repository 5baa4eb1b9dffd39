"""Changes of the replicas in sync: only by the present master, in its epoch, and from the set that it knows.

Agrees with ReplicasInfoManager.alterSyncStateSet. Unlike Java's, a request that was carried out before and whose reply
was lost is answered again.
"""

from msgspec.structs import replace

from hanabi.controller.rules.registration import sync_set_body
from hanabi.controller.rules.state import Alive, Answer, BrokerSet, Decision, refused
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import AlterSyncStateSetHeader, AlterSyncStateSetReplyHeader


def alter(state: BrokerSet | None, asked: AlterSyncStateSetHeader, body: SyncStateSetBody, alive: Alive) -> Decision:
    """Replace the set of replicas in sync."""
    if state is None:
        remark = f"Broker metadata is not existed: {asked.broker_name}"
        return refused(state, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)
    wanted = frozenset(body.sync_state_set)
    if (fence := _fenced(state, asked)) is not None:
        return fence
    if wanted == state.in_sync and body.sync_state_set_epoch == state.sync_epoch - 1:
        return Decision(state, _altered(state))
    if body.sync_state_set_epoch != state.sync_epoch:
        remark = f"the epoch of the set of {state.name} is {state.sync_epoch}, not {body.sync_state_set_epoch}"
        return refused(state, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark)
    if (bad := _impossible(state, wanted, alive)) is not None:
        return bad
    after = replace(state, in_sync=wanted, sync_epoch=state.sync_epoch + 1)
    return Decision(after, _altered(after))


def _fenced(state: BrokerSet, asked: AlterSyncStateSetHeader) -> Decision | None:
    if state.master_id is None or asked.master_broker_id != state.master_id:
        remark = f"the master of {state.name} is {state.master_id}, not {asked.master_broker_id}"
        return refused(state, ResponseCode.CONTROLLER_INVALID_MASTER, remark)
    if asked.master_epoch != state.master_epoch:
        remark = f"the master epoch of {state.name} is {state.master_epoch}, not {asked.master_epoch}"
        return refused(state, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark)
    return None


def _impossible(state: BrokerSet, wanted: frozenset[int], alive: Alive) -> Decision | None:
    """Refuse a set that cannot be. A member must be alive to join; that one leaves says that it is not."""
    if wanted == state.in_sync:
        remark = f"the set of {state.name} is {sorted(wanted)} already"
        return refused(state, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)
    if unknown := wanted - state.replicas.keys():
        remark = f"replicas {sorted(unknown)} of {state.name} don't exist"
        return refused(state, ResponseCode.CONTROLLER_INVALID_REPLICAS, remark)
    if silent := wanted - alive.keys():
        remark = f"replicas {sorted(silent)} of {state.name} don't alive: no heartbeat from them"
        return refused(state, ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, remark)
    if state.master_id not in wanted:
        remark = f"the set of {state.name} must contain its master {state.master_id}"
        return refused(state, ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark)
    return None


def _altered(state: BrokerSet) -> Answer:
    header = AlterSyncStateSetReplyHeader(new_sync_state_set_epoch=state.sync_epoch)
    return Answer(header=header, body=sync_set_body(state))
