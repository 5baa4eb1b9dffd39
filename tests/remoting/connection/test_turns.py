"""No connection keeps the loop from the others: what takes longer than a turn goes on in the next one."""

import asyncio

import pytest

from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.waiting import eventually
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.header import NoHeader
from tests.remoting.peers import (
    ECHO,
    HANDLERS,
    WAIT,
    Gate,
    MemoryTransport,
    connecting,
    raw_peer,
    serving,
)

ONE_FRAME_A_TURN = RemotingConfig(turn_seconds_max=0)
CLOSE = 99


def close(_: NoHeader, __: Command, connection: Connection) -> Reply:
    connection.close("as asked")
    return Reply()


def in_memory(config: RemotingConfig = ONE_FRAME_A_TURN) -> tuple[Connection, MemoryTransport]:
    handlers = {**HANDLERS, CLOSE: Handler(NoHeader, close)}
    connection, transport = Connection(Endpoint(handlers, config), "memory:1"), MemoryTransport()
    connection.connection_made(transport)
    return connection, transport


def echoes(*opaques: int) -> bytes:
    return b"".join(encode_request(ECHO, opaque) for opaque in opaques)


def answered(transport: MemoryTransport) -> list[int]:
    written = b"".join(bytes(piece) for pieces in transport.writes for piece in pieces)
    return [decode_command(frame).opaque for frame in FrameDecoder().feed(written)]


async def test_who_asks_for_little_does_not_wait_for_who_asks_for_much() -> None:
    async with (
        serving(config=ONE_FRAME_A_TURN) as (server, address),
        raw_peer(address) as greedy,
        connecting() as connector,
    ):
        await connector.request(address, ECHO)
        for _ in range(1000):
            greedy.ask(ECHO, oneway=True)  # nothing that we write could slow it down
        while server.statistics().requests <= 1:  # noqa: ASYNC110 - in a longer pause all thousand could be served
            await asyncio.sleep(0)
        assert (await connector.request(address, ECHO, body=b"me")).body == b"me"
        assert server.statistics().requests < 500
        await eventually(lambda: server.statistics().requests == 1002)


async def test_a_turn_without_end_is_one_turn_and_one_write() -> None:
    connection, transport = in_memory(RemotingConfig(turn_seconds_max=60))
    connection.data_received(echoes(*range(100)))
    assert answered(transport) == list(range(100))
    assert len(transport.writes) == 1
    assert transport.reading
    connection.connection_lost(None)


async def test_the_rest_is_answered_in_order_and_only_then_is_more_read() -> None:
    connection, transport = in_memory()
    connection.data_received(echoes(1, 2, 3))
    assert answered(transport) == [1]
    assert not transport.reading
    connection.data_received(echoes(4))  # TLS had it when we paused
    for turn in (2, 3, 4):
        assert not transport.reading
        await asyncio.sleep(0)
        assert answered(transport) == list(range(1, turn + 1))
    await asyncio.sleep(0)
    assert transport.reading
    connection.connection_lost(None)


async def test_a_peer_that_stops_reading_meanwhile_is_waited_for() -> None:
    connection, transport = in_memory()
    connection.data_received(echoes(1, 2))
    connection.pause_writing()
    await asyncio.sleep(0)
    assert (answered(transport), transport.reading) == ([1], False)
    connection.resume_writing()
    assert (answered(transport), transport.reading) == ([1, 2], False)
    await asyncio.sleep(0)
    assert transport.reading
    connection.connection_lost(None)


async def test_a_peer_that_reads_again_does_not_shorten_the_turn_of_the_others() -> None:
    connection, transport = in_memory()
    connection.data_received(echoes(1, 2))
    connection.pause_writing()
    connection.resume_writing()
    assert answered(transport) == [1]
    await asyncio.sleep(0)
    assert answered(transport) == [1, 2]
    connection.connection_lost(None)


@pytest.mark.parametrize("end", ["close", "drop", "connection_lost"])
async def test_what_waits_for_its_turn_when_the_connection_ends_is_not_begun(end: str) -> None:
    connection, transport = in_memory()
    connection.data_received(echoes(1, 2, 3))
    if end == "connection_lost":
        connection.connection_lost(ConnectionResetError())
    else:
        getattr(connection, end)("the test wants it")
    for _ in range(4):
        await asyncio.sleep(0)
    assert answered(transport) == [1]
    assert not transport.reading
    if end != "connection_lost":
        connection.connection_lost(None)


async def test_a_request_that_closes_its_connection_is_the_last_of_its_backlog() -> None:
    connection, transport = in_memory()
    connection.data_received(echoes(1) + encode_request(CLOSE, 2) + echoes(3))
    for _ in range(4):
        await asyncio.sleep(0)
    assert answered(transport) == [1]
    assert connection.closed
    connection.connection_lost(None)


GARBAGE = {
    "a frame over the limit": (2**31).to_bytes(4, "big"),
    "a frame that is no command": (2).to_bytes(4, "big") + b"\0\0",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_what_came_before_garbage_is_answered_though_it_takes_many_turns(garbage: bytes) -> None:
    async with serving(config=ONE_FRAME_A_TURN) as (server, address), raw_peer(address) as peer:
        peer.send(echoes(*range(50)) + garbage)
        assert [(await peer.answer()).opaque for _ in range(50)] == list(range(50))
        assert await peer.until_closed() == b""
        assert server.statistics().protocol_errors == 1


async def test_what_waits_for_its_turn_is_answered_before_a_server_stops() -> None:
    async with serving(config=ONE_FRAME_A_TURN) as (server, address), raw_peer(address) as peer:
        peer.send(echoes(*range(500)))
        await eventually(lambda: server.statistics().requests > 0)
        stopping = asyncio.create_task(server.stop(5.0))
        assert [(await peer.answer()).opaque for _ in range(500)] == list(range(500))
        await stopping


async def test_handlers_that_wait_are_bounded_whoever_has_the_turn() -> None:
    gate = Gate()
    config = RemotingConfig(turn_seconds_max=0, pending_requests_max=4)
    async with serving(gate.handlers(), config) as (_, address), raw_peer(address) as peer:
        for opaque in range(50):
            peer.ask(WAIT, opaque)
        await eventually(lambda: gate.waiting == 4)
        gate.open.set()
        assert {(await peer.answer()).opaque for _ in range(50)} == set(range(50))
