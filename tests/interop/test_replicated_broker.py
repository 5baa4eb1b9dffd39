"""A whole broker of ours as SYNC_MASTER, with a slave of Apache's that finds it by our name server."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.store.config import FlushMode
from hanabi.testing.cluster import HOST
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.replica.masters import send, send_batch
from tests.broker.talk import connected
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.mqadmin import MqAdmin
from tests.interop.probe import ask
from tests.interop.processes import free_port
from tests.interop.store_files import store_config
from tests.interop.store_messages import FILE_SIZES
from tests.interop.test_replication import NEVER_BUSY, different_files, until

pytestmark = [pytest.mark.usefixtures("apache_jars"), pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5])]

OK, NO_SLAVE, TIMEOUT = ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT
HALF = "UNIQ_KEY\x017F00000100000001\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02WAIT\x01true"


class Site(NamedTuple):
    broker: Broker
    namesrv: str


@contextlib.asynccontextmanager
async def our_sync_master(home: Path, **settings: object) -> AsyncIterator[Site]:
    """Our name server and a master that is registered with it, on three ports as Apache's slaves expect them."""
    async with NameServer(NamesrvConfig(), home / "namesrv") as name_server:
        namesrv = format_address(await name_server.start(HOST, 0))
        config = BrokerConfig(
            broker_name="broker-a",
            cluster_name="c",
            broker_role=BrokerRole.SYNC_MASTER,
            namesrv_addr=namesrv,
            slave_timeout_ms=3_000,
        )
        store = store_config(home / "master", flushDiskType=FlushMode.SYNC_FLUSH.value)
        async with Broker(config, store) as broker:
            await broker.start(HOST, free_port(beside=(-2, 1)))
            await broker.registration.until_registered()
            yield Site(broker, namesrv)


@contextlib.asynccontextmanager
async def apaches_slave(home: Path, jar_set: str, site: Site) -> AsyncIterator[ApacheBroker]:
    """Yield a slave that has found the master by its name server."""
    settings = {**FILE_SIZES, **NEVER_BUSY, "brokerRole": "SLAVE", "brokerId": 1}
    slave = ApacheBroker(home, jar_set, name="broker-a", cluster="c", namesrv=site.namesrv, settings=settings)
    try:
        await asyncio.to_thread(slave.wait_ready)
        await until(lambda: bool(site.broker.master_side.acks.slaves))
        yield slave
    finally:
        slave.process.kill()


async def test_apaches_slave_finds_our_master_and_lets_it_acknowledge(
    tmp_path: Path, jar_set: str, admin_5: MqAdmin
) -> None:
    async with our_sync_master(tmp_path) as site, connected(site.broker.bound) as peer:
        assert (await send(peer)).code == NO_SLAVE
        async with apaches_slave(tmp_path / "slave", jar_set, site) as slave:
            for number in range(200):
                assert (await send(peer, b"%d" % number * 50)).code == OK
            replies = [
                await send_batch(peer, b"a", b"b"),
                await send(peer, properties=HALF),
                await send(peer, properties="DELAY\x0118\x02WAIT\x01true"),
            ]
            assert [reply.code for reply in replies] == [OK, OK, OK]
            printed = await asyncio.to_thread(admin_5.run, site.namesrv, "haStatus", "-b", site.broker.address)
            assert_ha_status(printed, site.broker)
            if jar_set == SERVERS_4:  # 5.x copies the tables once a minute
                await until(lambda: "TopicTest" in topics_of(slave))
            os.kill(slave.process.pid, signal.SIGSTOP)
            await until(lambda: is_stopped(slave.process.pid))
            assert (await send(peer)).code == TIMEOUT
            os.kill(slave.process.pid, signal.SIGCONT)
            await until(lambda: not any(slave.lag_bytes for slave in site.broker.master_side.master.slaves()))
            assert (await send(peer)).code == OK
            assert different_files(tmp_path / "master", tmp_path / "slave" / "store", ("commitlog",)) == []


def assert_ha_status(printed: str, broker: Broker) -> None:
    """mqadmin shows our slave, in sync, and the end of our log."""
    (slave,) = broker.master_side.master.slaves()
    assert str(broker.store.max_log_offset) in printed, printed
    assert slave.address in printed, printed


def is_stopped(pid: int) -> bool:
    """Return whether all threads have stopped: those that run need a moment for it."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def topics_of(broker: ApacheBroker) -> dict[str, object]:
    table: dict[str, object] = json.loads(ask(broker.address, RequestCode.GET_ALL_TOPIC_CONFIG).body)
    found = table["topicConfigTable"]
    assert isinstance(found, dict)
    return found
