"""A master and a slave of ours over real sockets, and a line between them that fails."""

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from hanabi.errors import StoreDamaged, StoreFull
from hanabi.remoting.address import parse_address
from hanabi.replication.rules.put_rules import PutRule
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.store.message_store import PutStatus
from hanabi.testing.proxy import Proxy
from tests.remoting.certificates import issue
from tests.replication.logs import FILE_BYTES, MemoryLog, is_copy, quick, running_master, running_slave, until

pytestmark = pytest.mark.usefixtures("new_loop")


async def test_a_slave_copies_the_last_file_and_all_that_follows() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(random.Random(1).randbytes(3 * FILE_BYTES + 17))
    async with running_master(ours) as (master, address), running_slave(copy, address):
        await until(lambda: copy.end_offset == ours.end_offset)
        assert copy.start == 3 * FILE_BYTES
        for size in (1, 5, FILE_BYTES, 3 * FILE_BYTES, 100_000):
            ours.append(random.Random(size).randbytes(size))
            master.appended()
            await until(lambda: copy.end_offset == ours.end_offset)
        assert is_copy(copy, ours)
        await until(lambda: [slave.lag_bytes for slave in master.slaves()] == [0])


async def test_a_slave_that_has_a_part_goes_on_there() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(random.Random(1).randbytes(2 * FILE_BYTES))
    copy.append(bytes(ours.data[:1234]))
    async with running_master(ours) as (_, address), running_slave(copy, address) as slave:
        await until(lambda: copy.end_offset == ours.end_offset)
        assert copy.data == ours.data
        assert slave.state().received_bytes == 2 * FILE_BYTES - 1234
        assert slave.state().is_connected
        assert slave.state().trouble == ""


async def test_an_empty_slave_takes_many_pieces_of_one_read() -> None:
    ours, copy = MemoryLog(file_bytes=1 << 20), MemoryLog(file_bytes=1 << 20)
    ours.append(random.Random(1).randbytes(800_000))
    config = quick(transfer_batch_bytes=1_000)
    async with running_master(ours, config) as (_, address), running_slave(copy, address) as slave:
        await until(lambda: copy.end_offset == ours.end_offset)
        assert not slave.refusals
    assert is_copy(copy, ours)


async def test_bytes_that_are_only_on_the_disk_are_loaded_before_they_are_sent() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(random.Random(1).randbytes(4 * FILE_BYTES))
    copy.append(bytes(ours.data[:100]))
    ours.cold = {*range(100, FILE_BYTES), *range(2 * FILE_BYTES, 3 * FILE_BYTES)}
    async with running_master(ours) as (_, address), running_slave(copy, address):
        await until(lambda: copy.end_offset == ours.end_offset)
    assert copy.data == ours.data
    assert not ours.cold


async def test_a_slave_that_needs_an_unreadable_part_of_the_log_is_refused_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(random.Random(1).randbytes(3 * FILE_BYTES))
    copy.append(bytes(ours.data[:100]))
    ours.cold, ours.failure = {FILE_BYTES}, StoreDamaged("page 7 is bad")
    async with running_master(ours) as (master, address), running_slave(copy, address):
        await until(lambda: master.refusals[RefusalKind.STORE] > 2)
        assert copy.end_offset == FILE_BYTES
    assert len([line for line in caplog.messages if "cannot be read: page 7 is bad" in line]) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_a_line_that_is_cut_again_and_again_carries_every_byte_once(seed: int) -> None:
    chance, ours, copy = random.Random(seed), MemoryLog(), MemoryLog()
    async with running_master(ours) as (master, address), Proxy(parse_address(address)) as proxy:
        proxy.cut_after(chance.randrange(1, 40_000) for _ in range(12))
        async with running_slave(copy, proxy.address):
            for _ in range(60):
                ours.append(chance.randbytes(chance.randrange(1, 20_000)))
                master.appended()
                await asyncio.sleep(0.001)
            await until(lambda: copy.end_offset == ours.end_offset)
            assert is_copy(copy, ours)
            assert proxy.cuts > 3


async def test_a_slow_line_delays_and_loses_nothing() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    async with running_master(ours) as (master, address), Proxy(parse_address(address)) as proxy:
        proxy.latency_s = 0.02
        async with running_slave(copy, proxy.address):
            for number in range(20):
                ours.append(random.Random(number).randbytes(5_000))
                master.appended()
                await asyncio.sleep(0.002)
            await until(lambda: copy.end_offset == ours.end_offset)
            assert is_copy(copy, ours)


async def test_both_sides_notice_a_line_that_swallows_everything_and_go_on_over_a_new_one() -> None:
    config = quick(housekeeping_interval_ms=300)
    ours, copy = MemoryLog(), MemoryLog()
    async with (
        running_master(ours, config) as (master, address),
        Proxy(parse_address(address)) as proxy,
        running_slave(copy, proxy.address, config) as slave,
    ):
        ours.append(b"a" * 100)
        master.appended()
        await until(lambda: copy.end_offset == 100)
        proxy.swallow()
        ours.append(b"b" * 100)
        master.appended()
        await until(lambda: copy.end_offset == 200)
        assert slave.refusals[RefusalKind.SILENT] + master.refusals[RefusalKind.SILENT] >= 1
        assert is_copy(copy, ours)


async def test_an_idle_connection_lives_by_its_heartbeats() -> None:
    config = quick(heartbeat_interval_ms=20, housekeeping_interval_ms=1000)
    ours, copy = MemoryLog(), MemoryLog()
    async with running_master(ours, config) as (master, address), running_slave(copy, address, config) as slave:
        await until(lambda: master.slaves())
        await asyncio.sleep(2.5)
        assert not master.refusals
        assert not slave.refusals
        assert slave.state().is_connected


async def test_a_slave_waits_for_its_master_and_follows_another_when_told(caplog: pytest.LogCaptureFixture) -> None:
    first, second, copy = MemoryLog(), MemoryLog(), MemoryLog()
    first.append(b"a" * 500)
    second.append(b"a" * 500 + b"b" * 500)
    async with running_slave(copy, "127.0.0.1:1") as slave:
        await until(lambda: "no connection to the master 127.0.0.1:1" in slave.state().trouble)
        async with running_master(first) as (_, address):
            slave.follow(address)
            await until(lambda: copy.end_offset == 500)
            async with running_master(second) as (_, other):
                slave.follow(other)
                await until(lambda: copy.end_offset == 1000)
                slave.follow(None)
                await until(lambda: not slave.state().is_connected)
    assert copy.data == second.data
    assert [line for line in caplog.messages if "127.0.0.1:1:" in line][1:] == []  # one line, however often it tried


async def test_a_master_that_comes_back_is_followed_again() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(b"a" * 500)
    async with Proxy() as proxy, running_slave(copy, proxy.address):
        async with running_master(ours) as (_, address):
            proxy.target = parse_address(address)
            ours.append(b"b" * 500)
            await until(lambda: copy.end_offset == 1000)
        async with running_master(ours) as (_, address):
            proxy.target = parse_address(address)
            ours.append(b"c" * 500)
            await until(lambda: copy.end_offset == 1500)
    assert copy.data == ours.data


# Divergence and failures of the slave's store


async def test_a_slave_ahead_of_its_master_is_refused_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(b"a" * 500)
    copy.append(b"a" * 501)
    async with running_master(ours) as (master, address), running_slave(copy, address):
        await until(lambda: master.refusals[RefusalKind.BEYOND_END] >= 3)
        assert not master.slaves()
    assert bytes(copy.data) == b"a" * 501
    lines = [line for line in caplog.messages if "is refused" in line]
    assert len(lines) == 1
    assert "it asks for the log from 501 on, but the log here ends at 500" in lines[0]


async def test_a_slave_far_behind_the_oldest_file_is_refused_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    ours, copy = MemoryLog(start=FILE_BYTES), MemoryLog()
    copy.append(b"a" * 10)
    async with running_master(ours) as (master, address), running_slave(copy, address):
        await until(lambda: master.refusals[RefusalKind.BELOW_START] >= 3)
    assert len([line for line in caplog.messages if f"oldest file here begins at {FILE_BYTES}" in line]) == 1


async def test_a_file_deleted_before_a_slow_slave_has_it_is_told() -> None:
    ours, copy = MemoryLog(), MemoryLog()
    copy.append(b"a")
    ours.append(b"a" * (3 * FILE_BYTES))
    config = quick(flow_control_enabled=True, transfer_bytes_per_second=2_000, transfer_batch_bytes=100)
    async with running_master(ours, config) as (master, address), running_slave(copy, address):
        await until(lambda: copy.end_offset > 100)
        ours.delete_before(2 * FILE_BYTES)
        await until(lambda: master.refusals[RefusalKind.BELOW_START])


async def test_file_sizes_that_differ_are_told(caplog: pytest.LogCaptureFixture) -> None:
    ours, copy = MemoryLog(file_bytes=1000), MemoryLog(file_bytes=700)
    ours.append(b"a" * 1500)
    async with running_master(ours) as (_, address), running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.OTHER_OFFSET])
        assert "mappedFileSizeCommitLog" in slave.state().trouble
    assert copy.end_offset == 0


async def test_a_full_disk_on_the_slave_stops_it_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    ours, copy = MemoryLog(), MemoryLog()
    ours.append(b"a" * 500)
    copy.failure = StoreFull("no room on the disk")
    async with running_master(ours) as (_, address), running_slave(copy, address) as slave:
        await until(lambda: slave.refusals[RefusalKind.STORE] >= 3)
        assert "no room on the disk" in slave.state().trouble
        copy.failure = None
        await until(lambda: copy.end_offset == 500)
    assert len([line for line in caplog.messages if "no room" in line]) == 1


# SYNC_MASTER


async def test_a_put_is_answered_when_a_slave_has_it() -> None:
    ours, copy, told = MemoryLog(), MemoryLog(), list[PutStatus]()
    async with running_master(ours, is_sync=True) as (master, address):
        master.acks.wait(10, told.append)
        assert told == [PutStatus.SLAVE_NOT_AVAILABLE]
        async with running_slave(copy, address):
            await until(lambda: master.slaves())
            for number in range(5):
                ours.append(b"a" * 100)
                master.acks.wait(ours.end_offset, told.append)
                master.appended()
                assert len(told) == number + 1
                await until(lambda count=number + 2: len(told) == count)  # type: ignore[misc]
                assert copy.end_offset == ours.end_offset
    assert told[1:] == [PutStatus.PUT_OK] * 5


async def test_a_put_is_told_when_no_slave_acknowledges_it_in_time() -> None:
    ours, copy, told = MemoryLog(), MemoryLog(), list[PutStatus]()
    config = quick(slave_timeout_ms=100)
    async with (
        running_master(ours, config, is_sync=True) as (master, address),
        Proxy(parse_address(address)) as proxy,
        running_slave(copy, proxy.address),
    ):
        await until(lambda: master.slaves())
        proxy.stall()
        ours.append(b"a" * 100)
        master.acks.wait(100, told.append)
        master.appended()
        await until(lambda: told)
        assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT]
        proxy.go_on()
        await until(lambda: copy.end_offset == 100)
        await until(lambda: [slave.held_offset for slave in master.slaves()] == [100])
        master.acks.wait(100, told.append)
        assert told[1:] == [PutStatus.PUT_OK]


async def test_a_slave_that_comes_back_with_everything_acknowledges_it_at_once() -> None:
    ours, copy, told = MemoryLog(), MemoryLog(), list[PutStatus]()
    ours.append(b"a" * 100)
    copy.append(b"a" * 100)
    config = quick(heartbeat_interval_ms=20_000)
    rule = PutRule(is_sync=True, in_sync_replicas=2)
    async with running_master(ours, config, rule=rule) as (master, address):
        master.acks.wait(100, told.append)
        assert told == []
        async with running_slave(copy, address, config):
            await until(lambda: told, seconds=2.5)
    assert told == [PutStatus.PUT_OK]


async def test_puts_that_wait_are_answered_when_the_master_stops() -> None:
    ours, told = MemoryLog(), list[PutStatus]()
    async with running_master(ours, rule=PutRule(is_sync=True, in_sync_replicas=2)) as (master, _):
        master.acks.wait(100, told.append)
    assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT]


# TLS between two of ours


async def test_with_tls_only_a_slave_with_a_certificate_follows(tmp_path: Path) -> None:
    authority = issue(tmp_path, "authority")
    ours, theirs = issue(tmp_path, "master", authority), issue(tmp_path, "slave", authority)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ours.certificate_path, ours.key_path)
    server.load_verify_locations(authority.certificate_path)
    server.verify_mode = ssl.CERT_REQUIRED
    stranger = ssl.create_default_context(cafile=str(authority.certificate_path))
    known = ssl.create_default_context(cafile=str(authority.certificate_path))
    known.load_cert_chain(theirs.certificate_path, theirs.key_path)
    log, copy, nothing = MemoryLog(), MemoryLog(), MemoryLog()
    log.append(random.Random(1).randbytes(3 * FILE_BYTES // 2))
    async with running_master(log, tls=server) as (master, address):
        async with (
            running_slave(nothing, address, tls=stranger) as refused,
            running_slave(nothing, address) as plain,
            running_slave(copy, address, tls=known),
        ):
            await until(lambda: copy.end_offset == log.end_offset)
            await until(lambda: refused.state().trouble and plain.state().trouble)
        assert set(master.refusals) == {RefusalKind.TLS}
    assert nothing.end_offset == 0
    assert is_copy(copy, log)
