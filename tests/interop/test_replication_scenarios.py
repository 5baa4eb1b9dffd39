"""Links that go mute, and slaves that need deleted files, with Apache 4.9 and 5.3 on the other side.

Two of these show bugs of Apache's: a slave of 4.9 never notices a mute master, and masters of both lines leave a slave
below their oldest file without an answer (#3388).
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanabi.remoting.address import parse_address
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import StoreLog
from hanabi.replication.master import Master
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.replication.slave import Slave
from hanabi.store.message_store import MessageStore
from hanabi.testing.proxy import Proxy
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.processes import free_port
from tests.interop.store_files import open_store
from tests.interop.test_replication import (
    FILE_BYTES,
    apache,
    apaches_slave,
    caught_up,
    ha_address,
    log_end,
    put_samples,
    send_samples,
    until,
)

pytestmark = [
    pytest.mark.usefixtures("apache_jars"),
    pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5]),
]
QUICK = ReplicationConfig(
    heartbeat_interval_ms=500, housekeeping_interval_ms=3_000, reconnect_interval_ms=200, slave_timeout_ms=3_000
)
WATCHFUL = {"haSendHeartbeatInterval": 500, "haHousekeepingInterval": 3_000}


@contextlib.asynccontextmanager
async def slave_of(store: MessageStore, address: str) -> AsyncIterator[Slave]:
    slave = Slave(StoreLog(store), QUICK)
    slave.start()
    slave.follow(address)
    try:
        yield slave
    finally:
        await slave.stop()


@contextlib.asynccontextmanager
async def master_of(store: MessageStore, port: int) -> AsyncIterator[Master]:
    master = Master(StoreLog(store), QUICK, QUICK.put_rule(is_sync=True))
    await master.start("127.0.0.1", port)
    try:
        yield master
    finally:
        await master.stop()


async def test_our_slave_notices_a_link_that_swallows_everything_and_goes_on(tmp_path: Path, jar_set: str) -> None:
    store = open_store(tmp_path / "slave")
    async with (
        apache(tmp_path / "master", jar_set, **WATCHFUL) as master,
        Proxy(parse_address(ha_address(master))) as proxy,
        slave_of(store, proxy.address) as slave,
    ):
        await asyncio.to_thread(send_samples, master, 1, 20)
        await until(lambda: store.max_log_offset == log_end(master))
        proxy.swallow()
        await asyncio.to_thread(send_samples, master, 2, 20)
        await until(lambda: store.max_log_offset == log_end(master))
        assert slave.refusals.total() >= 1
    store.close()


async def test_our_master_closes_a_mute_link_and_a_slave_of_5_returns_by_itself(tmp_path: Path, jar_set: str) -> None:
    store, port = open_store(tmp_path / "master"), free_port()
    async with (
        master_of(store, port) as master,
        Proxy(("127.0.0.1", port)) as proxy,
        apaches_slave(tmp_path / "slave", jar_set, proxy.address, **WATCHFUL),
    ):
        await caught_up(store, master)
        proxy.swallow()
        put_samples(store, 1, 20)
        master.appended()
        await until(lambda: master.refusals[RefusalKind.SILENT] == 1)
        if jar_set == SERVERS_4:  # it measures its own writes, which succeed
            await asyncio.sleep(3 * QUICK.housekeeping_interval_ms / 1000)
            assert master.slaves() == []
            proxy.cut()
        await caught_up(store, master)
    store.close()


async def test_apaches_slave_below_our_oldest_file_is_refused_with_one_line(
    tmp_path: Path, jar_set: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, later, port = open_store(tmp_path / "whole"), open_store(tmp_path / "later"), free_port()
    address = f"127.0.0.1:{port}"
    put_samples(whole, 1, 10)
    async with master_of(whole, port) as first:
        async with apaches_slave(tmp_path / "slave", jar_set, address, **WATCHFUL):
            await caught_up(whole, first)
        put_samples(whole, 2, 200)
        async with slave_of(later, address):  # an empty one gets the last file only
            await until(lambda: later.max_log_offset == whole.max_log_offset)
    assert later.min_log_offset > FILE_BYTES
    async with master_of(later, port) as second, apaches_slave(tmp_path / "slave", jar_set, address, **WATCHFUL):
        await until(lambda: second.refusals[RefusalKind.BELOW_START] >= 2)
        assert second.slaves() == []
    assert len([line for line in caplog.messages if "but the oldest file here begins at" in line]) == 1
    whole.close()
    later.close()


async def test_our_slave_does_not_follow_apaches_master_if_the_ends_of_their_logs_differ(
    tmp_path: Path, jar_set: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "slave")
    async with apache(tmp_path / "master", jar_set, **WATCHFUL) as master:
        await asyncio.to_thread(send_samples, master, 1, 20)
        async with slave_of(store, ha_address(master)):
            await until(lambda: store.max_log_offset == log_end(master) > 0)
        end = store.max_log_offset
        ahead = open_store(shutil.copytree(tmp_path / "slave", tmp_path / "ahead"))
        put_samples(ahead, 2, 5)
        async with slave_of(ahead, ha_address(master)) as slave:
            await until(lambda: slave.refusals[RefusalKind.NOT_COMPARED] >= 2)
            assert "has lost the end of its log" in slave.state().trouble  # 4.9 closes, 5.3 sends heartbeats only
        store.close()
        with (tmp_path / "slave" / "commitlog" / f"{0:020}").open("r+b") as log:  # one other byte in the last message
            log.seek(end - 1)
            last = log.read(1)[0]
            log.seek(end - 1)
            log.write(bytes([last ^ 1]))
        await asyncio.to_thread(send_samples, master, 3, 20)
        other = open_store(tmp_path / "slave")
        async with slave_of(other, ha_address(master)) as slave:
            await until(lambda: slave.refusals[RefusalKind.DIVERGED] >= 2)
            assert not slave.state().is_connected
        assert (other.max_log_offset, ahead.max_log_offset > end) == (end, True)
    assert len([line for line in caplog.messages if "its log differs from the one here" in line]) == 1
    for each in (ahead, other):
        each.close()


async def test_apaches_master_leaves_a_slave_below_its_oldest_file_without_an_answer_and_our_slave_says_so(
    tmp_path: Path, jar_set: str
) -> None:
    store = open_store(tmp_path / "slave")
    async with apache(tmp_path / "master", jar_set, **WATCHFUL) as master:
        await asyncio.to_thread(send_samples, master, 1, 10)
        async with slave_of(store, ha_address(master)):
            await until(lambda: store.max_log_offset == log_end(master) > 0)
        await asyncio.to_thread(send_samples, master, 2, 200)
        end = log_end(master)
        await asyncio.to_thread(master.process.stop)
        files = sorted((tmp_path / "master" / "store" / "commitlog").iterdir())
        for file in files[: end // FILE_BYTES]:
            file.unlink()
        master.start_again()
        try:
            await asyncio.to_thread(master.wait_ready)
            held = store.max_log_offset
            async with slave_of(store, ha_address(master)) as slave:
                await until(lambda: slave.refusals[RefusalKind.NOT_COMPARED] >= 2)  # heartbeats come, nothing else
                assert "no longer has files this old" in slave.state().trouble
                assert store.max_log_offset == held < log_end(master)
        finally:
            master.process.kill()
    store.close()
