"""The state of one broker name: its replicas, its master, and the replicas in sync with it. Immutable.

Epochs only grow. A new master means a new `master_epoch`; a new set of replicas in sync means a new `sync_epoch`.
Agrees with Java's BrokerReplicaInfo and SyncStateInfo.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from hanabi.wire.body import Body
from hanabi.wire.codes import ResponseCode
from hanabi.wire.header import Header

FIRST_ID: Final = 1
NO_ID: Final = -1  # "the controller itself" in an election request


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One broker process that took an id. The check code proves that a repeated application is its own."""

    address: str
    check_code: str


class BrokerSet(msgspec.Struct, frozen=True, kw_only=True):
    """One broker name. `next_id` never falls, so that an id is given away once."""

    cluster: str
    name: str
    next_id: int = FIRST_ID
    replicas: dict[int, Replica] = msgspec.field(default_factory=dict)  # never changed in place
    master_id: int | None = None
    master_epoch: int = 0
    in_sync: frozenset[int] = frozenset()
    sync_epoch: int = 0

    @property
    def master_address(self) -> str | None:
        """Return the address of the master; None while there is none."""
        return self.address_of(self.master_id)

    def address_of(self, broker_id: int | None) -> str | None:
        """Return the address of a replica; None if it is unknown."""
        replica = self.replicas.get(broker_id) if broker_id is not None else None
        return replica.address if replica is not None else None


class Live(NamedTuple):
    """The last heartbeat of a broker that is alive."""

    address: str
    epoch: int
    max_offset: int
    priority: int  # the smaller is preferred


Alive = Mapping[int, Live]  # the living brokers of one name, by id


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a request, before it is encoded."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: Header | None = None
    body: Body | None = None


class Decision(NamedTuple):
    """The state after a request, and its answer. The state is the same object if nothing changes; None: forgotten."""

    state: BrokerSet | None
    answer: Answer


def refused(state: BrokerSet | None, code: ResponseCode, remark: str, header: Header | None = None) -> Decision:
    """Return a decision that changes nothing."""
    return Decision(state, Answer(code=code, remark=remark, header=header))
