"""Everything that could grow has a bound, and a peer that goes over it is the only one to notice."""

import asyncio
import os
import resource
import socket
from contextlib import suppress

import pytest

from hanabi.errors import RequestTimeoutError, TooManyRequestsError
from hanabi.remoting.address import parse_address
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.endpoint import Endpoint
from hanabi.remoting.protocol import Connection
from hanabi.remoting.server import RemotingServer
from hanabi.wire.command import encode_request
from tests.remoting.peers import (
    BLOB,
    BLOB_BYTES,
    ECHO,
    HANDLERS,
    WAIT,
    Gate,
    MemoryTransport,
    RawPeer,
    Run,
    connecting,
    ends_with,
    eventually,
    raw_peer,
    serving,
    warnings,
)

SMALL_BUFFER = RemotingConfig(write_buffer_bytes_max=64 * 1024)


def test_connections_over_the_limit_are_closed_at_once_with_one_log_line(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
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

    run(main())
    (line,) = warnings(caplog)
    assert "limit of 100 connections" in line


def test_out_of_descriptors_accepting_waits_and_goes_on(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
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

    run(main())
    (line,) = warnings(caplog)
    assert "cannot accept connections" in line


def _all_descriptors_below(limit: int) -> list[int]:
    """Take every free descriptor below *limit*, so that none is left."""
    taken: list[int] = []
    with suppress(OSError):
        while not taken or taken[-1] < limit:
            taken.append(os.dup(0))
    return taken


def test_reading_stops_while_too_many_handlers_wait_and_goes_on_after(run: Run) -> None:
    async def main() -> None:
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

    run(main())


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


def test_a_peer_that_does_not_read_is_not_read_from_until_it_reads_again(run: Run) -> None:
    async def main() -> None:
        async with serving(config=SMALL_BUFFER) as (server, address), raw_peer(address) as peer:
            count = await ask_for_far_too_much(peer)
            await eventually(lambda: stalled(server))
            async with connecting() as connector:
                await connector.request(address, ECHO)
            (connection,) = [connection for connection in server.connections if connection.unsent_bytes]
            assert connection.unsent_bytes <= SMALL_BUFFER.write_buffer_bytes_max + 2 * BLOB_BYTES
            assert server.statistics().requests < count
            assert [(await peer.answer()).opaque for _ in range(count)] == list(range(count))

    run(main())


def test_a_peer_that_never_reads_is_dropped(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024, stalled_peer_seconds=0.1)

    async def main() -> None:
        async with serving(config=config) as (server, address), raw_peer(address) as peer:
            count = await ask_for_far_too_much(peer)
            await eventually(lambda: stalled(server))
            await eventually(lambda: not server.connections)
            assert server.statistics().requests < count

    run(main())
    (line,) = warnings(caplog)
    assert "has not read for 0.1 s" in line


def test_a_peer_that_never_takes_the_last_bytes_of_a_closed_connection_is_cut(run: Run) -> None:
    config = RemotingConfig(write_buffer_bytes_max=64 * 1024, stalled_peer_seconds=0.1)

    async def main() -> None:
        async with serving(config=config) as (server, address), raw_peer(address) as peer:
            await ask_for_far_too_much(peer)
            await eventually(lambda: stalled(server))
            for connection in server.connections:
                connection.close("the test wants it")
            await eventually(lambda: not server.connections)

    run(main())


def test_when_all_peers_together_leave_too_much_unread_the_fullest_is_dropped(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    config = RemotingConfig(
        write_buffer_bytes_max=64 * 1024, write_buffer_total_bytes_max=100 * 1024, frame_seconds_max=0.1
    )

    async def main() -> None:
        async with serving(config=config) as (server, address), raw_peer(address) as peer, raw_peer(address) as other:
            other.ask(ECHO)
            await other.answer()
            await ask_for_far_too_much(peer)
            await eventually(lambda: len(server.connections) == 1)
            other.ask(ECHO, body=b"still here")
            assert (await other.answer()).body == b"still here"

    run(main())
    (line,) = warnings(caplog)
    assert "limit 102400" in line


def test_while_its_peer_does_not_read_a_request_waits_and_a_oneway_is_refused(run: Run) -> None:
    async def main() -> None:
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

    run(main())


def test_an_idle_peer_is_closed_and_a_busy_one_is_not(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        config = RemotingConfig(idle_seconds=0.5)  # many times the pause of the busy one, as machines may be slow
        async with serving(config=config) as (server, address), raw_peer(address) as idle, raw_peer(address) as busy:
            closing = asyncio.create_task(idle.until_closed())
            while not closing.done():
                busy.ask(ECHO)
                await busy.answer()
                await asyncio.sleep(0.02)
            assert closing.result() == b""
            assert len(server.connections) == 1

    caplog.set_level("INFO")
    run(main())
    assert [message for message in caplog.messages if "idle for 0.5 s" in message]
    assert warnings(caplog) == []


def test_whatever_filled_the_buffer_reading_stops_until_it_is_empty(run: Run) -> None:
    async def main() -> None:
        connection, transport = Connection(Endpoint(HANDLERS, RemotingConfig()), "memory:1"), MemoryTransport()
        connection.connection_made(transport)
        connection.pause_writing()
        assert not transport.reading
        connection.resume_writing()
        assert transport.reading
        connection.connection_lost(None)

    run(main())


def test_the_limits_on_time_are_kept_to_the_second(run: Run) -> None:
    config = RemotingConfig()

    async def main() -> None:
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

    run(main())


def test_a_connector_closes_what_is_idle_and_connects_again(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address), connecting(config=RemotingConfig(idle_seconds=0.05)) as connector:
            await connector.request(address, ECHO)
            await eventually(lambda: not server.connections)
            assert (await connector.request(address, ECHO, body=b"again")).body == b"again"
            assert server.statistics().accepted == 2

    run(main())


def test_incomplete_frames_of_all_peers_together_are_bounded(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        config = RemotingConfig(read_buffer_total_bytes_max=100_000)
        half = (1_000_000).to_bytes(4, "big") + bytes(60_000)
        async with serving(config=config) as (server, address), raw_peer(address) as first, raw_peer(address) as second:
            first.send(half)
            await eventually(lambda: len(server.connections) == 2)
            second.send(half)
            await eventually(lambda: len(server.connections) == 1)
            (left,) = server.connections
            assert left.peer == ":".join(map(str, first.writer.get_extra_info("sockname")))
            # What the dropped one held is free again.
            async with raw_peer(address) as third:
                third.send(half[:30_000])
                await third.writer.drain()
                async with connecting() as connector:
                    await connector.request(address, ECHO)
                    assert len(server.connections) == 3

    run(main())
    (line, *_) = warnings(caplog)
    assert "limit 100000" in line


def test_a_large_frame_in_many_reads_is_one_request(run: Run) -> None:
    async def main() -> None:
        config = RemotingConfig(read_buffer_total_bytes_max=9 * 1024 * 1024)
        async with serving(HANDLERS, config) as (_, address), connecting() as connector:
            body = bytes(range(256)) * (8 * 1024 * 4)
            for _ in range(3):  # the budget is given back each time
                assert (await connector.request(address, ECHO, body=body)).body == body

    run(main())
