"""A broker that dies after any step of its registration with the controller has the same id when it is back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.replica.broker_identity import APPLICATION, IDENTITY, IdentityFiles
from hanabi.broker.replica.controller_requests import ControllerRequests
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import NAME
from tests.broker.replica.replicas import Replicas, running_replicas, side_of

CLUSTER = "DefaultCluster"
CODE = "127.0.0.1:1;1"


@asynccontextmanager
async def dead_after(step: int, replicas: Replicas, number: int) -> AsyncIterator[None]:
    """Leave what a broker leaves that dies after this step of its registration."""
    home = replicas.home / f"broker-{number}"
    home.mkdir()
    connector = Connector()
    try:
        requests = ControllerRequests(connector, [replicas.controller], CLUSTER, NAME)
        files = IdentityFiles(home, CLUSTER, NAME)
        wanted = await requests.next_id()
        if step >= 1:
            files.apply(wanted, CODE)
        if step >= 2:
            assert await requests.apply_id(wanted, CODE)
        if step >= 3:
            files.confirm()
        yield
    finally:
        await connector.close()


@pytest.mark.parametrize("step", [0, 1, 2, 3])
async def test_a_broker_that_dies_while_it_takes_an_id_gets_that_id(step: int, tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 1) as replicas:
        async with dead_after(step, replicas, 2):
            broker = await replicas.start(2)
        assert side_of(broker).broker_id == 2
        assert (tmp_path / "broker-2" / IDENTITY).read_text() == f"{CLUSTER}#{NAME}#2"
        assert not (tmp_path / "broker-2" / APPLICATION).exists()
        await replicas.in_sync(1, 2)


async def test_an_id_that_another_broker_took_meanwhile_is_given_up_for_the_next_one(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 1) as replicas, dead_after(1, replicas, 2):
        assert side_of(await replicas.start(3)).broker_id == 2
        assert side_of(await replicas.start(2)).broker_id == 3


async def test_a_broker_that_moves_keeps_its_id_and_is_found_at_its_new_address(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        old = replicas.brokers[2].address
        await replicas.stop(2)
        broker = await replicas.start(2)
        assert side_of(broker).broker_id == 2
        assert broker.address != old
        await replicas.in_sync(1, 2)
        await replicas.stop(1)
        await eventually(lambda: not broker.settings.is_slave, "the moved broker takes over")
