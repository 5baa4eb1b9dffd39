"""Everything of a broker that has to do with clients, served on a free port, with clients to talk to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.housekeeping import ClientTables
from hanabi.broker.clients.notices import Notices
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.broker.config import BrokerConfig
from hanabi.broker.filters.consumer_filters import ConsumerFilters
from hanabi.broker.handlers.clients import client_handlers
from hanabi.broker.settings import Settings
from hanabi.broker.tables.groups import Groups
from hanabi.broker.tables.topics import Topics
from hanabi.remoting.connection.dispatch import Handler
from hanabi.store.config import StoreConfig
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.clients import ConsumerList
from hanabi.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from hanabi.wire.codes import Language, RequestCode, ResponseCode
from hanabi.wire.command import VERSION, Command, decode_command, encode_head
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.headers.client import GetConsumerListByGroupHeader, UnregisterClientHeader
from tests.broker.talk import Peer, serving


class AClient:
    """One client program."""

    def __init__(self, client_id: str, peer: Peer) -> None:
        self.client_id, self.peer = client_id, peer

    async def heartbeat(
        self, *consumers: ConsumerData, producers: tuple[str, ...] = (), version: int = VERSION, **more: Any
    ) -> Command:
        return await self.peer.ask(
            RequestCode.HEART_BEAT, body=self._heartbeat(consumers, producers, **more), version=version
        )

    def _heartbeat(self, consumers: tuple[ConsumerData, ...], producers: tuple[str, ...], **more: Any) -> bytes:
        data = HeartbeatData(
            client_id=self.client_id,
            consumer_data_set=list(consumers),
            producer_data_set=[ProducerData(group_name=group) for group in producers],
            **more,
        )
        return encode_body(data)

    async def heartbeat_in(self, language: Language, *consumers: ConsumerData) -> None:
        """Act as a client in *language* does."""
        body = self._heartbeat(consumers, ())
        head = encode_head(code=RequestCode.HEART_BEAT, opaque=10**6, body_bytes=len(body), language=language)
        self.peer.send(head + body)
        await self.peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})  # handled after it

    async def unregister(self, consumer: str | None = None, producer: str | None = None) -> Command:
        header = UnregisterClientHeader(client_id=self.client_id, consumer_group=consumer, producer_group=producer)
        return await self.peer.ask(RequestCode.UNREGISTER_CLIENT, header)

    async def members(self, group: str) -> list[str]:
        header = GetConsumerListByGroupHeader(consumer_group=group)
        answer = await self.peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        assert answer.code == ResponseCode.SUCCESS
        return decode_body(answer.body, ConsumerList).consumer_id_list

    async def noticed(self) -> str:
        """Return the group of the next notice."""
        notice = await self.peer.request()
        assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert notice.is_oneway
        return notice.fields()["consumerGroup"]

    async def has_no_notice(self) -> bool:
        """Check that no notice has come, and none is on its way."""
        for _ in range(3):  # what is due is sent in the next turns of the loop, before what is asked now is answered
            await self.peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "nobody"})
        return not self.peer.requests_waiting


class ClientWorld:
    def __init__(self, *, gap_seconds: float = 0, **broker: Any) -> None:
        self.clock = ManualClock()
        self.settings = Settings(BrokerConfig(**{"broker_name": "broker-a", **broker}), StoreConfig())
        self.topics = Topics(None, self.settings, self.clock)
        self.groups = Groups(None, self.settings, self.clock)
        self.filters = ConsumerFilters(None, self.settings, self.clock)
        self.locks = QueueLocks(self.clock)
        self.producers = Producers(self.clock)
        notices = Notices(self.settings, gap_seconds=gap_seconds)
        self.consumers = Consumers(notices, self.filters, self.clock, on_left=self.locks.left)
        self.tables = ClientTables(self.producers, self.consumers, self.locks, self.clock)
        self.handlers: dict[int, Handler] = client_handlers(
            self.producers, self.consumers, self.locks, self.topics, self.groups, self.settings
        )
        self._peers: list[Peer] = []

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with serving(self.handlers, on_close=self.tables.closed) as address:
            self._address = address
            try:
                yield
            finally:
                for peer in self._peers:
                    await peer.close()

    async def client(self, client_id: str) -> AClient:
        peer = await Peer.connect(self._address)
        self._peers.append(peer)
        return AClient(client_id, peer)

    async def first_codes(self, code: int, body: bytes, count: int) -> list[int]:
        """Return the codes of the first *count* frames that a new connection gets after one request, in their order."""
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(encode_head(code=code, opaque=1, body_bytes=len(body)) + body)
        decoder, codes = FrameDecoder(), list[int]()
        while len(codes) < count:
            codes += [decode_command(frame).code for frame in decoder.feed(await reader.read(1 << 16))]
        writer.close()
        await writer.wait_closed()
        return codes

    async def until_members(self, group: str, *client_ids: str) -> None:
        """Wait until the broker has noticed who is gone."""
        async with asyncio.timeout(60):
            while self.consumers.client_ids(group) != client_ids:  # noqa: ASYNC110 - a table has no events
                await asyncio.sleep(0)
