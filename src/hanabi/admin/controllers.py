"""Controllers, Hanabi's and Apache's: state of broker names, elections, removal of brokers.

Agrees with mqadmin's getControllerMetaData, getSyncStateSet, electMaster and cleanBrokerMetadata. State requests go to
the leader, which any controller names.
"""

from collections.abc import Sequence

from hanabi.admin.access import SUCCESS, Access
from hanabi.admin.answer import Answer
from hanabi.errors import ConnectError, MQError, TransportError
from hanabi.wire.bodies.v5.controller import BrokerReplicasInfo, ReplicasInfo
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.v5.controller import (
    CleanBrokerDataHeader,
    ElectMasterHeader,
    ElectMasterReplyHeader,
    GetControllerMetadataReplyHeader,
)

_OR_ERROR = SUCCESS | {int(ResponseCode.SYSTEM_ERROR)}  # Apache's answer to a query without names


class ReplicaState(Answer, frozen=True, kw_only=True):
    """One replica of a broker name."""

    broker_id: int
    address: str | None
    alive: bool
    in_sync: bool


class BrokerSetState(Answer, frozen=True, kw_only=True):
    """One broker name, as the controllers know it."""

    broker: str
    master_id: int | None
    master: str | None
    master_epoch: int
    sync_epoch: int
    replicas: list[ReplicaState]


class ControllerState(Answer, frozen=True, kw_only=True):
    """The controllers, and the broker names that they know."""

    group: str | None
    leader: str
    controllers: list[str]
    brokers: list[BrokerSetState]


class Elected(Answer, frozen=True, kw_only=True):
    """The outcome of an election."""

    broker: str
    master_id: int | None
    master: str | None
    master_epoch: int | None


class Controllers:
    """Queries and actions about controllers."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def status(self, controllers: Sequence[str], names: Sequence[str] = ()) -> ControllerState:
        """Return the state of some broker names, or of all that controller or name server know."""
        metadata = await self._metadata(controllers)
        leader = _leader(metadata, controllers)
        table = await self._replicas(leader, names)
        if table is None:
            table = await self._replicas(leader, sorted({each.broker for each in await self._access.brokers()}))
        return ControllerState(
            group=metadata.group,
            leader=leader,
            controllers=[peer for peer in (metadata.peers or "").split(";") if peer],
            brokers=[_state(name, info) for name, info in sorted((table or {}).items())],
        )

    async def elect(self, controllers: Sequence[str], broker: str, broker_id: int, cluster: str | None) -> Elected:
        """Make one replica in sync the master."""
        leader = _leader(await self._metadata(controllers), controllers)
        header = ElectMasterHeader(
            cluster_name=cluster or "", broker_name=broker, broker_id=broker_id, designate_elect=True
        )
        accept = SUCCESS | {int(ResponseCode.CONTROLLER_MASTER_STILL_EXIST)}
        reply = await self._access.api.ask(
            leader, RequestCode.CONTROLLER_ELECT_MASTER, header, timeout=self._access.seconds, accept=accept
        )
        found = reply.header(ElectMasterReplyHeader)
        return Elected(
            broker=broker,
            master_id=found.master_broker_id,
            master=found.master_address,
            master_epoch=found.master_epoch,
        )

    async def clean(
        self, controllers: Sequence[str], broker: str, ids: Sequence[int], cluster: str | None, *, living: bool
    ) -> None:
        """Remove replicas, or a whole broker name, from the state."""
        leader = _leader(await self._metadata(controllers), controllers)
        header = CleanBrokerDataHeader(
            broker_name=broker,
            cluster_name=cluster,
            broker_controller_ids_to_clean=";".join(map(str, ids)) or None,
            is_clean_living_broker=living,
        )
        await self._access.api.ask(leader, RequestCode.CLEAN_BROKER_DATA, header, timeout=self._access.seconds)

    async def _metadata(self, controllers: Sequence[str]) -> GetControllerMetadataReplyHeader:
        """Return what the first controller that can be reached says."""
        reasons: list[str] = []
        for address in controllers:
            try:
                reply = await self._access.api.ask(
                    address, RequestCode.CONTROLLER_GET_METADATA_INFO, timeout=self._access.seconds
                )
                return reply.header(GetControllerMetadataReplyHeader)
            except TransportError as error:
                reasons.append(str(error))
        raise ConnectError(f"no controller can be reached (-a, --controller): {'; '.join(reasons)}")

    async def _replicas(self, leader: str, names: Sequence[str]) -> dict[str, ReplicasInfo] | None:
        """Return the replicas of *names*, or of all names; None from Apache's controller, which needs names."""
        reply = await self._access.api.ask(
            leader,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            None,
            encode_body(list(names), kind=list[str]),
            timeout=self._access.seconds,
            accept=SUCCESS if names else _OR_ERROR,
        )
        if reply.code != ResponseCode.SUCCESS:
            return None
        return decode_body(bytes(reply.body), BrokerReplicasInfo).replicas_info_table


def _leader(metadata: GetControllerMetadataReplyHeader, controllers: Sequence[str]) -> str:
    if not metadata.controller_leader_address:
        raise MQError(f"no controller leads now; asked was {', '.join(controllers)}: is a majority of them running?")
    return metadata.controller_leader_address


def _state(name: str, info: ReplicasInfo) -> BrokerSetState:
    replicas = [
        ReplicaState(broker_id=each.broker_id or 0, address=each.broker_address, alive=each.alive, in_sync=in_sync)
        for in_sync, found in ((True, info.in_sync_replicas), (False, info.not_in_sync_replicas))
        for each in found
    ]
    return BrokerSetState(
        broker=name,
        master_id=info.master_broker_id,
        master=info.master_address,
        master_epoch=info.master_epoch,
        sync_epoch=info.sync_state_set_epoch,
        replicas=sorted(replicas, key=lambda each: each.broker_id),
    )
