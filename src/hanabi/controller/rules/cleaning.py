"""Removal of replicas, or of a whole broker name, from the state, on an operator's request.

Agrees with ReplicasInfoManager.cleanBrokerData, with two differences. Given ids alone are removed with
`is_clean_living_broker` too, where Java forgets the whole name. A removed master leaves no master behind.
"""

from msgspec.structs import replace

from hanabi.controller.rules.ids import other_cluster
from hanabi.controller.rules.state import Alive, Answer, BrokerSet, Decision, refused
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import CleanBrokerDataHeader

INVALID = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA


def clean(state: BrokerSet | None, asked: CleanBrokerDataHeader, alive: Alive) -> Decision:
    """Remove the given ids, or the whole name without ids. Living brokers are kept unless that is wanted."""
    if state is None:
        return refused(state, INVALID, f"Broker {asked.broker_name} is not existed,clean broker data failure.")
    if (foreign := other_cluster(state, asked.cluster_name)) is not None:
        return foreign
    try:
        ids = {int(text) for text in (asked.broker_controller_ids_to_clean or "").split(";") if text.strip()}
    except ValueError:
        wrong = asked.broker_controller_ids_to_clean
        return refused(state, INVALID, f"brokerControllerIdsToClean must be numbers such as 1;2, not {wrong!r}")
    living = sorted((ids or state.replicas.keys()) & alive.keys())
    if living and not asked.is_clean_living_broker:
        named = ", ".join(map(str, living))
        return refused(state, INVALID, f"Broker {state.name}:{named} is still alive, clean up failure")
    return Decision(_without(state, ids) if ids else None, Answer())


def _without(state: BrokerSet, ids: set[int]) -> BrokerSet | None:
    replicas = {number: replica for number, replica in state.replicas.items() if number not in ids}
    if not replicas:
        return None
    gone = state.master_id in ids
    changed = bool(state.in_sync & ids)
    return replace(
        state,
        replicas=replicas,
        master_id=None if gone else state.master_id,
        master_epoch=state.master_epoch + gone,
        in_sync=state.in_sync - ids,
        sync_epoch=state.sync_epoch + changed,
    )
