"""The whole controller, with real connections: one with a file, two with etcd, killed and started again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from hanabi.wire.codes import RequestCode
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.v5 import controller as headers
from tests.controller.controllers import ControllerProcess
from tests.controller.fake_broker import FakeBroker
from tests.controller.storage.etcd_process import etcd_cluster, need_etcd, state_url

T = TypeVar("T")


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerProcess]:
    running = ControllerProcess(tmp_path / "controller", settings={"electionWaitMillis": 0})
    yield running
    running.process.kill()


async def info(broker: FakeBroker) -> headers.GetReplicaInfoReplyHeader:
    header = headers.GetReplicaInfoHeader(broker_name="broker-a")
    return (await broker.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)).header(headers.GetReplicaInfoReplyHeader)


async def until(ask: Callable[[], Awaitable[T]], fits: Callable[[T], bool]) -> T:
    """Ask again and again; return the first answer that fits."""
    for _ in range(3000):
        if fits(found := await ask()):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"the last answer was {found}")


async def pair(address: str) -> tuple[FakeBroker, FakeBroker]:
    """A master of epoch 1 and a slave in sync."""
    one, two = FakeBroker(address, "h1:1"), FakeBroker(address, "h2:1")
    await one.join()
    assert (await one.elect()).code == 0
    assert (await two.join()).master_broker_id == 1
    assert (await one.alter([1, 2], master_epoch=1, sync_epoch=1)).code == 0
    return one, two


async def test_a_lost_connection_of_the_master_elects_its_successor_at_once(controller: ControllerProcess) -> None:
    one, two = await pair(controller.address)
    await one.close()
    found = await until(lambda: info(two), lambda seen: seen.master_broker_id == 2)
    assert (found.master_address, found.master_epoch) == ("h2:1", 2)
    await two.close()


async def test_a_controller_killed_and_started_again_keeps_ids_epochs_and_the_set(
    controller: ControllerProcess,
) -> None:
    one, two = await pair(controller.address)
    controller.process.kill()
    await asyncio.to_thread(controller.start_again)
    found = await info(two)
    assert (found.master_broker_id, found.master_epoch) == (1, 1)
    three = FakeBroker(controller.address, "h3:1")
    await three.join()
    assert three.broker_id == 3
    for broker in (one, two, three):
        await broker.close()


async def test_of_two_controllers_only_the_leader_answers_and_the_other_takes_over(tmp_path: Path) -> None:
    need_etcd()
    with ExitStack() as stack:
        members = await asyncio.to_thread(etcd_cluster, tmp_path / "etcd", 1)
        stack.callback(members[0].kill)
        settings: dict[str, object] = {"electionWaitMillis": 0}
        state = ("--state", state_url(members))
        first = await asyncio.to_thread(ControllerProcess, tmp_path / "1", *state, settings=settings)
        stack.callback(first.process.kill)
        second = await asyncio.to_thread(ControllerProcess, tmp_path / "2", *state, settings=settings)
        stack.callback(second.process.kill)
        one, two = await pair(first.address)
        standby = FakeBroker(second.address, "h2:1")
        standby.broker_id = 2
        asked = headers.GetReplicaInfoHeader(broker_name="broker-a")
        refusal = await standby.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, asked)
        assert (refusal.code, first.address in (refusal.remark or "")) == (2007, True)
        metadata = (await standby.ask(RequestCode.CONTROLLER_GET_METADATA_INFO, NoHeader())).header(
            headers.GetControllerMetadataReplyHeader
        )
        assert (metadata.controller_leader_address, metadata.is_leader) == (first.address, False)

        first.process.kill()
        await until(lambda: standby.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, asked), lambda reply: reply.code == 0)
        found = await info(standby)
        assert (found.master_broker_id, found.master_epoch) == (1, 1)
        for broker in (one, two, standby):
            await broker.close()
