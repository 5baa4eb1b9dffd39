"""Whole pairs whose link goes mute, and slaves that need files which their master no longer has."""

from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.broker import Broker
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.testing.cluster import small_store
from hanabi.testing.proxy import Proxy
from hanabi.testing.waiting import eventually
from tests.broker.replica.masters import send as ask_to_store
from tests.broker.replica.pairs import running_master, running_name_server, running_slave, side_of
from tests.broker.talk import connected

WATCHFUL: dict[str, Any] = {"heartbeat_interval_ms": 100, "housekeeping_interval_ms": 600, "reconnect_interval_ms": 100}
FILE_BYTES = 1 << 16


async def fill(master: Broker, end: int) -> None:
    """Send until the log ends beyond *end*."""
    async with connected(master.bound) as peer:
        while master.store.max_log_offset <= end:
            assert (await ask_to_store(peer, bytes(4000))).code == 0


async def caught_up(slave: Broker, master: Broker) -> None:
    await eventually(lambda: slave.store.max_log_offset == master.store.max_log_offset > 0, "the slave has the log")


async def test_both_brokers_close_a_link_that_swallows_everything_and_go_on_over_a_new_one(tmp_path: Path) -> None:
    async with (
        running_name_server(tmp_path) as namesrv,
        running_master(tmp_path / "master", namesrv, **WATCHFUL) as master,
        Proxy(("127.0.0.1", master.settings.broker.ha_listen_port)) as proxy,
        running_slave(tmp_path / "slave", namesrv, ha_master_address=proxy.address, **WATCHFUL) as slave,
    ):
        await fill(master, 10_000)
        await caught_up(slave, master)
        proxy.swallow()
        await fill(master, 30_000)
        await caught_up(slave, master)
        await eventually(lambda: master.master_side.master.refusals[RefusalKind.SILENT], "the master closed its end")
        assert side_of(slave).slave.refusals[RefusalKind.SILENT] == 1


async def test_a_slave_below_the_oldest_file_is_refused_with_one_line_and_keeps_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "master", tmp_path / "slave"
    store = small_store(first, commit_log_segment_bytes=FILE_BYTES)
    copy = small_store(second, commit_log_segment_bytes=FILE_BYTES)
    async with running_name_server(tmp_path) as namesrv:
        async with running_master(first, namesrv, store, **WATCHFUL) as master:
            async with running_slave(second, namesrv, copy, **WATCHFUL) as slave:
                await fill(master, 10_000)
                await caught_up(slave, master)
                held = slave.store.max_log_offset
            await fill(master, 3 * FILE_BYTES)
        for file in sorted((first / "commitlog").iterdir())[:2]:
            file.unlink()  # as retention does
        async with (
            running_master(first, namesrv, store, **WATCHFUL) as master,
            running_slave(second, namesrv, copy, **WATCHFUL) as slave,
        ):
            refusals = master.master_side.master.refusals
            await eventually(lambda: refusals[RefusalKind.BELOW_START] >= 3, "the slave is refused, and asks again")
            assert slave.store.max_log_offset == held
            assert "no longer" in side_of(slave).summary() or side_of(slave).slave.state().trouble
    lines = [line for line in caplog.messages if f"oldest file here begins at {2 * FILE_BYTES}" in line]
    assert len(lines) == 1
    assert "empty its store" in lines[0]
