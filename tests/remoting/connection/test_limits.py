"""Everything that could grow has a bound, and a peer that goes over it is the only one to notice."""

import asyncio
import os
import resource
import socket
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from hanabi.errors import RequestTimeoutError, TooManyRequestsError
from hanabi.remoting.address import parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.endpoint import Endpoint
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.descriptors import DESCRIPTORS_FOR_FILES, PROCESS, raise_descriptor_limit
from hanabi.remoting.transport.server import RemotingServer
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import HeaderForm, ResponseCode
from hanabi.wire.command import Command, encode_head, encode_request
from hanabi.wire.header import NoHeader
from tests.remoting.peers import (
    BLOB,
    BLOB_BYTES,
    ECHO,
    HANDLERS,
    WAIT,
    Gate,
    MemoryTransport,
    NumberHeader,
    RawPeer,
    connecting,
    echo,
    ends_with,
    raw_peer,
    serving,
    warnings,
)

SMALL_BUFFER = RemotingConfig(write_buffer_bytes_max=64 * 1024)


async def test_connections_over_the_limit_are_closed_at_once_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(config=RemotingConfig(connections_max=100)) as (server, address):
        loop = asyncio.get_running_loop()
        clients = [socket.create_connection(parse_address(address)) for _ in range(300)]
        try:
            for client in clients:
                client.setblocking(False)
            await eventually(lambda: server.statistics().refused == 200)
            assert server.statistics().connections == 100
            served = 0
            for client in clients:
                try:
                    await loop.sock_sendall(client, encode_request(ECHO, 1))
                    served += bool(await loop.sock_recv(client, 1))
                except OSError:
                    pass
            assert served == 100
        finally:
            for client in clients:
                client.close()
        await eventually(lambda: server.statistics().connections == 0)
        async with connecting() as connector:  # there is room again
            await connector.request(address, ECHO)

    (line,) = warnings(caplog)
    assert "limit of 100 connections" in line


async def test_out_of_descriptors_accepting_waits_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, address):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()  # the last descriptor that there is
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            spare = _all_descriptors_below(client.fileno())
            client.connect(parse_address(address))
            await eventually(lambda: bool(warnings(caplog)))
            for descriptor in spare:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await eventually(lambda: len(server.connections) == 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            client.close()

    (line,) = warnings(caplog)
    assert "cannot accept connections" in line


async def test_there_are_no_more_connections_than_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _highest_descriptor()
    room = 70 + taken // 4  # more than the share that connections always have
    release = PROCESS.keep_for_files(lambda: taken)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_FOR_FILES + taken + room, hard))
        async with serving() as (server, address), AsyncExitStack() as stack:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))  # ours are the other ends of its connections
            for _ in range(room + 10):
                stack.enter_context(socket.create_connection(parse_address(address)))
            await eventually(lambda: server.statistics().connections == room)
            await eventually(lambda: server.statistics().refused == 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        release()
    assert f"at most {room} connections, not 10000: the system allows no more open files" in caplog.messages


async def test_all_ports_together_leave_files_their_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    """Two servers of one process, as a broker has: neither takes what a store needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _highest_descriptor()
    room = 60 + taken // 4  # more than the share that connections always have
    for_files = taken + room + 100
    release = PROCESS.keep_for_files(lambda: for_files)
    clients: list[socket.socket] = []
    try:
        async with serving() as (first, first_address), serving() as (second, second_address):
            allowed = DESCRIPTORS_FOR_FILES + for_files + room
            for number in range(room + 20):
                # The clients' descriptors are ours too, and none of those that the servers count.
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                clients.append(socket.create_connection(parse_address((first_address, second_address)[number % 2])))
                resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
                await eventually(lambda: _seen(first) + _seen(second) == len(clients))
            assert first.statistics().connections + second.statistics().connections == room
            assert first.statistics().refused + second.statistics().refused == 20
            for_files -= 50  # files were closed: there is room again
            clients.append(socket.create_connection(parse_address(first_address)))
            await eventually(lambda: _seen(first) + _seen(second) == room + 21)
            assert first.statistics().connections + second.statistics().connections == room + 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        release()
        for client in clients:
            client.close()

    assert any("kept for the store" in line for line in warnings(caplog))


def _highest_descriptor() -> int:
    """Return the highest open descriptor: tests that abandon a store on purpose have left some in this process."""
    return max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())


def _seen(server: RemotingServer) -> int:
    statistics = server.statistics()
    return statistics.connections + statistics.refused


async def test_a_limit_of_descriptors_that_is_high_enough_alarms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_FOR_FILES + 1_000, hard))
        async with serving():
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    (line,) = (record for record in caplog.records if "at most 1000 connections" in record.message)
    assert line.levelname == "DEBUG"


def test_the_limit_of_descriptors_is_raised_as_far_as_we_may() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _all_descriptors_below(limit: int) -> list[int]:
    """Take every free descriptor below *limit*, so that none is left."""
    taken: list[int] = []
    with suppress(OSError):
        while not taken or taken[-1] < limit:
            taken.append(os.dup(0))
    return taken


async def test_reading_stops_while_too_many_handlers_wait_and_goes_on_after() -> None:
    gate = Gate()
    config = RemotingConfig(pending_requests_max=4)
    async with serving(gate.handlers(), config) as (server, address), raw_peer(address) as peer:
        for opaque in range(50):
            peer.ask(WAIT, opaque)
        async with connecting() as connector:  # others are not slowed
            assert (await connector.request(address, ECHO, body=b"me")).body == b"me"
        await eventually(lambda: gate.waiting == 4)
        assert server.statistics().requests == 4 + 1
        gate.open.set()
        assert {(await peer.answer()).opaque for _ in range(50)} == set(range(50))


def stalled(server: RemotingServer) -> bool:
    return any(connection.unsent_bytes > SMALL_BUFFER.write_buffer_bytes_max for connection in server.connections)


async def ask_for_far_too_much(peer: RawPeer) -> int:
    """More than every buffer between here and there can hold; returns how many answers it would be."""
    count = 64
    peer.writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    for opaque in range(count):
        peer.ask(BLOB, opaque)
    await peer.writer.drain()
    return count


async def test_a_peer_that_does_not_read_is_not_read_from_until_it_reads_again() -> None:
    async with serving(config=SMALL_BUFFER) as (server, address), raw_peer(address) as peer:
        count = await ask_for_far_too_much(peer)
        await eventually(lambda: stalled(server))
        async with connecting() as connector:
            await connector.request(address, ECHO)
        (connection,) = [connection for connection in server.connections if connection.unsent_bytes]
        assert connection.unsent_bytes <= SMALL_BUFFER.write_buffer_bytes_max + 2 * BLOB_BYTES
        assert server.statistics().requests < count
        assert [(await peer.answer()).opaque for _ in range(count)] == list(range(count))


async def test_a_peer_that_never_reads_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024, stalled_peer_seconds=0.1)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        count = await ask_for_far_too_much(peer)
        await eventually(lambda: stalled(server))
        await eventually(lambda: not server.connections)
        assert server.statistics().requests < count

    (line,) = warnings(caplog)
    assert "has not read for 0.1 s" in line


async def test_a_peer_that_never_takes_the_last_bytes_of_a_closed_connection_is_cut() -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024, stalled_peer_seconds=0.1)
    async with serving(config=config) as (server, address), raw_peer(address) as peer:
        await ask_for_far_too_much(peer)
        await eventually(lambda: stalled(server))
        for connection in server.connections:
            connection.close("the test wants it")
        await eventually(lambda: not server.connections)


async def test_when_all_peers_together_leave_too_much_unread_the_fullest_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = RemotingConfig(
        write_buffer_bytes_max=64 * 1024, write_buffer_total_bytes_max=100 * 1024, frame_seconds_max=0.1
    )
    async with serving(config=config) as (server, address), raw_peer(address) as peer, raw_peer(address) as other:
        other.ask(ECHO)
        await other.answer()
        await ask_for_far_too_much(peer)
        await eventually(lambda: len(server.connections) == 1)
        other.ask(ECHO, body=b"still here")
        assert (await other.answer()).body == b"still here"

    (line,) = warnings(caplog)
    assert "limit 102400" in line


@pytest.mark.timing(reason="must end before the first sweep, which comes after 5 s")
async def test_unread_answers_of_all_peers_together_are_bounded_when_they_are_written() -> None:
    limit = 8 * BLOB_BYTES
    config = RemotingConfig(write_buffer_total_bytes_max=limit)  # the first sweep is five seconds away
    async with serving(config=config) as (server, address), AsyncExitStack() as stack:
        for _ in range(8):
            await ask_for_far_too_much(await stack.enter_async_context(raw_peer(address)))
        fullest = 0
        async with asyncio.timeout(4):
            while len(server.connections) > 4:
                fullest = max(fullest, sum(connection.unsent_bytes for connection in server.connections))
                await asyncio.sleep(0)
        assert fullest < 2 * limit


async def test_many_answers_written_in_one_turn_are_no_reason_to_drop_peers_that_read() -> None:
    config = RemotingConfig(write_buffer_total_bytes_max=256 * 1024)
    async with serving(config=config) as (server, address), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(100)]
        await eventually(lambda: len(server.connections) == 100)
        for peer in peers:  # all are there when the server has its next turn
            peer.ask(ECHO, body=bytes(16 * 1024))
        for peer in peers:
            assert len((await peer.answer()).body) == 16 * 1024


async def test_while_its_peer_does_not_read_a_request_waits_and_a_oneway_is_refused() -> None:
    async with serving(config=SMALL_BUFFER) as (server, address), raw_peer(address) as peer:
        await ask_for_far_too_much(peer)
        await eventually(lambda: stalled(server))
        (connection,) = server.connections
        with pytest.raises(TooManyRequestsError, match="does not read"):
            connection.send_oneway(1)
        await ends_with(RequestTimeoutError, connection.request(1, timeout=0.02))

        waiting = asyncio.create_task(connection.request(1, body=b"patience", timeout=5))
        while (command := await peer.answer()).is_response:
            pass
        assert command.body == b"patience"
        waiting.cancel()
        await asyncio.wait((waiting,))


@pytest.mark.timing(reason="the busy peer must get its turns within the idle time of 0.5 s")
async def test_an_idle_peer_is_closed_and_a_busy_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    config = RemotingConfig(idle_seconds=0.5)  # many times the pause of the busy one, as machines may be slow
    async with serving(config=config) as (server, address), raw_peer(address) as idle, raw_peer(address) as busy:
        closing = asyncio.create_task(idle.until_closed())
        while not closing.done():
            busy.ask(ECHO)
            await busy.answer()
            await asyncio.sleep(0.02)
        assert closing.result() == b""
        assert len(server.connections) == 1

    assert [message for message in caplog.messages if "idle for 0.5 s" in message]
    assert warnings(caplog) == []


async def test_time_in_which_we_did_not_run_is_not_held_against_the_peers() -> None:
    def stand_still(_: NoHeader, __: Command, ___: Connection) -> Reply:
        client.sendall(encode_request(ECHO, 1, body=b"sent in time"))
        time.sleep(0.6)
        return Reply()

    handlers = {**HANDLERS, WAIT: Handler(NoHeader, stand_still)}
    config = RemotingConfig(idle_seconds=0.4)
    async with serving(handlers, config) as (server, address), connecting() as connector:
        loop = asyncio.get_running_loop()
        with socket.create_connection(parse_address(address)) as client:
            client.setblocking(False)
            await connector.request(address, WAIT)
            assert b"sent in time" in await loop.sock_recv(client, 1000)
            await eventually(lambda: not server.connections)  # and who falls silent is still noticed


async def test_the_time_of_our_stall_is_added_to_a_peers() -> None:
    config = RemotingConfig()
    endpoint = Endpoint(HANDLERS, config)
    idle, slow, stalled = (Connection(endpoint, name) for name in ("idle", "slow", "stalled"))
    for connection in (idle, slow, stalled):
        connection.connection_made(MemoryTransport())
    slow.data_received((100).to_bytes(4, "big"))
    stalled.pause_writing()
    now = asyncio.get_running_loop().time()
    for connection in (idle, slow, stalled):
        connection.extend_deadlines(1000, now + 1000)

    endpoint.sweep(now + 1000 + config.stalled_peer_seconds - 1)
    assert not stalled.closed
    endpoint.sweep(now + 1000 + config.stalled_peer_seconds)
    assert stalled.closed
    assert not idle.closed
    assert not slow.closed
    endpoint.sweep(now + 1000 + config.idle_seconds)
    assert idle.closed
    assert slow.closed
    for connection in (idle, slow, stalled):
        connection.connection_lost(None)


async def test_whatever_filled_the_buffer_reading_stops_until_it_is_empty() -> None:
    connection, transport = Connection(Endpoint(HANDLERS, RemotingConfig()), "memory:1"), MemoryTransport()
    connection.connection_made(transport)
    connection.pause_writing()
    assert not transport.reading
    connection.resume_writing()
    assert transport.reading
    connection.connection_lost(None)


async def test_the_limits_on_time_are_kept_to_the_second() -> None:
    config = RemotingConfig()
    endpoint = Endpoint(HANDLERS, config)
    idle, slow, stalled = (Connection(endpoint, name) for name in ("idle", "slow", "stalled"))
    for connection in (idle, slow, stalled):
        connection.connection_made(MemoryTransport())
    slow.data_received((100).to_bytes(4, "big"))
    stalled.pause_writing()
    now = asyncio.get_running_loop().time()

    endpoint.sweep(now + config.stalled_peer_seconds - 1)
    assert not stalled.closed
    endpoint.sweep(now + config.stalled_peer_seconds)
    assert stalled.closed
    endpoint.sweep(now + config.idle_seconds - 1)
    assert not idle.closed
    assert not slow.closed
    endpoint.sweep(now + config.idle_seconds)
    assert idle.closed
    assert slow.closed
    for connection in (idle, slow, stalled):
        connection.connection_lost(None)


async def test_a_connector_closes_what_is_idle_and_connects_again() -> None:
    async with serving() as (server, address), connecting(config=RemotingConfig(idle_seconds=0.05)) as connector:
        await connector.request(address, ECHO)
        await eventually(lambda: not server.connections)
        assert (await connector.request(address, ECHO, body=b"again")).body == b"again"
        assert server.statistics().accepted == 2


async def test_incomplete_frames_of_all_peers_together_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    config = RemotingConfig(read_buffer_total_bytes_max=100_000)
    half = (1_000_000).to_bytes(4, "big") + bytes(60_000)
    async with serving(config=config) as (server, address), raw_peer(address) as first, raw_peer(address) as second:
        first.send(half)
        await eventually(lambda: any(connection.held_bytes == len(half) for connection in server.connections))
        second.send(half + bytes(10_000))
        await eventually(lambda: len(server.connections) == 1)
        # What the dropped one held is free again.
        async with raw_peer(address) as third:
            third.send(half[:30_000])
            await third.writer.drain()
            async with connecting() as connector:
                await connector.request(address, ECHO)
                assert len(server.connections) == 3

    (line, *_) = warnings(caplog)
    assert "limit 100000" in line


async def test_over_the_limit_of_incomplete_frames_the_one_that_holds_most_goes_and_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = RemotingConfig(read_buffer_total_bytes_max=100_000)
    async with serving(config=config) as (server, address), raw_peer(address) as hoarder, raw_peer(address) as peer:
        hoarder.send((1_000_000).to_bytes(4, "big") + bytes(99_000))
        await eventually(lambda: any(connection.held_bytes > 99_000 for connection in server.connections))
        request = encode_request(ECHO, 1, body=bytes(3000))
        peer.send(request[:1500])
        assert await hoarder.until_closed() == b""
        peer.send(request[1500:])
        assert (await peer.answer()).body == bytes(3000)

    (line,) = warnings(caplog)
    assert "dropped: holds 99004 bytes of an incomplete frame, all peers together 100504, limit 100000" in line


async def test_a_large_frame_in_many_reads_is_one_request() -> None:
    config = RemotingConfig(read_buffer_total_bytes_max=9 * 1024 * 1024)
    async with serving(HANDLERS, config) as (_, address), connecting() as connector:
        body = bytes(range(256)) * (8 * 1024 * 4)
        for _ in range(3):  # the budget is given back each time
            assert (await connector.request(address, ECHO, body=body)).body == body


async def test_a_body_over_its_handlers_limit_is_an_error_answer_before_its_header_is_looked_at() -> None:
    handlers = {ECHO: Handler(NumberHeader, echo, body_bytes_max=1000), WAIT: Handler(NoHeader, echo)}
    async with serving(handlers) as (_, address), connecting() as connector:
        answer = await connector.request(address, ECHO, body=bytes(1001))  # and has no number, as it should
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert "has a body of 1001 bytes, limit 1000" in answer.remark
        answer = await connector.request(address, ECHO, NumberHeader(number=1), bytes(1000))
        assert (answer.code, len(answer.body)) == (ResponseCode.SUCCESS, 1000)
        answer = await connector.request(address, WAIT, body=bytes(100_000))
        assert len(answer.body) == 100_000


@pytest.mark.parametrize("form", HeaderForm)
async def test_a_header_over_its_limit_closes_the_connection(
    caplog: pytest.LogCaptureFixture, form: HeaderForm
) -> None:
    async with serving(config=RemotingConfig(header_bytes_max=1000)) as (_, address), raw_peer(address) as peer:
        peer.send(encode_head(code=ECHO, opaque=1, remark="x" * 800, form=form))
        await peer.answer()
        peer.send(encode_head(code=ECHO, opaque=1, remark="x" * 1000, form=form))
        assert await peer.until_closed() == b""

    (line,) = warnings(caplog)
    assert "bytes, limit 1000" in line
