"""Statuses of a SYNC_MASTER: Apache 4.9 and 5.3 and ours answer the same sends, with a slave of ours or none."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.remoting.address import parse_address
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import StoreLog
from hanabi.replication.slave import Slave
from hanabi.testing.cluster import HOST
from hanabi.testing.proxy import Proxy
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.probe import ask
from tests.interop.processes import free_port
from tests.interop.store_files import open_store, store_config
from tests.interop.test_replication import apache, until

pytestmark = [
    pytest.mark.usefixtures("apache_jars"),
    pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5]),
]
OK, NO_SLAVE, TIMEOUT = ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT
LIMIT_BYTES = 20_000
SETTINGS = {"brokerRole": "SYNC_MASTER", "haSlaveFallbehindMax": LIMIT_BYTES, "slaveTimeout": 1_000}
QUICK = ReplicationConfig(heartbeat_interval_ms=500, reconnect_interval_ms=200)
EXPECTED = {
    SERVERS_4: {"no slave": NO_SLAVE, "a slave": OK, "a silent slave": TIMEOUT, "a gap over the limit": NO_SLAVE},
    ALL_5: {
        "no slave": OK,  # inSyncReplicas is 1
        "no slave, 2 replicas": TIMEOUT,
        "a slave": OK,
        "a silent slave": TIMEOUT,
        "a gap over the limit": TIMEOUT,  # haSlaveFallbehindMax is not looked at
    },
}
ACTING = {"acting": ResponseCode.SYSTEM_ERROR, "acting, auto": OK}


def send(address: str, body: bytes = b"one", *, waits: bool = True) -> int:
    """Send one message and return the code of the answer."""
    values = ("p", "Statuses", "TBW102", "1", "0", "0", "1", "0", f"WAIT\x01{str(waits).lower()}")
    return ask(address, RequestCode.SEND_MESSAGE_V2, dict(zip("abcdefghi", values, strict=True)), body).code


def configure(address: str, text: str) -> None:
    answer = ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def statuses(address: str, home: Path, jar_set: str) -> dict[str, int]:
    """Return the code of a send in each situation."""
    found = {"no slave": await asyncio.to_thread(send, address)}
    if jar_set == ALL_5:
        await asyncio.to_thread(configure, address, "inSyncReplicas=2")
        found["no slave, 2 replicas"] = await asyncio.to_thread(send, address)
    store = open_store(home)
    slave = Slave(StoreLog(store), QUICK)
    host, port = parse_address(address)
    async with Proxy((host, port + 1)) as proxy:
        slave.start()
        slave.follow(proxy.address)
        try:
            await until(lambda: send(address) == OK)
            found["a slave"] = await asyncio.to_thread(send, address)
            proxy.stall()
            found["a silent slave"] = await asyncio.to_thread(send, address)
            await asyncio.to_thread(send, address, bytes(LIMIT_BYTES), waits=False)
            found["a gap over the limit"] = await asyncio.to_thread(send, address)
        finally:
            proxy.go_on()
            await slave.stop()
            store.close()
    return found


def acting(address: str) -> dict[str, int]:
    """Return the code of a send to a master that needs two replicas, has no slave, and may be replaced by one."""
    configure(address, "inSyncReplicas=2")
    found = {"acting": send(address)}
    configure(address, "enableAutoInSyncReplicas=true")
    return found | {"acting, auto": send(address)}


@contextlib.asynccontextmanager
async def our_master(home: Path, jar_set: str, *, is_acting: bool = False) -> AsyncIterator[Broker]:
    """Yield a master of ours with the rule of the version: an unset inSyncReplicas means that of 4.9."""
    config = BrokerConfig(
        broker_name="broker-a",
        broker_role=BrokerRole.SYNC_MASTER,
        slave_fall_behind_bytes=LIMIT_BYTES,
        slave_timeout_ms=1_000,
        in_sync_replicas=1 if jar_set == ALL_5 else None,
        acting_master_enabled=is_acting,
    )
    async with Broker(config, store_config(home)) as broker:
        await broker.start(HOST, free_port(beside=(-2, 1)))
        yield broker


async def test_a_sync_master_of_ours_answers_as_apaches_in_every_situation(tmp_path: Path, jar_set: str) -> None:
    async with apache(tmp_path / "apache", jar_set, **SETTINGS) as theirs:
        assert await statuses(theirs.address, tmp_path / "first", jar_set) == EXPECTED[jar_set]
        if jar_set == ALL_5:
            await asyncio.to_thread(configure, theirs.address, "enableSlaveActingMaster=true")
            assert await asyncio.to_thread(acting, theirs.address) == ACTING
    async with our_master(tmp_path / "ours", jar_set) as ours:
        assert await statuses(ours.address, tmp_path / "second", jar_set) == EXPECTED[jar_set]
    if jar_set == ALL_5:
        async with our_master(tmp_path / "acting", jar_set, is_acting=True) as ours:
            assert await asyncio.to_thread(acting, ours.address) == ACTING
