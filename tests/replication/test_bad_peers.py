"""Peers on the replication port that are no slaves, slaves that lie or do not read, and masters that are none."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from hanabi.remoting.address import parse_address
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.replication.sender import BUFFERED_BYTES_MAX
from hanabi.replication.wire import encode_header, encode_report
from tests.replication.logs import (
    FILE_BYTES,
    HOST,
    MemoryLog,
    quick,
    running_master,
    running_slave,
    until,
    until_closed,
)

pytestmark = pytest.mark.usefixtures("new_loop")


@contextlib.asynccontextmanager
async def peer(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*parse_address(address))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", RefusalKind.NOT_A_SLAVE),
        (b"\xff" * 1000, RefusalKind.NOT_A_SLAVE),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", RefusalKind.NOT_A_SLAVE),
        (encode_report(1001), RefusalKind.BEYOND_END),
        (encode_report(-1), RefusalKind.NOT_A_SLAVE),
        (encode_report(1000) + encode_report(1001), RefusalKind.ACK_BEYOND_SENT),
        (encode_report(1000) + encode_report(999), RefusalKind.ACK_BACKWARDS),
    ],
)
async def test_what_no_slave_says_closes_the_connection_with_one_line(
    sent: bytes, kind: RefusalKind, caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryLog()
    log.append(bytes(1000))
    async with running_master(log, is_sync=True) as (master, address):
        for _ in range(3):
            async with peer(address) as (reader, writer):
                writer.write(sent)
                await until_closed(reader)
        assert master.refusals == {kind: 3}
        await until(lambda: master.connections == 0)
        assert master.acks.slaves == ()
        statuses: list[object] = []
        master.acks.wait(1, statuses.append)
        assert [str(status) for status in statuses] == ["PutStatus.SLAVE_NOT_AVAILABLE"]  # nothing was acknowledged
    assert len([line for line in caplog.messages if "is refused" in line]) == 1


async def test_a_peer_that_says_nothing_or_half_a_report_is_closed() -> None:
    config = quick(housekeeping_interval_ms=200)
    async with running_master(MemoryLog(), config) as (master, address):
        async with peer(address) as (silent, _), peer(address) as (slow, writer):
            writer.write(b"\0\0\0")
            assert await until_closed(silent) == b""
            assert await until_closed(slow) == b""
        assert master.refusals == {RefusalKind.SILENT: 2}


async def test_a_slave_that_does_not_read_costs_bounded_memory_and_delays_no_other() -> None:
    log, copy = MemoryLog(file_bytes=1 << 20), MemoryLog(file_bytes=1 << 20)
    log.append(bytes(64 << 20))
    copy.append(bytes(1))
    async with running_master(log) as (master, address), peer(address) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(encode_report(1))
        await until(lambda: master.slaves() and master.slaves()[0].sent_offset > 1)
        async with running_slave(copy, address):
            await until(lambda: copy.end_offset == log.end_offset)
        stuck = next(slave for slave in master.slaves() if slave.held_offset == 1)
        kernel = 16 << 20  # what the sockets of both sides may hold, and the peer's reader
        assert stuck.sent_offset < kernel + BUFFERED_BYTES_MAX + (1 << 20)
        assert stuck.lag_bytes == log.end_offset - 1


async def test_a_slave_that_reports_but_never_reads_is_closed() -> None:
    config = quick(housekeeping_interval_ms=300)
    log = MemoryLog(file_bytes=1 << 20)
    log.append(bytes(64 << 20))
    async with running_master(log, config) as (master, address), peer(address) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not master.refusals:
            writer.write(encode_report(1))
            await asyncio.sleep(0.01)
        assert master.refusals == {RefusalKind.SILENT: 1}


async def test_only_allowed_addresses_and_so_many_connections_are_taken() -> None:
    async with running_master(MemoryLog(), quick(allowed_peers="192.0.2.0/24")) as (master, address):
        async with peer(address) as (reader, _):
            assert await until_closed(reader) == b""
        assert master.refusals == {RefusalKind.ADDRESS: 1}
    async with running_master(MemoryLog(), quick(ha_connections_max=2)) as (master, address):
        async with peer(address) as (_, one), peer(address) as (_, other):
            for writer in (one, other):
                writer.write(encode_report(0))
            await until(lambda: len(master.acks.slaves) == 2)
            async with peer(address) as (reader, _):
                assert await until_closed(reader) == b""
        assert master.refusals == {RefusalKind.CONNECTIONS: 1}
        await until(lambda: master.connections == 0)


async def test_a_thousand_mute_peers_do_not_lock_out_a_slave() -> None:
    log, copy = MemoryLog(), MemoryLog()
    log.append(bytes(1000))
    copy.append(bytes(1))
    async with (
        running_master(log, quick(ha_connections_max=8)) as (master, address),
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(500):
            await stack.enter_async_context(peer(address))
        async with running_slave(copy, address):
            await until(lambda: copy.end_offset == 1000)
            for _ in range(500):  # nor do they push it out
                await stack.enter_async_context(peer(address))
            log.append(bytes(10))
            master.appended()
            await until(lambda: copy.end_offset == 1010)
        assert master.connections <= 8
        assert master.refusals[RefusalKind.CONNECTIONS] >= 980


async def test_a_flow_limit_holds_back_and_loses_nothing() -> None:
    log, copy = MemoryLog(), MemoryLog()
    log.append(bytes(range(250)) * 100)
    copy.append(bytes(log.data[:1]))
    config = quick(flow_control_enabled=True, transfer_bytes_per_second=100_000, transfer_batch_bytes=1_000)
    async with running_master(log, config) as (master, address), running_slave(copy, address):
        await until(lambda: copy.end_offset > 1)
        assert copy.end_offset < log.end_offset  # a burst is a tenth of a second's allowance
        await until(lambda: copy.end_offset == log.end_offset)
        assert master.slaves()[0].sent_offset == log.end_offset
    assert copy.data == log.data


# Masters that are none


@contextlib.asynccontextmanager
async def scripted_master(answer: bytes, connections: list[bytes]) -> AsyncIterator[str]:
    """Yield a server that answers the first report of each connection with *answer*."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            connections.append(await reader.readexactly(8))
            writer.write(answer)
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", RefusalKind.NOT_A_MASTER),
        (b"\xff" * 100, RefusalKind.NOT_A_MASTER),
        (encode_header(500, -5), RefusalKind.NOT_A_MASTER),
        (encode_header(501, 3) + b"abc", RefusalKind.OTHER_OFFSET),
        (encode_header(499, 3) + b"abc", RefusalKind.OTHER_OFFSET),
        (encode_header(0, 0), RefusalKind.OTHER_OFFSET),
        (encode_header(FILE_BYTES, 0), RefusalKind.OTHER_OFFSET),
    ],
)
async def test_a_master_with_another_log_is_refused_with_one_line_and_nothing_is_stored(
    answer: bytes, kind: RefusalKind, caplog: pytest.LogCaptureFixture
) -> None:
    copy, connections = MemoryLog(), list[bytes]()
    copy.append(b"a" * 500)
    async with scripted_master(answer, connections) as address, running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[kind] >= 3)
        assert slave.refusals.keys() == {kind}
    assert bytes(copy.data) == b"a" * 500
    assert set(connections) == {encode_report(500)}
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1


async def test_what_came_before_a_bad_piece_is_kept() -> None:
    copy, connections = MemoryLog(), list[bytes]()
    copy.append(b"a" * 500)
    good = encode_header(500, 3) + b"abc"
    bad = encode_header(600, 3) + b"def"
    async with scripted_master(good + bad, connections) as address, running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.OTHER_OFFSET])
        assert bytes(copy.data) == b"a" * 500 + b"abc"
