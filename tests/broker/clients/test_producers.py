"""The table of producers."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.limits import GROUPS_PER_CONNECTION_MAX
from hanabi.broker.clients.producers import EXPIRY_MS, UNSENT_BYTES_MAX, Producers
from hanabi.errors import NoPermission
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.clock import ManualClock
from hanabi.wire.command import Command, encode_head
from hanabi.wire.header import NoHeader
from tests.broker.clients.people import a_client
from tests.broker.talk import connected, serving


def ids_of(producers: Producers, group: str) -> list[str]:
    return [member.client.client_id for member in producers.group(group) or ()]


def test_a_producer_is_there_from_its_heartbeat_until_it_unregisters() -> None:
    producers, client = Producers(ManualClock()), a_client("one")
    producers.heartbeat(client, "G")
    producers.heartbeat(client, "G")
    assert ids_of(producers, "G") == ["one"]
    assert producers.find_client("one") is client.connection
    assert client.connection in producers
    producers.unregister("G", client.connection)
    assert producers.group("G") is None
    assert producers.groups() == {}
    assert producers.find_client("one") is None
    assert client.connection not in producers


def test_a_closed_connection_leaves_its_groups_and_no_other() -> None:
    producers, one, two = Producers(ManualClock()), a_client("one"), a_client("two")
    for group in ("A", "B"):
        producers.heartbeat(one, group)
    producers.heartbeat(two, "B")
    list(producers.leaving(one.connection))
    assert set(producers.groups()) == {"B"}
    assert ids_of(producers, "B") == ["two"]
    list(producers.leaving(one.connection))


def test_silence_of_120_seconds_is_the_end() -> None:
    clock = ManualClock()
    producers, quiet, alive = Producers(clock), a_client("quiet"), a_client("alive")
    producers.heartbeat(quiet, "G")
    producers.heartbeat(alive, "G")
    clock.ms += EXPIRY_MS
    assert list(producers.expiring()) == []
    producers.heartbeat(alive, "G")
    clock.ms += 1
    assert list(producers.expiring()) == [quiet.connection]
    assert ids_of(producers, "G") == ["alive"]


def test_a_client_that_connects_anew_is_found_at_its_new_connection_also_after_the_old_one_ends() -> None:
    producers, old, new = Producers(ManualClock()), a_client("same"), a_client("same")
    producers.heartbeat(old, "G")
    producers.heartbeat(new, "G")
    assert producers.find_client("same") is new.connection
    list(producers.leaving(old.connection))
    assert producers.find_client("same") is new.connection
    producers.heartbeat(old, "G")
    list(producers.leaving(new.connection))
    list(producers.leaving(old.connection))
    assert producers.find_client("same") is None


def test_the_older_connection_is_found_again_when_the_newer_one_ends() -> None:
    producers, old, new = Producers(ManualClock()), a_client("same"), a_client("same")
    producers.heartbeat(old, "G")
    producers.heartbeat(new, "G")
    list(producers.leaving(new.connection))
    producers.heartbeat(old, "G")
    assert producers.find_client("same") is old.connection


def test_ids_that_a_connection_had_before_are_not_remembered() -> None:
    producers, client = Producers(ManualClock()), a_client("first")
    producers.heartbeat(client, "G")
    for number in range(100):
        producers.heartbeat(Client(f"id-{number}", client.connection, "JAVA", 409), "G")
    assert producers.find_client("first") is None
    assert producers.find_client("id-98") is None
    assert producers.find_client("id-99") is client.connection
    assert ids_of(producers, "G") == ["id-99"]


def test_one_connection_cannot_be_in_any_number_of_groups() -> None:
    producers, client = Producers(ManualClock()), a_client("greedy")
    for number in range(GROUPS_PER_CONNECTION_MAX):
        producers.heartbeat(client, f"G{number}")
    with pytest.raises(NoPermission, match="more than 4096 groups"):
        producers.heartbeat(client, "one-more")
    producers.heartbeat(client, "G0")
    assert len(producers.groups()) == GROUPS_PER_CONNECTION_MAX


def test_nobody_is_picked_of_a_group_without_members() -> None:
    assert Producers(ManualClock()).pick("G") is None


async def test_producers_are_picked_in_turn_and_those_that_are_closed_or_do_not_read_last() -> None:
    connections: list[Connection] = []

    def remember(_: NoHeader, request: Command, connection: Connection) -> Reply:
        connections.append(connection)
        return Reply()

    async with serving({34: Handler(NoHeader, remember)}) as address, AsyncExitStack() as peers:
        producers = Producers(ManualClock())
        for _ in range(2):
            peer = await peers.enter_async_context(connected(address))
            await peer.ask(34)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(encode_head(code=34, opaque=1))
        await reader.readexactly(4)
        for number, connection in enumerate(connections):
            producers.heartbeat(Client(str(number), connection, "JAVA", 409), "G")
        first, second, third = connections
        assert [producers.pick("G") for _ in range(4)] == [first, second, third, first]
        while third.unsent_bytes <= UNSENT_BYTES_MAX:  # nobody reads at its other end
            third.send_oneway(40, None, bytes(UNSENT_BYTES_MAX))
            await asyncio.sleep(0)
        assert {producers.pick("G") for _ in range(6)} == {first, second}
        first.close("enough")
        assert {producers.pick("G") for _ in range(6)} == {second}
        second.close("enough")
        assert producers.pick("G") is third
        third.drop("enough")
        assert producers.pick("G") is None
        writer.close()
