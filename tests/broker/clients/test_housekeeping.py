"""Tests of what the end of a connection and the passing of time do to the tables of clients."""

import asyncio
from collections.abc import Iterable

from hanabi.broker.clients.client import client_of
from hanabi.broker.clients.consumers import Consumers
from hanabi.broker.clients.housekeeping import EXPIRY_INTERVAL_MS, ClientTables
from hanabi.broker.clients.producers import Producers
from hanabi.broker.clients.queue_locks import QueueLocks
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.clock import ManualClock
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from tests.broker.clients.people import Recorder, a_client, a_consumer
from tests.broker.talk import connected, serving

QUEUE = MessageQueue("T", "broker-a", 0)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        heard = Recorder()
        self.producers = Producers(self.clock)
        self.locks = QueueLocks(self.clock)
        self.consumers = Consumers(heard, heard, self.clock, on_left=self.locks.left)
        self.tables = ClientTables(self.producers, self.consumers, self.locks, self.clock, spread=list)

    def pass_time(self, ms: Iterable[int]) -> None:
        for step_ms in ms:
            self.clock.ms += step_ms
            self.tables.expire()

    def handle(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        """Return a heartbeat: the path says which tables it is for."""
        client = client_of("me", request, connection)
        if request.body != b"producer":
            self.consumers.heartbeat(client, a_consumer("G"))
        if request.body != b"consumer":
            self.producers.heartbeat(client, "G")
        return Reply()


EVERY_10_S = [EXPIRY_INTERVAL_MS] * 14


async def test_who_is_silent_everywhere_loses_its_connection() -> None:
    world = World()
    async with serving({34: Handler(NoHeader, world.handle)}) as address, connected(address) as peer:
        await peer.ask(34)
        world.pass_time(EVERY_10_S)
        await peer.closed_by_broker()
        assert not world.producers.groups()
        assert not world.consumers.groups()


async def test_who_is_silent_in_one_group_only_keeps_its_connection() -> None:
    world = World()
    async with serving({34: Handler(NoHeader, world.handle)}) as address, connected(address) as peer:
        await peer.ask(34)
        for _ in EVERY_10_S:
            world.pass_time([EXPIRY_INTERVAL_MS])
            await peer.ask(34, body=b"producer")
        assert not world.consumers.groups()
        assert world.producers.groups()
        await peer.ask(34)


async def test_a_connection_that_ends_is_in_no_table_any_more() -> None:
    world, gone = World(), asyncio.Event()

    def closed(connection: Connection) -> None:
        world.tables.closed(connection)
        gone.set()

    async with serving({34: Handler(NoHeader, world.handle)}, on_close=closed) as address:
        async with connected(address) as peer:
            await peer.ask(34)
            assert world.consumers.client_ids("G") == ("me",)
        await gone.wait()
        assert not world.producers.groups()
        assert not world.consumers.groups()


def test_the_locks_of_a_client_that_unregistered_are_free_and_those_of_a_lost_one_soon() -> None:
    world = World()
    polite, lost = a_client("polite"), a_client("lost")
    for client in (polite, lost):
        world.consumers.heartbeat(client, a_consumer(client.client_id))
        world.locks.lock(client.client_id, client.client_id, [QUEUE])
    world.consumers.unregister("polite", polite.connection)
    world.tables.closed(lost.connection)
    assert world.locks.lock("polite", "next", [QUEUE]) == [QUEUE]
    assert world.locks.lock("lost", "next", [QUEUE]) == []
    world.pass_time([EXPIRY_INTERVAL_MS] * 4)
    assert world.locks.lock("lost", "next", [QUEUE]) == [QUEUE]


def test_nobody_is_parted_with_because_we_ourselves_stood_still() -> None:
    world = World()
    world.consumers.heartbeat(a_client("one"), a_consumer("G"))
    world.producers.heartbeat(a_client("two"), "G")
    world.pass_time([EXPIRY_INTERVAL_MS, 3_600_000, EXPIRY_INTERVAL_MS])
    assert world.consumers.client_ids("G") == ("one",)
    assert world.producers.group("G") is not None
    world.pass_time([EXPIRY_INTERVAL_MS] * 10)
    assert world.consumers.groups() == {}
    assert world.producers.groups() == {}


def test_nobody_stays_longer_because_the_clock_was_set_back() -> None:
    world = World()
    world.consumers.heartbeat(a_client("one"), a_consumer("G"))
    world.pass_time([EXPIRY_INTERVAL_MS, -3_600_000])
    assert world.consumers.client_ids("G") == ("one",)
    world.pass_time(EVERY_10_S)
    assert world.consumers.groups() == {}
