"""The stores of the controller's state: the file, and real etcd."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.controller.storage.etcd_client import EtcdClient, parse_endpoints
from hanabi.controller.storage.etcd_store import EtcdStore
from hanabi.controller.storage.file_store import FileStore
from hanabi.controller.storage.store import ABSENT, StateStore
from hanabi.errors import ConfigError, ControllerNotLeader, StateUnavailable, StoreDamaged
from hanabi.testing.waiting import eventually
from tests.controller.rules.brokers import broker_set
from tests.controller.storage.etcd_process import Etcd, etcd_cluster, need_etcd, state_url


@pytest.fixture
def etcd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Etcd]]:
    need_etcd()
    with ExitStack() as stack:
        members = etcd_cluster(tmp_path / "etcd", getattr(request, "param", 1))
        for member in members:
            stack.callback(member.kill)
        yield members


def etcd_store(members: list[Etcd], home: Path) -> EtcdStore:
    return EtcdStore(EtcdClient(parse_endpoints(state_url(members))), home, lease_seconds=2)


async def check_compare_and_set(store: StateStore) -> None:
    await store.open("127.0.0.1:1")
    assert store.leads
    first, second = broker_set(1), broker_set(1, 2)
    assert await store.write("a", ABSENT, first)
    stored = await store.read("a")
    assert stored is not None
    assert stored.state == first
    assert not await store.write("a", ABSENT, second)
    assert not await store.write("a", stored.revision + 1, second)
    assert await store.write("a", stored.revision, second)
    assert not await store.write("a", stored.revision, first)
    (present,) = await store.read_all()
    assert present.state == second
    assert await store.write("a", present.revision, None)
    assert await store.read("a") is None
    assert await store.write("a", ABSENT, second)
    await store.close()
    assert not store.leads


async def test_a_file_compares_and_sets_and_is_there_after_a_restart(tmp_path: Path) -> None:
    await check_compare_and_set(FileStore(tmp_path))
    again = FileStore(tmp_path)
    await again.open("127.0.0.1:1")
    stored = await again.read("a")
    assert stored is not None
    assert stored.state == broker_set(1, 2)


async def test_a_damaged_file_is_an_error_and_no_empty_state(tmp_path: Path) -> None:
    (tmp_path / "brokers.json").write_text('{"sets": {"a": [')
    with pytest.raises(StoreDamaged, match=r"brokers\.json"):
        await FileStore(tmp_path).open("127.0.0.1:1")


async def test_etcd_compares_and_sets_and_is_there_after_a_restart(tmp_path: Path, etcd: list[Etcd]) -> None:
    await check_compare_and_set(etcd_store(etcd, tmp_path / "home"))
    etcd[0].process.kill()
    etcd[0].start()
    etcd[0].wait_ready()
    again = etcd_store(etcd, tmp_path / "home")
    await again.open("127.0.0.1:1")
    stored = await again.read("a")
    assert stored is not None
    assert stored.state == broker_set(1, 2)
    await again.close()


async def test_one_of_two_controllers_leads_and_the_other_follows_it(tmp_path: Path, etcd: list[Etcd]) -> None:
    one, two = etcd_store(etcd, tmp_path / "1"), etcd_store(etcd, tmp_path / "2")
    await one.open("127.0.0.1:1")
    await two.open("127.0.0.1:2")
    assert (one.leads, two.leads) == (True, False)
    assert two.leader is not None
    assert two.leader.address == "127.0.0.1:1"
    assert [member.address for member in sorted(two.members, key=lambda member: member.address)] == [
        "127.0.0.1:1",
        "127.0.0.1:2",
    ]
    with pytest.raises(ControllerNotLeader):
        await two.write("a", ABSENT, broker_set(1))
    await one.close()
    await eventually(lambda: two.leads)
    assert await two.write("a", ABSENT, broker_set(1))
    with pytest.raises(ControllerNotLeader):  # as after a pause that was longer than its lease
        await one.write("a", ABSENT, broker_set(1))
    await two.close()


@pytest.mark.parametrize("etcd", [3], indirect=True)
async def test_a_minority_of_etcd_may_be_gone_and_without_a_quorum_nothing_changes(
    tmp_path: Path, etcd: list[Etcd]
) -> None:
    store = etcd_store(etcd, tmp_path / "home")
    await store.open("127.0.0.1:1")
    etcd[0].process.kill()
    await eventually(lambda: store.leads)
    assert await _written_in_the_end(store)
    etcd[1].process.kill()
    with pytest.raises(StateUnavailable, match="quorum"):
        await store.read("a")
    await eventually(lambda: not store.leads)
    etcd[1].start()
    await eventually(lambda: store.leads)
    assert await store.read("a") is not None
    await store.close()


async def _written_in_the_end(store: EtcdStore) -> bool:
    """Write while etcd elects its own leader."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.write("a", ABSENT, broker_set(1)) or await store.read("a") is not None
            except (StateUnavailable, ControllerNotLeader):
                await asyncio.sleep(0.1)


async def test_a_wiped_etcd_is_noticed_by_a_running_and_by_a_starting_controller(
    tmp_path: Path, etcd: list[Etcd]
) -> None:
    store = etcd_store(etcd, tmp_path / "home")
    await store.open("127.0.0.1:1")
    client = EtcdClient(parse_endpoints(state_url(etcd)))
    await client.call("/v3/kv/deleterange", {"key": "AA==", "range_end": "AA=="})  # an operator's accident
    await eventually(lambda: not store.leads)
    with pytest.raises(ControllerNotLeader):
        await store.write("a", ABSENT, broker_set(1))
    await store.close()
    with pytest.raises(ConfigError, match="restore its data"):
        await etcd_store(etcd, tmp_path / "home").open("127.0.0.1:1")


async def test_an_unreachable_etcd_is_named(tmp_path: Path) -> None:
    store = EtcdStore(EtcdClient([("127.0.0.1", 9)]), tmp_path)
    with pytest.raises(StateUnavailable, match=r"127\.0\.0\.1:9"):
        await store.open("127.0.0.1:1")
    with pytest.raises(ConfigError, match="etcd://"):
        parse_endpoints("http://h:1")


async def test_a_paused_etcd_ends_leadership_before_its_lease_could_be_taken(tmp_path: Path, etcd: list[Etcd]) -> None:
    store = etcd_store(etcd, tmp_path / "home")
    await store.open("127.0.0.1:1")
    etcd[0].process.send_signal(signal.SIGSTOP)
    try:
        await eventually(lambda: not store.leads)
    finally:
        etcd[0].process.send_signal(signal.SIGCONT)
    await eventually(lambda: store.leads)
    await store.close()
