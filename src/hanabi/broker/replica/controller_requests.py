"""Requests of a broker to its controllers: state requests go to the one that leads, heartbeats to each of them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from hanabi.errors import BrokerError, ConfigError, ConnectError, MQError, TransportError
from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.connector import Connector
from hanabi.replication.rules.role_news import RoleNews
from hanabi.wire.bodies.v5.controller import ElectMasterBody, SyncStateSetBody
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader
from hanabi.wire.headers.v5 import controller as headers

logger = logging.getLogger(__name__)

SECONDS: Final = 3.0
_LEADS_NO_MORE: Final = ResponseCode.CONTROLLER_NOT_LEADER


class ControllerRequests:
    """The controllers at *addresses*, asked by the broker *name* of *cluster*."""

    def __init__(self, connector: Connector, addresses: Sequence[str], cluster: str, name: str) -> None:
        self._connector, self._addresses, self._cluster, self._name = connector, tuple(addresses), cluster, name
        self.leader: str | None = None

    async def next_id(self) -> int:
        """Return the id that a new broker may apply for."""
        header = headers.GetNextBrokerIdHeader(cluster_name=self._cluster, broker_name=self._name)
        reply = await self._checked(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        return reply.header(headers.GetNextBrokerIdReplyHeader).next_broker_id or 0

    async def apply_id(self, broker_id: int, check_code: str) -> bool:
        """Apply for an id; return False if it is refused for good."""
        header = headers.ApplyBrokerIdHeader(
            cluster_name=self._cluster,
            broker_name=self._name,
            applied_broker_id=broker_id,
            register_check_code=check_code,
        )
        reply = await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)
        if reply.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
            return False
        _check(reply, RequestCode.CONTROLLER_APPLY_BROKER_ID)
        return True

    async def register(self, broker_id: int, address: str) -> RoleNews:
        """Say that the broker is up at *address*."""
        header = headers.RegisterToControllerHeader(
            cluster_name=self._cluster, broker_name=self._name, broker_id=broker_id, broker_address=address
        )
        reply = await self._checked(RequestCode.CONTROLLER_REGISTER_BROKER, header)
        found = reply.header(headers.RegisterToControllerReplyHeader)
        return _news(found.master_broker_id, found.master_address, found.master_epoch, _members(reply))

    async def roles(self) -> RoleNews:
        """Return the master and the replicas in sync."""
        header = headers.GetReplicaInfoHeader(broker_name=self._name)
        reply = await self._checked(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        found = reply.header(headers.GetReplicaInfoReplyHeader)
        return _news(found.master_broker_id, found.master_address, found.master_epoch, _members(reply))

    async def elect(self, broker_id: int) -> RoleNews:
        """Ask for an election; a living master is an answer, too."""
        header = headers.ElectMasterHeader(cluster_name=self._cluster, broker_name=self._name, broker_id=broker_id)
        reply = await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, header)
        if reply.code != ResponseCode.CONTROLLER_MASTER_STILL_EXIST:
            _check(reply, RequestCode.CONTROLLER_ELECT_MASTER)
        found = reply.header(headers.ElectMasterReplyHeader)
        body = decode_body(bytes(reply.body), ElectMasterBody) if reply.body else ElectMasterBody()
        members = SyncStateSetBody(
            sync_state_set=body.sync_state_set, sync_state_set_epoch=found.sync_state_set_epoch or 0
        )
        return _news(found.master_broker_id, found.master_address, found.master_epoch, members)

    async def alter(self, master_id: int, master_epoch: int, members: frozenset[int], set_epoch: int) -> RoleNews:
        """Replace the replicas in sync; return the set that is in force then."""
        header = headers.AlterSyncStateSetHeader(
            broker_name=self._name, master_broker_id=master_id, master_epoch=master_epoch
        )
        body = encode_body(SyncStateSetBody(sync_state_set=sorted(members), sync_state_set_epoch=set_epoch))
        reply = await self._checked(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)
        new_epoch = reply.header(headers.AlterSyncStateSetReplyHeader).new_sync_state_set_epoch
        given = _members(reply)
        taken = frozenset(given.sync_state_set) if given.sync_state_set else members
        return RoleNews(
            master_id=master_id, master_address="", master_epoch=master_epoch, members=taken, set_epoch=new_epoch
        )

    async def beat(self, header: BrokerHeartbeatHeader) -> None:
        """Send a heartbeat to every controller."""
        await asyncio.gather(*(self._beat(address, header) for address in self._addresses))

    async def _beat(self, address: str, header: BrokerHeartbeatHeader) -> None:
        try:
            await self._connector.send_oneway(address, RequestCode.BROKER_HEARTBEAT, header, timeout=1.0)
        except TransportError as error:
            logger.debug("no heartbeat to controller %s: %s", address, error)

    # The leader

    async def _checked(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        reply = await self._ask(code, header, body)
        _check(reply, code)
        return reply

    async def _ask(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """Ask the controller that leads; look for it if it is not known, or leads no more."""
        leader = self.leader or await self._find_leader()
        try:
            reply = await self._connector.request(leader, code, header, body, timeout=SECONDS)
        except TransportError:
            self.leader = None
            raise
        if reply.code == _LEADS_NO_MORE:
            self.leader = None
            raise BrokerError.from_reply(reply.code, reply.remark, asked=f"{code.name} at controller {leader}")
        return reply

    async def _find_leader(self) -> str:
        last: MQError | None = None
        for address in self._addresses:
            try:
                reply = await self._connector.request(
                    address, RequestCode.CONTROLLER_GET_METADATA_INFO, NoHeader(), timeout=SECONDS
                )
                found = reply.header(headers.GetControllerMetadataReplyHeader).controller_leader_address
            except MQError as error:
                last = error
                continue
            if found:
                self.leader = found
                return found
        raise ConnectError(f"no controller of {', '.join(self._addresses)} leads: {last or 'none is elected yet'}")


def check_controllers(addresses: Sequence[str]) -> None:
    """Raise ConfigError if controllerAddr has no address, or one that is none."""
    if not addresses:
        raise ConfigError("enableControllerMode = true needs controllerAddr: HOST:PORT of each controller")
    for address in addresses:
        try:
            parse_address(address)
        except ValueError as error:
            raise ConfigError(f"controllerAddr: {error}") from error


def _check(reply: Command, code: RequestCode) -> None:
    if reply.code != ResponseCode.SUCCESS:
        raise BrokerError.from_reply(reply.code, reply.remark, asked=f"{code.name} at the controller")


def _members(reply: Command) -> SyncStateSetBody:
    return decode_body(bytes(reply.body), SyncStateSetBody) if reply.body else SyncStateSetBody()


def _news(
    master_id: int | None, master_address: str | None, master_epoch: int | None, members: SyncStateSetBody
) -> RoleNews:
    is_known = master_id is not None and master_id >= 0 and bool(master_address)
    return RoleNews(
        master_id=master_id if is_known else None,
        master_address=master_address if is_known else None,
        master_epoch=master_epoch or 0,
        members=frozenset(members.sync_state_set),
        set_epoch=members.sync_state_set_epoch,
    )
