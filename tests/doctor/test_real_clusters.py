"""A diagnosis of real clusters, each made ill in one way."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from hanabi import aio
from hanabi.admin import Admin, GroupChange, TopicChange
from hanabi.broker.addresses import local_address
from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.broker.steady_clock import SteadyClock
from hanabi.client.config import ClientConfig
from hanabi.doctor import Diagnosis, examine
from hanabi.errors import ConnectError
from hanabi.message import Message, StoredMessage
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.testing.cluster import HOST, running_broker, running_cluster, small_store
from hanabi.testing.waiting import eventually, within
from tests.broker.replica.pairs import running_master, running_name_server, running_pair, running_slave
from tests.interop.processes import ServerProcess

BROKER = BrokerConfig(broker_name="broker-a")


async def diagnosis(config: ClientConfig | str, seconds: float = 0.05) -> Diagnosis:
    options = config if isinstance(config, ClientConfig) else ClientConfig(namesrv=config)
    async with Admin(options) as admin:
        return await within(examine(admin, seconds=seconds))


def rules(found: Diagnosis) -> list[tuple[str, str, str]]:
    return [(finding.severity.value, finding.rule, finding.subject) for finding in found.findings]


async def take(_: list[StoredMessage]) -> None:
    pass


def consumer(namesrv: str, group: str, topic: str, tags: str = "*") -> aio.PushConsumer:
    made = aio.PushConsumer(group, namesrv=namesrv, consume_from="first")
    made.subscribe(topic, tags)
    made.listener(take)
    return made


async def test_a_cluster_that_works_is_well(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as running:
        await running.create_topic("Orders")
        async with consumer(running.namesrv, "billing", "Orders"), consumer(running.namesrv, "billing", "Orders"):
            found = await diagnosis(running.namesrv)
        assert found.findings == []
        assert (found.name_servers, found.brokers, found.topics, found.groups) == (1, 2, 1, 1)


async def test_an_address_that_clients_are_told_and_cannot_reach_is_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, advertised_host=HOST, advertised_port=1) as running:
        found = await diagnosis(running.namesrv)
        assert rules(found) == [("error", "broker-unreachable", "broker-a")]
        assert "127.0.0.1:1:" in found.findings[0].what
        assert "brokerIP1" in found.findings[0].todo


async def test_an_address_that_means_every_clients_own_machine_is_found(tmp_path: Path) -> None:
    outside = local_address()
    if outside == HOST:
        pytest.skip("this machine has no address but the loopback")
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(NameServer(NamesrvConfig(), tmp_path / "namesrv"))
        namesrv = format_address(await name_server.start(outside, 0))
        config = msgspec.structs.replace(BROKER, namesrv_addr=namesrv)
        broker = await stack.enter_async_context(running_broker(tmp_path / "broker", config))
        await broker.registration.until_registered()
        assert rules(await diagnosis(namesrv)) == [("error", "loopback-advertised", "broker-a")]


async def test_a_broker_that_answers_for_another_is_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as running:
        one, two = running.brokers
        mixed_up = running.config(address_map={two.address: one.address})
        assert ("error", "broker-is-another", "broker-b") in rules(await diagnosis(mixed_up))


async def test_two_brokers_of_one_name_are_found_and_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_cluster(tmp_path) as running:
        config = msgspec.structs.replace(BROKER, namesrv_addr=running.namesrv)
        async with running_broker(tmp_path / "second", config) as second:
            await second.registration.until_registered()
            found = await diagnosis(running.namesrv)
            assert rules(found) == [("error", "brokers-share-a-name", "broker-a")]
            assert running.address in found.findings[0].what
            assert second.address in found.findings[0].what
            running.broker.registration.changed()
            await running.broker.registration.settled()
            assert rules(await diagnosis(running.namesrv)) == rules(found)
        running.broker.registration.changed()
        await running.broker.registration.settled()
        assert rules(await diagnosis(running.namesrv)) == []
        said = [each.getMessage() for each in caplog.records if "another broker named" in each.getMessage()]
        assert len(said) == 2  # the newcomer and the one that was there
        assert f"it is at {running.address}, this one at {second.address}" in said[0]
        assert f"it is at {second.address}, this one at {running.address}" in said[1]
        assert any("two brokers have one name and id" in each.getMessage() for each in caplog.records)


async def test_a_broker_that_died_is_found_until_it_is_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "here") as running:
        (tmp_path / "broker.conf").write_text(f"brokerName=broker-b\nnamesrvAddr={running.namesrv}\n")
        killed = await asyncio.to_thread(broker_process, tmp_path)
        await asyncio.to_thread(killed.kill)
        found = await diagnosis(running.namesrv)
        while "broker-unreachable" in {finding.rule for finding in found.findings}:  # its connection ends soon
            found = await diagnosis(running.namesrv)
        assert rules(found) == [("error", "broker-gone", "broker-b")]
        assert "start it again" in found.findings[0].todo
        back = await asyncio.to_thread(broker_process, tmp_path)
        assert rules(await diagnosis(running.namesrv)) == []
        await asyncio.to_thread(back.stop)
        assert rules(await diagnosis(running.namesrv)) == []  # it said that it leaves


def broker_process(home: Path) -> ServerProcess:
    command = [sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(home / "broker.conf"), "--port", "0"]
    started = ServerProcess("broker-b", [*command, "--host", HOST, "--home", str(home / "data")], home / "broker-b.log")
    started.wait_for_line("ready broker ")
    return started


async def test_members_that_subscribe_differently_are_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as running:
        await running.create_topic("Orders")
        one = consumer(running.namesrv, "billing", "Orders", "created")
        two = consumer(running.namesrv, "billing", "Orders", "paid")
        async with one, two:
            found = await diagnosis(running.namesrv)
        assert rules(found) == [("error", "subscriptions-differ", "billing")]
        assert "created" in found.findings[0].what
        assert "paid" in found.findings[0].what


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 16 MiB of which 15 are taken."""
    mount = tmp_path / "full"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(mount)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        (mount / "filler").write_bytes(bytes(15 << 20))
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


async def test_a_full_disk_is_found(full_disk: Path) -> None:
    async with running_cluster(full_disk / "home") as running:
        found = await diagnosis(running.namesrv)
        assert rules(found) == [("error", "disk-full", "broker-a")]
        assert "takes no messages" in found.findings[0].why


async def test_a_disk_over_its_own_limit_is_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, store=partial(small_store, disk_used_percent_max=10)) as running:
        async with Admin(namesrv=running.namesrv) as admin:
            (broker,) = await admin.brokers.all()
        if (broker.disk_used or 0) < 0.1:
            pytest.skip("the disk here is nearly empty")
        (finding,) = (await diagnosis(running.namesrv)).findings
        assert finding.rule in ("disk-filling", "disk-full")


async def test_a_name_server_that_misses_a_broker_is_found(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path / "one") as running,
        NameServer(NamesrvConfig(), tmp_path / "two") as second,
    ):
        other = format_address(await second.start(HOST, 0))
        found = await diagnosis(f"{running.namesrv};{other}")
        assert rules(found) == [("error", "name-server-misses-broker", other)]
        assert found.findings[0].todo.startswith(f"add {other} to namesrvAddr of broker-a")


async def test_a_name_server_that_only_brokers_know_is_asked_too(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        addresses = []
        for name in ("one", "two"):
            server = await stack.enter_async_context(NameServer(NamesrvConfig(), tmp_path / name))
            addresses.append(format_address(await server.start(HOST, 0)))
        config = msgspec.structs.replace(BROKER, namesrv_addr=";".join(addresses))
        broker = await stack.enter_async_context(running_broker(tmp_path / "broker", config))
        await broker.registration.until_registered()
        found = await diagnosis(addresses[0])
        assert (found.findings, found.name_servers) == ([], 2)


async def test_a_name_server_that_is_away_is_found_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as running:
        found = await diagnosis(f"127.0.0.1:1;{running.namesrv}")
        assert rules(found) == [("error", "name-server-unreachable", "127.0.0.1:1")]
    with pytest.raises(ConnectError, match=r"no name server can be reached .* 127\.0\.0\.1:1"):
        await diagnosis("127.0.0.1:1")


async def test_a_name_server_without_brokers_is_found(tmp_path: Path) -> None:
    async with NameServer(NamesrvConfig(), tmp_path) as server:
        namesrv = format_address(await server.start(HOST, 0))
        assert rules(await diagnosis(namesrv)) == [("error", "no-brokers", namesrv)]


async def test_a_clock_that_is_an_hour_ahead_is_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, now_ms=lambda: SteadyClock()() + 3_600_000) as running:
        found = await diagnosis(running.namesrv)
        assert rules(found) == [("warning", "clock-off", "broker-a")]
        assert "3600 s ahead" in found.findings[0].what


async def test_a_group_that_nobody_attends_to_and_its_dead_letters_are_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as running, aio.Producer("p", namesrv=running.namesrv) as producer:
        await running.create_topic("Orders", queues=1)
        await running.create_topic("%DLQ%billing", queues=1)
        await producer.send(Message("Orders", b"first"))
        async with Admin(running.config()) as admin:
            await admin.groups.create("billing", GroupChange())
            await admin.offsets.skip("billing", "Orders")

        async def keep_sending() -> None:
            while True:
                await producer.send(Message("Orders", b"more"))
                await producer.send(Message("%DLQ%billing", b"dead"))
                await asyncio.sleep(0.01)

        sending = asyncio.create_task(keep_sending())
        found = await diagnosis(running.namesrv, seconds=0.3)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        assert rules(found) == [
            ("warning", "group-unattended", "billing"),
            ("warning", "dead-letters", "billing"),
        ]


async def test_an_ordered_topic_that_is_fixed_to_a_broker_that_is_gone_is_found(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ordering = NamesrvConfig(order_message_enable=True)
        server = await stack.enter_async_context(NameServer(ordering, tmp_path / "namesrv"))
        namesrv = format_address(await server.start(HOST, 0))
        config = msgspec.structs.replace(BROKER, namesrv_addr=namesrv)
        broker = await stack.enter_async_context(running_broker(tmp_path / "broker", config))
        await broker.registration.until_registered()
        admin = await stack.enter_async_context(Admin(namesrv=namesrv))
        await admin.topics.create("Fixed", order=True)
        assert rules(await diagnosis(namesrv)) == []
        await admin.name_servers.put("ORDER_TOPIC_CONFIG", "Fixed", "broker-a:8;broker-z:8")
        assert rules(await diagnosis(namesrv)) == [("error", "queues-missing", "Fixed")]


async def test_queues_that_are_never_read_and_topics_on_some_brokers_are_found(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as running,
        Admin(running.config()) as admin,
    ):
        await admin.topics.create("Unread", read_queues=2, write_queues=2)
        await admin.topics.update("Unread", TopicChange(write_queues=4))
        await running.create_topic("Some", brokers=running.brokers[:1])
        assert rules(await diagnosis(running.namesrv)) == [
            ("warning", "queues-unread", "Unread"),
            ("note", "topic-on-some", "Some"),
        ]


SYNC = {"broker_role": BrokerRole.SYNC_MASTER}


async def test_a_pair_that_works_is_well_and_a_sync_master_without_its_slave_is_found(tmp_path: Path) -> None:
    async with running_pair(tmp_path, master=SYNC) as pair:
        await pair.caught_up()
        assert rules(await diagnosis(pair.namesrv)) == []
        await pair.side.slave.stop()
        await eventually(lambda: not pair.master.master_side.acks.slaves, "the master notices")
        found = await diagnosis(pair.namesrv)
        assert rules(found) == [
            ("error", "sync-master-alone", "broker-a"),
            ("warning", "slave-not-connected", "broker-a"),
        ]


async def test_a_slave_with_other_files_or_of_another_cluster_is_found(tmp_path: Path) -> None:
    async with running_name_server(tmp_path) as namesrv, running_master(tmp_path / "master", namesrv):
        store = small_store(tmp_path / "slave", commit_log_segment_bytes=1 << 21)
        async with running_slave(tmp_path / "slave", namesrv, store, cluster_name="Other"):
            found = rules(await diagnosis(namesrv))
    assert ("error", "commit-log-files-differ", "broker-a") in found
    assert ("error", "slave-of-another-cluster", "broker-a") in found


async def test_two_slaves_with_one_id_are_found(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair, running_slave(tmp_path / "second", pair.namesrv):
        await eventually(lambda: len(pair.master.master_side.acks.slaves) == 2, "both follow")
        found = rules(await diagnosis(pair.namesrv))
        assert ("error", "brokers-share-a-name", "broker-a") in found
        assert ("warning", "slave-not-registered", "broker-a") in found
