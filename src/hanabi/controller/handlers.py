"""Request handlers of the controller, and their table by request code.

Codes, headers and bodies are those of Java's ControllerRequestProcessor of 5.3.3. The handlers only translate.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hanabi.controller.changes import Changes
from hanabi.controller.config import Settings
from hanabi.controller.rules import cleaning, ids, in_sync, registration
from hanabi.controller.rules.state import Answer, BrokerSet, Decision
from hanabi.errors import InvalidParameter
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header, NoHeader
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader
from hanabi.wire.headers.v5.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ElectMasterHeader,
    GetControllerMetadataReplyHeader,
    GetNextBrokerIdHeader,
    GetReplicaInfoHeader,
    RegisterToControllerHeader,
)

BODY_BYTES_MAX = 256 * 1024  # names or ids; a set has a few of them
NAMES_MAX = 1_000  # of one query

logger = logging.getLogger(__name__)


def controller_handlers(
    changes: Changes, settings: Settings, elected: Callable[[BrokerSet], None], now_ms: Callable[[], int]
) -> dict[int, Handler]:
    """Return the table from request code to handler. *elected* is called for each new master."""
    states = StateHandlers(changes, elected)
    own = ControllerHandlers(changes, settings, now_ms)
    table: dict[int, tuple[type[Header], Callable[[Any, Command, Connection], Reply | Awaitable[Reply]]]] = {
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: (AlterSyncStateSetHeader, states.alter),
        RequestCode.CONTROLLER_ELECT_MASTER: (ElectMasterHeader, states.elect),
        RequestCode.CONTROLLER_REGISTER_BROKER: (RegisterToControllerHeader, states.register),
        RequestCode.CONTROLLER_GET_REPLICA_INFO: (GetReplicaInfoHeader, states.replica_info),
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: (NoHeader, states.sync_state_data),
        RequestCode.CLEAN_BROKER_DATA: (CleanBrokerDataHeader, states.clean),
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: (GetNextBrokerIdHeader, states.next_id),
        RequestCode.CONTROLLER_APPLY_BROKER_ID: (ApplyBrokerIdHeader, states.apply_id),
        RequestCode.CONTROLLER_GET_METADATA_INFO: (NoHeader, own.metadata),
        RequestCode.UPDATE_CONTROLLER_CONFIG: (NoHeader, own.update_config),
        RequestCode.GET_CONTROLLER_CONFIG: (NoHeader, own.show_config),
        RequestCode.BROKER_HEARTBEAT: (BrokerHeartbeatHeader, own.heartbeat),
    }
    return {code: Handler(header, handle, BODY_BYTES_MAX) for code, (header, handle) in table.items()}


class StateHandlers:
    """Requests about the state of broker names: only the leader answers them."""

    def __init__(self, changes: Changes, elected: Callable[[BrokerSet], None]) -> None:
        self._changes, self._elected = changes, elected

    async def next_id(self, header: GetNextBrokerIdHeader, _: Command, connection: Connection) -> Reply:
        name = _named(header.broker_name)
        return _reply(await self._changes.read(name, lambda state, _alive: ids.next_id(state, header)))

    async def apply_id(self, header: ApplyBrokerIdHeader, _: Command, connection: Connection) -> Reply:
        name = _named(header.broker_name)
        decision = await self._changes.change(name, lambda state, _alive: ids.apply_id(state, header))
        _log(decision, "%s: broker id %s of %s", connection.peer, header.applied_broker_id, name)
        return _reply(decision.answer)

    async def register(self, header: RegisterToControllerHeader, _: Command, connection: Connection) -> Reply:
        name = _named(header.broker_name)
        decision = await self._changes.change(name, lambda state, alive: registration.register(state, header, alive))
        _log(
            decision, "%s: registration of %s:%s at %s", connection.peer, name, header.broker_id, header.broker_address
        )
        return _reply(decision.answer)

    async def elect(self, header: ElectMasterHeader, _: Command, connection: Connection) -> Reply:
        _named(header.broker_name)
        decision = await self._changes.elect(header)
        _log(decision, "%s: election of a master of %s", connection.peer, header.broker_name)
        if decision.answer.code == ResponseCode.SUCCESS and decision.state is not None:
            self._elected(decision.state)
        return _reply(decision.answer)

    async def alter(self, header: AlterSyncStateSetHeader, request: Command, connection: Connection) -> Reply:
        name, body = _named(header.broker_name), decode_body(bytes(request.body), SyncStateSetBody)
        decision = await self._changes.change(name, lambda state, alive: in_sync.alter(state, header, body, alive))
        _log(decision, "%s: replicas in sync of %s become %s", connection.peer, name, body.sync_state_set)
        return _reply(decision.answer)

    async def clean(self, header: CleanBrokerDataHeader, _: Command, connection: Connection) -> Reply:
        name = _named(header.broker_name)
        decision = await self._changes.change(name, lambda state, alive: cleaning.clean(state, header, alive))
        _log(decision, "%s: removal of %s:%s", connection.peer, name, header.broker_controller_ids_to_clean or "all")
        return _reply(decision.answer)

    async def replica_info(self, header: GetReplicaInfoHeader, _: Command, connection: Connection) -> Reply:
        name = _named(header.broker_name)
        return _reply(await self._changes.read(name, lambda state, _alive: registration.replica_info(state, header)))

    async def sync_state_data(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        self._changes.check_leads()
        names = set(decode_body(bytes(request.body), list[str])[:NAMES_MAX]) if request.body else set()
        found = [stored.state for stored in await self._changes.store.read_all()]
        chosen = [(state, self._changes.alive(state)) for state in found if state.name in names or not names]
        return Reply(body=encode_body(registration.sync_state_data(chosen)))


class ControllerHandlers:
    """Requests about the controller itself, which every controller answers, and heartbeats."""

    def __init__(self, changes: Changes, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._changes, self._settings, self._now_ms = changes, settings, now_ms
        self._warned: set[tuple[str, int | None, str]] = set()

    def metadata(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        store = self._changes.store
        leader = store.leader
        peers = "".join(f"{member.member_id}:{member.address};" for member in store.members)
        return Reply(
            header=GetControllerMetadataReplyHeader(
                group=self._settings.current.controller_d_leger_group,
                controller_leader_id=leader.member_id if leader is not None else None,
                controller_leader_address=leader.address if leader is not None else None,
                is_leader=store.leads,
                peers=peers,
            )
        )

    def heartbeat(self, header: BrokerHeartbeatHeader, _: Command, connection: Connection) -> Reply:
        if header.broker_id is None:
            return Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
        holder = self._changes.liveness.heartbeat(header, connection, self._now_ms())
        if holder is not None:
            self._warn_twin(header, holder)
        return Reply(remark="Heart beat success")

    def _warn_twin(self, header: BrokerHeartbeatHeader, holder: str) -> None:
        twin = (header.broker_name, header.broker_id, header.broker_addr)
        if twin not in self._warned and len(self._warned) < NAMES_MAX:
            self._warned.add(twin)
            logger.warning(
                "broker %s:%s at %s is ignored: %s has this id and is alive; delete brokerIdentity in the copied store",
                *twin,
                holder,
            )

    async def update_config(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if request.body:
            logger.info("%s changes settings", connection.peer)
            await self._settings.change(bytes(request.body))
        return Reply()

    def show_config(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(body=self._settings.text())


def _named(name: str | None) -> str:
    if not name or len(name) > 255 or "/" in name:
        raise InvalidParameter(f"brokerName must have 1 to 255 characters and no slash, not {(name or '')[:50]!r}")
    return name


def _reply(answer: Answer) -> Reply:
    body = encode_body(answer.body) if answer.body is not None else b""
    return Reply(int(answer.code), answer.remark, answer.header, body)


def _log(decision: Decision, what: str, *values: object) -> None:
    answer = decision.answer
    if answer.code in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        logger.info(what, *values)
    else:
        logger.warning(what + ": refused, %s (code %d)", *values, answer.remark, answer.code)
