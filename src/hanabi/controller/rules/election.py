"""Election of a master: among the living replicas in sync, so that nothing acknowledged is lost.

The order agrees with DefaultElectPolicy, with offsets of 64 bits (Java's are cut to 32, apache/rocketmq#8380): the old
master if it is alive and no other was designated, the designated one, then the newest epoch, the longest log, the
smallest priority. Unlike Java's, an election never takes a broker that is not registered, and a first election for a
designated broker needs that broker alive.
"""

from collections.abc import Set

from msgspec.structs import replace

from hanabi.controller.rules.ids import other_cluster
from hanabi.controller.rules.registration import from_the_future
from hanabi.controller.rules.state import NO_ID, Alive, Answer, BrokerSet, Decision, refused
from hanabi.wire.bodies.route import BrokerMemberGroup
from hanabi.wire.bodies.v5.controller import ElectMasterBody
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import ElectMasterHeader, ElectMasterReplyHeader


def elect(state: BrokerSet | None, asked: ElectMasterHeader, alive: Alive, *, unclean: bool = False) -> Decision:
    """Elect a master. *unclean* allows one that is not in sync, if no other is alive: messages may be lost."""
    if state is None or (asked.broker_id != NO_ID and asked.broker_id not in state.replicas):
        remark = f"Broker hasn't been registered: {asked.broker_name}:{asked.broker_id}"
        return refused(state, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)
    trouble = other_cluster(state, asked.cluster_name) or from_the_future(state, asked.broker_id, alive)
    if trouble is not None:
        return trouble
    chosen = _first(state, asked, alive) if state.master_epoch == 0 else _chosen(state, asked, alive, unclean)
    if chosen is None:
        return _nobody(state, asked)
    if chosen == state.master_id:
        remark = f"The old master {chosen} is still alive, not need to elect new master for broker {state.name}"
        return Decision(state, _elected(state, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark))
    after = _with_master(state, chosen)
    return Decision(after, _elected(after, ResponseCode.SUCCESS, None))


def needs_election(state: BrokerSet, alive: Alive) -> bool:
    """Return True if the master is gone while another replica is alive: only then is there something to decide."""
    return state.master_id is not None and state.master_id not in alive and bool(alive.keys() & state.replicas.keys())


def _first(state: BrokerSet, asked: ElectMasterHeader, alive: Alive) -> int | None:
    """Return the asking broker: no log holds anything yet. Its first heartbeat may still be under way."""
    if asked.broker_id == NO_ID or asked.designate_elect:
        return _best(state, state.replicas.keys(), asked, alive)
    return asked.broker_id


def _chosen(state: BrokerSet, asked: ElectMasterHeader, alive: Alive, unclean: bool) -> int | None:
    chosen = _best(state, state.in_sync, asked, alive)
    return _best(state, state.replicas.keys(), asked, alive) if chosen is None and unclean else chosen


def _best(state: BrokerSet, among: Set[int], asked: ElectMasterHeader, alive: Alive) -> int | None:
    candidates = {number for number in among if number in alive and alive[number].epoch <= state.master_epoch}
    if asked.designate_elect:
        return asked.broker_id if asked.broker_id in candidates else None
    if state.master_id in candidates:
        return state.master_id
    return min(candidates, key=lambda number: _rank(alive, number), default=None)


def _rank(alive: Alive, number: int) -> tuple[int, int, int, int]:
    live = alive[number]
    return -live.epoch, -live.max_offset, live.priority, number


def _with_master(state: BrokerSet, chosen: int) -> BrokerSet:
    return replace(
        state,
        master_id=chosen,
        master_epoch=state.master_epoch + 1,
        in_sync=frozenset({chosen}),
        sync_epoch=state.sync_epoch + 1,
    )


def _nobody(state: BrokerSet, asked: ElectMasterHeader) -> Decision:
    """Refuse; the controller itself also notes that the master is gone. The set stays: one of it must come back."""
    if asked.broker_id != NO_ID:
        needed = ", ".join(map(str, sorted(state.in_sync)))
        remark = f"Failed to elect a new master for {state.name}: no candidate is alive; in sync were {needed}"
        return refused(state, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark)
    remark = f"Old master of {state.name} has down and failed to elect a new broker master"
    if state.master_id is None:
        return refused(state, ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark)
    after = replace(state, master_id=None, master_epoch=state.master_epoch + 1)
    return refused(after, ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark)


def _elected(state: BrokerSet, code: ResponseCode, remark: str | None) -> Answer:
    header = ElectMasterReplyHeader(
        master_broker_id=state.master_id,
        master_address=state.master_address,
        master_epoch=state.master_epoch,
        sync_state_set_epoch=state.sync_epoch,
    )
    addresses = {number: replica.address for number, replica in sorted(state.replicas.items())}
    group = BrokerMemberGroup(broker_addrs=addresses, broker_name=state.name, cluster=state.cluster)
    body = ElectMasterBody(broker_member_group=group, sync_state_set=sorted(state.in_sync))
    return Answer(code=code, remark=remark, header=header, body=body)
