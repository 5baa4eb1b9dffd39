"""Whole slaves beside Apache's brokers: ours of its masters, its of ours, with the tables that they copy, and consumers
that read from a slave when its master is gone."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST
from hanabi.wire.bodies.groups import SubscriptionGroupTable
from hanabi.wire.bodies.offsets import ConsumerOffsetTable, decode_timer_checkpoint
from hanabi.wire.bodies.topics import TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from tests.interop.apache import TIMERS, ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.mixed_members import GROUP, TOPIC, JavaMember, PythonMember
from tests.interop.ours import OurBroker
from tests.interop.probe import Conversation, ask
from tests.interop.processes import free_port
from tests.interop.store_files import file_contents, store_config
from tests.interop.store_messages import FILE_SIZES, samples, send

pytestmark = [pytest.mark.usefixtures("apache_jars")]
both_versions = pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5])

NAME, CLUSTER = "broker-a", "DefaultCluster"
WAIT_SECONDS = 120.0
NEVER_BUSY = {"waitTimeMillsInSendQueue": 60_000, "osPageCacheBusyTimeOutMills": 60_000}


async def until(true: Callable[[], bool]) -> None:
    """Wait until *true* says so, in a thread."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await asyncio.to_thread(true):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def name_server(home: Path) -> AsyncIterator[str]:
    async with NameServer(NamesrvConfig(), home / "namesrv") as server:
        yield format_address(await server.start(HOST, 0))


@contextlib.asynccontextmanager
async def apache(home: Path, jar_set: str, namesrv: str, **settings: object) -> AsyncIterator[ApacheBroker]:
    chosen = {**FILE_SIZES, **NEVER_BUSY, "brokerIP2": HOST, **settings}
    broker = ApacheBroker(home, jar_set, name=NAME, cluster=CLUSTER, namesrv=namesrv, settings=chosen)
    try:
        await asyncio.to_thread(broker.wait_ready)
        yield broker
    finally:
        broker.process.kill()


@contextlib.asynccontextmanager
async def ours(home: Path, namesrv: str, **settings: object) -> AsyncIterator[Broker]:
    config = BrokerConfig(broker_name=NAME, cluster_name=CLUSTER, namesrv_addr=namesrv, **settings)  # type: ignore[arg-type]
    async with Broker(config, store_config(home)) as broker:
        await broker.start(HOST, free_port(beside=(-2, 1)))
        await broker.registration.until_registered()
        yield broker


def our_slave(home: Path, namesrv: str) -> contextlib.AbstractAsyncContextManager[Broker]:
    return ours(home, namesrv, broker_role="SLAVE", broker_id=1)


def send_samples(address: str, seed: int, count: int) -> None:
    with Conversation(address) as conversation:
        for batch in samples(seed, count):
            send(conversation, batch)


def topics_of(address: str) -> TopicConfigTable:
    return decode_body(bytes(ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body), TopicConfigTable)


def groups_of(address: str) -> SubscriptionGroupTable:
    reply = ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return decode_body(bytes(reply.body), SubscriptionGroupTable)


def offsets_of(address: str) -> dict[str, dict[int, int]]:
    reply = ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
    return decode_body(bytes(reply.body), ConsumerOffsetTable).offset_table


def make_group_and_commit(address: str, group: str, offset: int) -> None:
    made = ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"%b"}' % group.encode())
    assert made.code == ResponseCode.SUCCESS, made.remark
    words = {"consumerGroup": group, "topic": "Busy", "queueId": "0", "commitOffset": str(offset)}
    assert ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, words).code == ResponseCode.SUCCESS


def log_end(address: str) -> int:
    answer = ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return int(json.loads(answer.body)["table"]["commitLogMaxOffset"]) if answer.code == ResponseCode.SUCCESS else -1


def same_tables(one: str, other: str) -> bool:
    """Return whether two brokers have the same topics, groups and offsets; 5.x also writes empty fields of its own."""

    def tables(address: str) -> tuple[object, ...]:
        topics, groups = topics_of(address).topic_config_table, groups_of(address).subscription_group_table
        plain = {"attributes": None}
        return (
            {name: msgspec.structs.replace(topic, **plain) for name, topic in topics.items()},
            {name: msgspec.structs.replace(group, group_retry_policy=None, **plain) for name, group in groups.items()},
            offsets_of(address),
        )

    return tables(one) == tables(other)


@both_versions
async def test_our_slave_has_the_log_and_the_tables_of_apaches_master(tmp_path: Path, jar_set: str) -> None:
    timers = TIMERS if jar_set == ALL_5 else {}
    async with (
        name_server(tmp_path) as namesrv,
        apache(tmp_path / "master", jar_set, namesrv, **timers) as master,
        our_slave(tmp_path / "slave", namesrv) as slave,
    ):
        await asyncio.to_thread(send_samples, master.address, 1, 300)
        await asyncio.to_thread(make_group_and_commit, master.address, "billing", 7)
        await until(lambda: slave.store.max_log_offset == log_end(master.address))
        await until(lambda: same_tables(master.address, slave.address))
        master_version = (await asyncio.to_thread(topics_of, master.address)).data_version
        assert slave.tables.topics.data_version == master_version
        side = slave.slave_side
        assert side is not None
        assert await side.sync.copy(master.address)
        if jar_set == ALL_5:
            await asyncio.to_thread(expect_a_timer_checkpoint, slave.address)
        assert slave.store.min_log_offset == 0
        slave.store.flush()
        logs = [file_contents(root, "commitlog") for root in (tmp_path / "master" / "store", tmp_path / "slave")]
        assert logs[0] == logs[1]


def expect_a_timer_checkpoint(address: str) -> None:
    reply = ask(address, RequestCode.GET_TIMER_CHECK_POINT)
    assert decode_timer_checkpoint(bytes(reply.body)).read_ms > 0


@both_versions
async def test_apaches_slave_has_the_log_and_the_tables_of_our_master(tmp_path: Path, jar_set: str) -> None:
    """4.9 copies the tables every 10 s, 5.3.3 after a minute, and the timer's checkpoint every 3 s."""
    timers = TIMERS if jar_set == ALL_5 else {}
    async with (
        name_server(tmp_path) as namesrv,
        ours(tmp_path / "master", namesrv) as master,
        apache(tmp_path / "slave", jar_set, namesrv, brokerRole="SLAVE", brokerId=1, **timers) as slave,
    ):
        await asyncio.to_thread(send_samples, master.address, 1, 300)
        await asyncio.to_thread(make_group_and_commit, master.address, "billing", 7)
        await until(lambda: log_end(slave.address) == master.store.max_log_offset)
        await until(lambda: same_tables(master.address, slave.address))
        assert [line for line in slave.logged() if "ync" in line and "Exception, 127" in line] == []


@pytest.mark.parametrize(
    ("master_kind", "client"),
    [("ours", "java-4"), ("ours", "java-5"), ("ours", "python"), (SERVERS_4, "python"), (ALL_5, "java-5")],
)
async def test_consumers_read_from_our_slave_and_commit_there_when_the_master_was_killed(
    tmp_path: Path, master_kind: str, client: str
) -> None:
    async with name_server(tmp_path) as namesrv:
        master = started_master(tmp_path / "master", master_kind, namesrv)
        async with our_slave(tmp_path / "slave", namesrv) as slave:
            try:
                await asyncio.to_thread(master.wait_ready)
                await asyncio.to_thread(send_numbers, master.address, 40)
                await until(lambda: slave.store.max_log_offset == log_end(master.address))
                await until(lambda: TOPIC in topics_of(slave.address).topic_config_table)
            finally:
                master.process.kill()
            if client == "python":
                member: PythonMember | JavaMember = PythonMember("p", namesrv)
            else:
                member = JavaMember("j", namesrv, tmp_path, SERVERS_4 if client == "java-4" else ALL_5)
            await member.join()
            try:
                await until(lambda: sorted(map(int, set(member.got))) == list(range(40)))
                await until(lambda: committed(slave.address) == 40)
            finally:
                await member.leave()


def started_master(home: Path, kind: str, namesrv: str) -> ApacheBroker | OurBroker:
    settings = {"brokerClusterName": CLUSTER, **FILE_SIZES, **NEVER_BUSY, "brokerIP2": HOST}
    if kind == "ours":
        return OurBroker(home, name=NAME, namesrv=namesrv, settings=settings)
    return ApacheBroker(home, kind, name=NAME, cluster=CLUSTER, namesrv=namesrv, settings=settings)


def send_numbers(address: str, count: int) -> None:
    with Conversation(address) as conversation:
        for number in range(count):
            values = ("p", TOPIC, "TBW102", "4", str(number % 4), "0", "1", "0", "")
            fields = dict(zip("abcdefghi", values, strict=True))
            assert conversation.ask(RequestCode.SEND_MESSAGE_V2, fields, b"%d" % number).code == ResponseCode.SUCCESS


def committed(address: str) -> int:
    return sum(offsets_of(address).get(f"{TOPIC}@{GROUP}", {}).values())
