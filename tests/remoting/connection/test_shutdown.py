"""A server that stops answers what it was asked, within its deadline."""

import asyncio
import errno
import gc
import socket
import weakref
from typing import cast

import pytest

from hanabi.errors import ConnectError, ConnectionLostError
from hanabi.remoting.address import format_address, parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.server import RemotingServer
from hanabi.testing.waiting import eventually
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from tests.remoting.peers import (
    BLOB,
    ECHO,
    WAIT,
    Gate,
    connecting,
    ends_with,
    raw_peer,
    serving,
    warnings,
)


async def test_what_is_in_flight_is_answered_before_the_connection_closes() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        tasks = [asyncio.create_task(connector.request(address, WAIT, body=b"%d" % n)) for n in range(10)]
        await eventually(lambda: gate.waiting == 10)
        stopping = asyncio.create_task(server.stop(5.0))
        await asyncio.sleep(0)
        assert "refused" in await ends_with(ConnectError, _fresh(address))
        gate.open.set()
        assert [(await task).body for task in tasks] == [b"%d" % n for n in range(10)]
        await stopping
        assert not server.connections


async def _fresh(address: str) -> None:
    async with connecting() as connector:
        await connector.request(address, ECHO)


async def test_what_arrives_after_the_stop_is_not_begun_but_ends_at_once_for_its_sender() -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        first = asyncio.create_task(connector.request(address, WAIT, body=b"first"))
        await eventually(lambda: gate.waiting == 1)
        stopping = asyncio.create_task(server.stop(5.0))
        await asyncio.sleep(0)
        second = asyncio.create_task(connector.request(address, ECHO, timeout=60))
        await asyncio.sleep(0.01)
        gate.open.set()
        assert (await first).body == b"first"
        await ends_with(ConnectionLostError, second)
        await stopping
        assert server.statistics().requests == 1


async def test_a_handler_that_asks_its_client_still_gets_the_answer_while_the_server_stops() -> None:
    asked = asyncio.Event()
    answer_now = asyncio.Event()

    async def ask_back(_: NoHeader, __: Command, connection: Connection) -> Reply:
        return Reply(body=(await connection.request(2, timeout=5)).body)

    async def answer(_: NoHeader, __: Command, ___: Connection) -> Reply:
        asked.set()
        await answer_now.wait()
        return Reply(body=b"from the client")

    async with (
        serving({1: Handler(NoHeader, ask_back)}) as (server, address),
        connecting({2: Handler(NoHeader, answer)}) as connector,
    ):
        request = asyncio.create_task(connector.request(address, 1))
        await asked.wait()
        stopping = asyncio.create_task(server.stop(5.0))
        await asyncio.sleep(0)
        answer_now.set()
        assert (await request).body == b"from the client"
        await stopping


async def test_what_is_not_answered_at_the_deadline_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    async with serving(gate.handlers()) as (server, address), connecting() as connector:
        request = asyncio.create_task(connector.request(address, WAIT, timeout=60))
        await eventually(lambda: gate.waiting == 1)
        await server.stop(0.05)
        await ends_with(ConnectionLostError, request)
        await eventually(lambda: gate.cancelled == 1)

    (line,) = warnings(caplog)
    assert "not finished 0.05 s after the shutdown began" in line


async def test_a_peer_that_does_not_read_cannot_hold_the_stop_beyond_its_deadline() -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        for opaque in range(64):
            peer.ask(BLOB, opaque)
        await eventually(lambda: any(connection.unsent_bytes for connection in server.connections))
        began = asyncio.get_running_loop().time()
        await server.stop(0.1)
        assert asyncio.get_running_loop().time() - began < 30.0
        assert not server.connections


async def test_a_silent_peer_that_never_closes_does_not_hold_the_stop() -> None:
    async with serving() as (server, address), raw_peer(address) as peer:
        await eventually(lambda: len(server.connections) == 1)
        cast(asyncio.Transport, peer.writer.transport).pause_reading()  # it does not even see that we closed
        began = asyncio.get_running_loop().time()
        await server.stop(50.0)
        assert asyncio.get_running_loop().time() - began < 30.0


@pytest.mark.parametrize("turns", range(4))
async def test_peers_that_are_being_let_in_when_the_stop_comes_are_not_forgotten(turns: int) -> None:
    async with serving() as (server, address):
        host, port = parse_address(address)
        peers = [socket.create_connection((host, port)) for _ in range(20)]  # blocking: the server has no turn yet
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.wait_for(server.stop(50.0), timeout=30.0)
        assert not server.connections
        for peer in peers:
            peer.close()


async def test_a_stopped_server_can_be_stopped_again_and_its_port_is_free() -> None:
    async with serving() as (server, address), connecting() as connector:
        await connector.request(address, ECHO)
        await server.stop()
        await server.stop()
        again = RemotingServer({})
        assert format_address(await again.start(*parse_address(address))) == address
        await again.stop()


async def test_a_taken_port_is_an_os_error() -> None:
    async with serving() as (_, address):
        with pytest.raises(OSError) as caught:
            await RemotingServer({}).start(*parse_address(address))
        assert caught.value.errno == errno.EADDRINUSE


async def test_a_host_name_is_listened_on_at_all_its_addresses_with_one_port() -> None:
    async with serving(host="localhost") as (_, address), connecting() as connector:
        _, port = parse_address(address)
        await connector.request(f"localhost:{port}", ECHO)


async def test_a_connection_that_has_ended_is_freed_without_the_garbage_collector() -> None:
    async with serving(Gate().handlers()) as (server, address):
        gc.disable()
        try:
            async with connecting() as connector, raw_peer(address) as peer:
                await connector.request(address, ECHO, timeout=60)
                peer.ask(WAIT, 1)
                peer.ask(BLOB, 2)
                await peer.answer()
                ends = [weakref.ref(connection) for connection in server.connections]
            assert len(ends) == 2
            await eventually(lambda: not any(end() for end in ends))
        finally:
            gc.enable()
