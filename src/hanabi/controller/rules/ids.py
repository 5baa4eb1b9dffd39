"""Broker ids: the next free one, and taking it. A broker does so in three steps, and may die after each.

1. It asks for the next id and notes it with a check code of its own. 2. It applies for the id. 3. It notes that it has
it, and registers. A repeated application with the same check code is granted again. Agrees with ReplicasInfoManager.
"""

from msgspec.structs import replace

from hanabi.controller.rules.state import FIRST_ID, Answer, BrokerSet, Decision, Replica, refused
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.v5.controller import (
    ApplyBrokerIdHeader,
    ApplyBrokerIdReplyHeader,
    GetNextBrokerIdHeader,
    GetNextBrokerIdReplyHeader,
)


def next_id(state: BrokerSet | None, asked: GetNextBrokerIdHeader) -> Decision:
    """Return the id that a new broker of this name may apply for."""
    if (foreign := other_cluster(state, asked.cluster_name)) is not None:
        return foreign
    header = GetNextBrokerIdReplyHeader(
        cluster_name=asked.cluster_name,
        broker_name=asked.broker_name,
        next_broker_id=FIRST_ID if state is None else state.next_id,
    )
    return Decision(state, Answer(header=header))


def apply_id(state: BrokerSet | None, asked: ApplyBrokerIdHeader) -> Decision:
    """Give an id away, once; the first one also begins the state of its broker name."""
    if not asked.broker_name or not asked.cluster_name or asked.applied_broker_id is None:
        return refused(state, ResponseCode.CONTROLLER_INVALID_REQUEST, "an id needs a cluster, a broker name and an id")
    if (foreign := other_cluster(state, asked.cluster_name)) is not None:
        return foreign
    known = state or BrokerSet(cluster=asked.cluster_name, name=asked.broker_name)
    number, code = asked.applied_broker_id, asked.register_check_code or ""
    header = ApplyBrokerIdReplyHeader(cluster_name=asked.cluster_name, broker_name=asked.broker_name)
    if (holder := known.replicas.get(number)) is not None and holder.check_code == code:
        return Decision(state, Answer(header=header))
    if number != known.next_id:
        why = "is taken" if number in known.replicas else f"is not the next one, {known.next_id}"
        remark = f"Fail to apply brokerId: {number} of {asked.broker_name} {why}; ask for the next id again"
        return refused(state, ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, header)
    replica = Replica(address=code.partition(";")[0], check_code=code)
    after = replace(known, next_id=number + 1, replicas={**known.replicas, number: replica})
    return Decision(after, Answer(header=header))


def other_cluster(state: BrokerSet | None, cluster: str | None) -> Decision | None:
    """Refuse a broker that has the name of a broker in another cluster; None if its cluster is right or not given."""
    if state is None or not cluster or cluster == state.cluster:
        return None
    return refused(
        state,
        ResponseCode.CONTROLLER_INVALID_REQUEST,
        f"broker {state.name} belongs to cluster {state.cluster} here, not to {cluster}: choose another brokerName, or"
        " correct brokerClusterName",
    )
