"""A broker in controller mode as far as a controller sees it: real requests on a real connection."""

from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.v5.controller import SyncStateSetBody
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader
from hanabi.wire.headers.v5 import controller as headers


class FakeBroker:
    """One replica of broker-a. Its connection is open until `close`."""

    def __init__(self, controller: str, address: str) -> None:
        self._controller, self.address = controller, address
        self._connector = Connector()
        self.broker_id = 0

    async def ask(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        return await self._connector.request(self._controller, code, header, body)

    async def join(self) -> headers.RegisterToControllerReplyHeader:
        """Take an id, register, and send a heartbeat."""
        wanted = headers.GetNextBrokerIdHeader(cluster_name="c", broker_name="broker-a")
        reply = await self.ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, wanted)
        self.broker_id = reply.header(headers.GetNextBrokerIdReplyHeader).next_broker_id or 0
        taken = headers.ApplyBrokerIdHeader(
            cluster_name="c",
            broker_name="broker-a",
            applied_broker_id=self.broker_id,
            register_check_code=f"{self.address};1",
        )
        assert (await self.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, taken)).code == 0
        asked = headers.RegisterToControllerHeader(
            cluster_name="c", broker_name="broker-a", broker_id=self.broker_id, broker_address=self.address
        )
        registered = await self.ask(RequestCode.CONTROLLER_REGISTER_BROKER, asked)
        assert registered.code == 0
        await self.beat()
        return registered.header(headers.RegisterToControllerReplyHeader)

    async def beat(self, epoch: int = 0) -> None:
        beat = BrokerHeartbeatHeader(
            cluster_name="c",
            broker_name="broker-a",
            broker_addr=self.address,
            broker_id=self.broker_id,
            epoch=epoch,
            max_offset=0,
            heartbeat_timeout_mills=60_000,
        )
        await self.ask(RequestCode.BROKER_HEARTBEAT, beat)

    async def elect(self) -> Command:
        header = headers.ElectMasterHeader(cluster_name="c", broker_name="broker-a", broker_id=self.broker_id)
        return await self.ask(RequestCode.CONTROLLER_ELECT_MASTER, header)

    async def alter(self, members: list[int], *, master_epoch: int, sync_epoch: int) -> Command:
        header = headers.AlterSyncStateSetHeader(
            broker_name="broker-a", master_broker_id=self.broker_id, master_epoch=master_epoch
        )
        body = encode_body(SyncStateSetBody(sync_state_set=members, sync_state_set_epoch=sync_epoch))
        return await self.ask(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)

    async def close(self) -> None:
        await self._connector.close()
