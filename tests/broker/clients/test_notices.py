"""Members are told soon, but not a thousand times."""

import asyncio

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.consumer_group import ConsumerGroup, Member
from hanabi.broker.clients.notices import NOTICES_A_TURN, Notices
from hanabi.broker.config import BrokerConfig
from hanabi.broker.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.store.config import StoreConfig
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from tests.broker.clients.people import a_client, a_consumer
from tests.broker.talk import Peer, serving

SETTINGS = Settings(BrokerConfig(broker_name="broker-a"), StoreConfig())


class Crowd:
    """A group whose members are real connections."""

    def __init__(self) -> None:
        self.group = ConsumerGroup(
            "G", ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        self.peers: list[Peer] = []

    def join(self, client: Client) -> None:
        self.group.put(Member(client, a_consumer("G"), [], None, 0, 0, 0))

    def handle(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if connection not in self.group.members:
            self.join(Client(connection.peer, connection, "JAVA", 409))
        return Reply()

    async def enter(self, address: tuple[str, int], count: int) -> None:
        for _ in range(count):
            peer = await Peer.connect(address)
            self.peers.append(peer)
            await peer.ask(34)

    async def leave(self) -> None:
        for peer in self.peers:
            await peer.close()


async def test_changes_shortly_after_a_notice_are_told_together_later() -> None:
    crowd = Crowd()
    async with serving({34: Handler(NoHeader, crowd.handle)}) as address:
        await crowd.enter(address, 1)
        (peer,) = crowd.peers
        notices = Notices(SETTINGS, gap_seconds=0.5)  # long enough for all that is told together
        loop = asyncio.get_running_loop()
        first = loop.time()
        notices.changed(crowd.group)
        notices.changed(crowd.group)
        await peer.request()
        for _ in range(3):
            notices.changed(crowd.group)
            await peer.ask(34)
        await peer.request()
        assert loop.time() - first > 0.45
        assert peer.requests_waiting == 0
        await crowd.leave()


async def test_within_the_gap_nobody_is_told_again() -> None:
    crowd = Crowd()
    async with serving({34: Handler(NoHeader, crowd.handle)}) as address:
        await crowd.enter(address, 1)
        (peer,) = crowd.peers
        notices = Notices(SETTINGS, gap_seconds=3600)
        notices.changed(crowd.group)
        await peer.request()
        notices.changed(crowd.group)
        for _ in range(3):
            await peer.ask(34)
        assert peer.requests_waiting == 0
        await crowd.leave()


async def test_one_whose_heartbeat_changed_the_group_is_told_at_once_and_by_itself_only_once() -> None:
    crowd = Crowd()
    async with serving({34: Handler(NoHeader, crowd.handle)}) as address:
        await crowd.enter(address, 2)
        old, new = crowd.peers
        joined = list(crowd.group.members)[1]
        notices = Notices(SETTINGS, gap_seconds=0)
        notices.changed(crowd.group, joined)
        for peer in crowd.peers:
            await peer.request()
            for _ in range(3):
                await peer.ask(34)
        assert (old.requests_waiting, new.requests_waiting) == (0, 0)
        notices.changed(crowd.group, joined)
        notices.changed(crowd.group)  # another one went: that is news for the new one as well
        for _ in range(2):
            await new.request()
        await old.request()
        await crowd.leave()


async def test_a_crowd_is_told_over_several_turns_and_those_that_are_gone_are_passed_over() -> None:
    crowd = Crowd()
    async with serving({34: Handler(NoHeader, crowd.handle)}) as address:
        await crowd.enter(address, 1)
        for number in range(2 * NOTICES_A_TURN):
            crowd.join(a_client(f"gone-{number}"))
        await crowd.enter(address, 1)
        Notices(SETTINGS).changed(crowd.group)
        for peer in crowd.peers:
            assert (await peer.request()).fields()["consumerGroup"] == "G"
        await crowd.leave()
