"""Replication with Apache 4.9 and 5.3 on the other side: our slave of its master, its slave of our master."""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hanabi.remoting.address import parse_address
from hanabi.remoting.transport.connector import Connector
from hanabi.replication.config import ReplicationConfig
from hanabi.replication.log_access import StoreLog
from hanabi.replication.master import Master
from hanabi.replication.metadata import MetadataSync
from hanabi.replication.rules.verdicts import RefusalKind
from hanabi.replication.slave import Slave
from hanabi.store.message_store import MessageStore, PutStatus
from hanabi.testing.proxy import Proxy
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.probe import Conversation, ask
from tests.interop.processes import free_port
from tests.interop.store_files import file_contents, open_store, store_config
from tests.interop.store_messages import FILE_SIZES, QUEUES, Sample, pending, samples, send
from tests.replication.tables import Tables

pytestmark = [
    pytest.mark.usefixtures("apache_jars"),
    pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5]),
]
FILE_BYTES = FILE_SIZES["mappedFileSizeCommitLog"]
NEVER_BUSY = {"waitTimeMillsInSendQueue": 60_000, "osPageCacheBusyTimeOutMills": 60_000}  # on a machine that is
CONFIG = ReplicationConfig(slave_timeout_ms=3_000)
WAIT_SECONDS = 120.0


async def until(true: Callable[[], bool]) -> None:
    """Wait until *true* says so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await asyncio.to_thread(true):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def apache(home: Path, jar_set: str, **settings: object) -> AsyncIterator[ApacheBroker]:
    """Yield a broker of Apache's on the store in *home*; killed on the way out."""
    chosen = {**FILE_SIZES, **NEVER_BUSY, **settings}
    broker = ApacheBroker(home, jar_set, name="broker-a", cluster="c", namesrv=None, settings=chosen)
    try:
        await asyncio.to_thread(broker.wait_ready)
        yield broker
    finally:
        broker.process.kill()


def send_samples(broker: ApacheBroker, seed: int, count: int) -> None:
    with Conversation(broker.address) as conversation:
        for batch in samples(seed, count):
            send(conversation, batch)


def log_end(broker: ApacheBroker) -> int:
    """Return where the log of Apache's broker ends, by its own word; -1 in the first second, when it has no
    statistics."""
    answer = ask(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)
    if answer.code != ResponseCode.SUCCESS:
        return -1
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"])


def different_files(one: Path, other: Path, parts: tuple[str, ...] = ("commitlog", "consumequeue")) -> list[str]:
    """Return the files of two stores that differ, or that only one of them has."""
    found: list[str] = []
    for part in parts:
        left, right = file_contents(one, part), file_contents(other, part)
        found += [name for name in sorted(left.keys() | right.keys()) if left.get(name) != right.get(name)]
    return found


# Apache's master, our slave


@contextlib.asynccontextmanager
async def our_slave(store: MessageStore, address: str) -> AsyncIterator[Slave]:
    slave = Slave(StoreLog(store), CONFIG)
    slave.start()
    slave.follow(address)
    try:
        yield slave
    finally:
        await slave.stop()


def ha_address(broker: ApacheBroker) -> str:
    host, port = parse_address(broker.address)
    return f"{host}:{port + 1}"


def acknowledged(master: ApacheBroker) -> int:
    """Return what the only slave has acknowledged, by the word of Apache's master. Its words are ours."""
    body = bytes(ask(master.address, RequestCode.GET_BROKER_HA_STATUS).body)
    status = decode_body(body, HAStatus)
    assert encode_body(status) == body
    return status.ha_connection_info[0].slave_ack_offset


async def test_our_slave_of_apaches_master_holds_the_same_log_and_queues(tmp_path: Path, jar_set: str) -> None:
    store = open_store(tmp_path / "slave")
    async with apache(tmp_path / "master", jar_set) as master:
        async with our_slave(store, ha_address(master)) as slave:
            await asyncio.to_thread(send_samples, master, 1, 400)
            await until(lambda: store.max_log_offset == log_end(master))
            assert slave.state().is_connected
            if jar_set == ALL_5:  # 4.9 has no such request
                await until(lambda: acknowledged(master) == log_end(master))
        await asyncio.to_thread(send_samples, master, 2, 100)  # while no slave is there
        async with Proxy(parse_address(ha_address(master))) as proxy:
            proxy.cut_after([5, 13, 40_000, 100_001])  # within a header, a piece, a message
            async with our_slave(store, proxy.address) as slave:
                await asyncio.to_thread(send_samples, master, 3, 300)
                await until(lambda: store.max_log_offset == log_end(master))
                assert proxy.cuts >= 3
                assert not slave.refusals
        assert store.max_log_offset > 3 * FILE_BYTES
        assert store.min_log_offset == 0
        store.close()
        assert different_files(tmp_path / "master" / "store", tmp_path / "slave") == []


async def test_our_empty_slave_begins_with_the_last_file_of_apaches_master(tmp_path: Path, jar_set: str) -> None:
    async with apache(tmp_path / "master", jar_set) as master:
        await asyncio.to_thread(send_samples, master, 1, 200)
        store = open_store(tmp_path / "slave")
        async with our_slave(store, ha_address(master)):
            await until(lambda: store.max_log_offset == log_end(master))
        assert store.min_log_offset == store.max_log_offset // FILE_BYTES * FILE_BYTES > 0
        store.close()
        master_files = file_contents(tmp_path / "master" / "store", "commitlog")
        copies = file_contents(tmp_path / "slave", "commitlog")
        assert len(master_files) > len(copies) == 1
        assert copies.items() <= master_files.items()


async def test_our_slave_follows_again_when_apaches_master_was_killed(tmp_path: Path, jar_set: str) -> None:
    store = open_store(tmp_path / "slave")
    async with apache(tmp_path / "master", jar_set) as master, our_slave(store, ha_address(master)) as slave:
        await asyncio.to_thread(send_samples, master, 1, 100)
        await until(lambda: store.max_log_offset == log_end(master))
        master.process.kill()
        await until(lambda: not slave.state().is_connected)
        master.start_again()
        try:
            await asyncio.to_thread(master.wait_ready)
            await asyncio.to_thread(send_samples, master, 2, 100)
            await until(lambda: store.max_log_offset == log_end(master))
        finally:
            master.process.kill()
        assert not slave.refusals
    store.close()
    assert different_files(tmp_path / "master" / "store", tmp_path / "slave") == []


def commit(broker: ApacheBroker, offset: int) -> None:
    """Commit an offset of a group that 5.x wants to know first."""
    group = b'{"groupName":"g"}'
    made = ask(broker.address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    assert made.code == ResponseCode.SUCCESS, made.remark
    words = {"consumerGroup": "g", "topic": "Busy", "queueId": "0", "commitOffset": str(offset)}
    answer = ask(broker.address, RequestCode.UPDATE_CONSUMER_OFFSET, words)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_our_slave_copies_the_tables_of_apaches_master(tmp_path: Path, jar_set: str) -> None:
    connector, tables = Connector(), Tables()
    async with apache(tmp_path / "master", jar_set) as master:
        await asyncio.to_thread(send_samples, master, 1, 20)
        await asyncio.to_thread(commit, master, 3)
        sync = MetadataSync(connector, tables)
        assert await sync.copy(master.address)
        assert tables.topics.topic_config_table["Busy"].write_queue_nums == QUEUES
        assert "TOOLS_CONSUMER" in tables.groups.subscription_group_table
        assert tables.committed["Busy@g"] == {0: 3}
        assert await sync.copy(master.address)
        assert sorted(tables.taken) == ["groups", "offsets", "topics"]  # nothing twice
        tables.committed["Busy@g"][0] = 9  # a commit at the slave
        assert await sync.copy(master.address)
        assert tables.committed["Busy@g"] == {0: 9}
        await asyncio.to_thread(commit, master, 4)
        assert await sync.copy(master.address)
        assert tables.committed["Busy@g"] == {0: 4}
    await connector.close()


# Our master, Apache's slave


@contextlib.asynccontextmanager
async def our_master(store: MessageStore, port: int = 0) -> AsyncIterator[tuple[Master, str]]:
    master = Master(StoreLog(store), CONFIG, CONFIG.put_rule(is_sync=True))
    host, port = await master.start("127.0.0.1", port)
    try:
        yield master, f"{host}:{port}"
    finally:
        await master.stop()


@contextlib.asynccontextmanager
async def apaches_slave(home: Path, jar_set: str, address: str, **more: object) -> AsyncIterator[ApacheBroker]:
    """Yield a slave of Apache's that follows the master at *address*."""
    settings = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": address, **more}
    async with apache(home, jar_set, **settings) as slave:
        await asyncio.to_thread(name_the_master, slave, jar_set, address)
        yield slave


def name_the_master(slave: ApacheBroker, jar_set: str, address: str) -> None:
    """Tell a slave of 5.3.3 its master as another broker does. It loses the haMasterAddress of its own settings:
    BrokerController sets it before DefaultHAService has a client, and then asks no name server either."""
    if jar_set == ALL_5:
        words = {"masterHaAddress": address, "masterAddress": "127.0.0.1:1", "masterFlushOffset": "0"}
        answer = ask(slave.address, RequestCode.EXCHANGE_BROKER_HA_INFO, words)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def put_samples(store: MessageStore, seed: int, count: int) -> None:
    for batch in samples(seed, count):
        messages = [pending(sample) for sample in batch]
        result = store.put(messages[0]) if len(messages) == 1 else store.put_batch(messages)
        assert result.status is PutStatus.PUT_OK, result.reason


async def replicated(store: MessageStore, master: Master) -> PutStatus:
    """Wait for the slaves as a put does; return its status."""
    told: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
    master.acks.wait(store.max_log_offset, told.set_result)
    master.appended()
    return await told


async def caught_up(store: MessageStore, master: Master) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while [slave.held_offset for slave in master.slaves()] != [store.max_log_offset]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def master_store(tmp_path: Path) -> Iterator[MessageStore]:
    store = open_store(tmp_path / "master")
    yield store
    store.close()


async def test_apaches_slave_of_our_master_holds_the_same_log_and_queues(
    tmp_path: Path, jar_set: str, master_store: MessageStore
) -> None:
    async with our_master(master_store) as (master, address):
        assert await replicated(master_store, master) is PutStatus.SLAVE_NOT_AVAILABLE
        async with apaches_slave(tmp_path / "slave", jar_set, address):
            await caught_up(master_store, master)  # both are empty
            for seed in range(8):
                put_samples(master_store, seed, 50)
                assert await replicated(master_store, master) is PutStatus.PUT_OK
            assert master_store.max_log_offset > 3 * FILE_BYTES
            assert not master.refusals
            assert different_files(tmp_path / "master", tmp_path / "slave" / "store", ("commitlog",)) == []
            master_store.flush()
            slave_root = tmp_path / "slave" / "store"
            await until(lambda: different_files(tmp_path / "master", slave_root, ("consumequeue",)) == [])


async def test_apaches_slave_that_stops_or_is_killed_catches_up(
    tmp_path: Path, jar_set: str, master_store: MessageStore
) -> None:
    async with (
        our_master(master_store) as (master, address),
        apaches_slave(tmp_path / "slave", jar_set, address) as slave,
    ):
        await caught_up(master_store, master)
        put_samples(master_store, 1, 30)
        assert await replicated(master_store, master) is PutStatus.PUT_OK
        os.kill(slave.process.pid, signal.SIGSTOP)
        put_samples(master_store, 2, 30)
        assert await replicated(master_store, master) is PutStatus.FLUSH_SLAVE_TIMEOUT
        near = ReplicationConfig(slave_timeout_ms=3_000, slave_fall_behind_bytes=1_000)
        master.use(near, near.put_rule(is_sync=True))
        assert await replicated(master_store, master) is PutStatus.SLAVE_NOT_AVAILABLE  # a gap over the limit
        two = ReplicationConfig(slave_timeout_ms=30_000, in_sync_replicas=2)
        master.use(two, two.put_rule(is_sync=True))
        os.kill(slave.process.pid, signal.SIGCONT)
        assert await replicated(master_store, master) is PutStatus.PUT_OK
        master.use(CONFIG, CONFIG.put_rule(is_sync=True))
        await caught_up(master_store, master)
        slave.process.kill()
        put_samples(master_store, 3, 100)
        master.appended()
        slave.start_again()
        try:
            await asyncio.to_thread(slave.wait_ready)
            await asyncio.to_thread(name_the_master, slave, jar_set, address)
            await caught_up(master_store, master)
            assert await replicated(master_store, master) is PutStatus.PUT_OK
        finally:
            slave.process.kill()
        assert different_files(tmp_path / "master", tmp_path / "slave" / "store", ("commitlog",)) == []


async def test_apaches_slave_that_has_more_than_our_master_is_refused(
    tmp_path: Path, jar_set: str, master_store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    put_samples(master_store, 1, 30)
    async with (
        our_master(master_store, port) as (master, address),
        apaches_slave(tmp_path / "slave", jar_set, address),
    ):
        await caught_up(master_store, master)
        await master.stop()
        shorter = open_store(tmp_path / "shorter")  # as if the end of the log had been lost
        put_samples(shorter, 1, 20)
        async with our_master(shorter, port) as (cut, _):
            async with asyncio.timeout(WAIT_SECONDS):
                while not cut.refusals[RefusalKind.BEYOND_END]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert await replicated(shorter, cut) is PutStatus.SLAVE_NOT_AVAILABLE
        shorter.close()
    assert len([line for line in caplog.messages if "but the log here ends at" in line]) == 1
    assert different_files(tmp_path / "master", tmp_path / "slave" / "store", ("commitlog",)) == []


async def test_apaches_empty_slave_begins_with_our_last_file(
    tmp_path: Path, jar_set: str, master_store: MessageStore
) -> None:
    put_samples(master_store, 1, 200)
    assert master_store.max_log_offset > 3 * FILE_BYTES
    async with (
        our_master(master_store) as (master, address),
        apaches_slave(tmp_path / "slave", jar_set, address),
    ):
        await caught_up(master_store, master)
        put_samples(master_store, 2, 50)
        assert await replicated(master_store, master) is PutStatus.PUT_OK
        ours = file_contents(tmp_path / "master", "commitlog")
        copies = file_contents(tmp_path / "slave" / "store", "commitlog")
        assert copies.items() <= ours.items()
        assert 0 < len(copies) < len(ours)


# Messages of all sizes, larger than a piece and than what a read brings


LARGE_FILES = {**FILE_SIZES, "mappedFileSizeCommitLog": 1 << 22}
BODY_BYTES = (1, 100, 32_755, 32_768, 100_000, 262_144, 1_000_000, 2_500_000, 7, 3_000_000)


def large_store(root: Path) -> MessageStore:
    config = store_config(root, mappedFileSizeCommitLog=str(LARGE_FILES["mappedFileSizeCommitLog"]))
    return MessageStore.open(config, disk_ratio=lambda _: 0.1)


def large_samples() -> Iterator[Sample]:
    chance = random.Random(5)
    return (Sample("Busy", 0, chance.randbytes(size), {"KEYS": f"k{size}"}) for size in BODY_BYTES)


async def test_messages_of_all_sizes_pass_both_ways(tmp_path: Path, jar_set: str) -> None:
    store = large_store(tmp_path / "ours")
    async with (
        apache(tmp_path / "master", jar_set, **LARGE_FILES) as master,
        our_slave(store, ha_address(master)),
    ):
        with Conversation(master.address) as conversation:
            for sample in large_samples():
                await asyncio.to_thread(send, conversation, [sample])
        await until(lambda: store.max_log_offset == log_end(master))
    assert different_files(tmp_path / "master" / "store", tmp_path / "ours", ("commitlog",)) == []
    store.restore_queue_offsets()  # a slave becomes a master
    async with our_master(store) as (sender, address):
        settings = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": address}
        async with apache(tmp_path / "slave", jar_set, **LARGE_FILES, **settings) as slave:
            await asyncio.to_thread(name_the_master, slave, jar_set, address)
            await caught_up(store, sender)
            for sample in large_samples():
                assert store.put(pending(sample)).status is PutStatus.PUT_OK
            assert await replicated(store, sender) is PutStatus.PUT_OK
            ours = file_contents(tmp_path / "ours", "commitlog")
            copies = file_contents(tmp_path / "slave" / "store", "commitlog")
            assert len(copies) > 1
            assert copies.items() <= ours.items()
    store.close()
