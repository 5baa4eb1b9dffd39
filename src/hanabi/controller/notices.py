"""Notices of an election to the living brokers of a name (1008). Best effort: brokers also poll the controller."""

import asyncio
import logging

from hanabi.controller.rules.registration import sync_set_body
from hanabi.controller.rules.state import Alive, BrokerSet
from hanabi.errors import TransportError
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.v5.replication import NotifyBrokerRoleChangedHeader

logger = logging.getLogger(__name__)


class RoleNotices:
    """Sends notices in the background: a broker that does not accept one delays no other."""

    def __init__(self, tls: TlsConfig | None = None) -> None:
        self._connector = Connector(tls=tls)
        self._sending: set[asyncio.Task[None]] = set()

    def send(self, state: BrokerSet, alive: Alive) -> None:
        """Send the new role to every living broker."""
        for number in state.replicas.keys() & alive.keys():
            task = asyncio.create_task(self._send(state, alive[number].address))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, state: BrokerSet, address: str) -> None:
        header = NotifyBrokerRoleChangedHeader(
            master_address=state.master_address,
            master_broker_id=state.master_id,
            master_epoch=state.master_epoch,
            sync_state_set_epoch=state.sync_epoch,
        )
        try:
            await self._connector.send_oneway(
                address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header, encode_body(sync_set_body(state))
            )
        except TransportError as error:
            logger.warning("broker %s: the election is not delivered, it will ask for it: %s", state.name, error)

    async def close(self) -> None:
        """Cancel what is under way, and close all connections."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)
        await self._connector.close()
