"""States that do not fit: a wiped controller, a broker from the future, an id taken twice, another cluster."""

import logging
import shutil
from pathlib import Path

import pytest

from hanabi.controller.config import ControllerConfig
from hanabi.controller.controller import Controller
from hanabi.errors import ConfigError
from hanabi.replication.autoswitch.epochs import Epoch, EpochFile
from hanabi.testing.cluster import HOST, running_broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.replicas import running_replicas, side_of
from tests.broker.replica.test_controller_mode import sent

QUICK = ControllerConfig(election_wait_millis=0, scan_not_active_broker_interval=200)


def complains(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)


async def test_a_wiped_controller_gives_old_brokers_no_role_and_says_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 3)
        await replicas.stop(1)
        await replicas.stop(2)
        ended = tmp_path / "elsewhere"
        async with (
            Controller(QUICK, ended) as wiped,
            running_broker(
                tmp_path / "broker-1",
                replicas.config(controller_addr=f"{HOST}:{(await wiped.start(HOST, 0))[1]}"),
            ) as broker,
        ):
            await eventually(lambda: complains(caplog, "state is lost: restore it"), "the refusal is logged")
            assert not side_of(broker).has_role.is_set()
            assert broker.settings.is_slave
        await replicas.start(2)  # the last in sync
        await replicas.start(1)
        await replicas.in_sync(1, 2)
        await sent(replicas.namesrv, 3)


async def test_a_replica_that_is_not_in_sync_waits_for_one_that_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await replicas.stop(1)
        await replicas.in_sync(2)
        await sent(replicas.namesrv, 3)  # that 1 does not have
        await replicas.stop(2)
        async with running_broker(tmp_path / "broker-1", replicas.config()) as behind:
            await eventually(lambda: complains(caplog, "in sync were 2"), "the election is refused")
            assert not side_of(behind).has_role.is_set()
            await replicas.start(2)
            assert not replicas.brokers[2].settings.is_slave
            end = replicas.brokers[2].store.max_log_offset
            await eventually(lambda: behind.store.max_log_offset == end, "the other one follows")


async def test_a_broker_whose_epoch_was_never_given_gets_no_role(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 3)
        await replicas.same_logs()
        await replicas.stop(2)
        raise_epoch(tmp_path / "broker-2", 99)
        async with running_broker(tmp_path / "broker-2", replicas.config()) as broker:
            end = broker.store.max_log_offset
            await eventually(lambda: complains(caplog, "is of epoch 99"), "the refusal is logged")
            assert broker.settings.is_slave
            assert broker.store.max_log_offset == end
        assert not replicas.brokers[1].settings.is_slave
        await sent(replicas.namesrv, 3)


def raise_epoch(home: Path, number: int) -> None:
    """Give the last epoch of a broker that does not run another number."""
    file = EpochFile(home)
    file.use((*file.epochs[:-1], Epoch(number, file.epochs[-1].start)))


async def test_a_copied_store_does_not_take_the_id_of_a_living_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_replicas(tmp_path, 2) as replicas:
        await replicas.in_sync(1, 2)
        twin = tmp_path / "twin"
        twin.mkdir()
        shutil.copy(tmp_path / "broker-2" / "brokerIdentity", twin)
        async with running_broker(twin, replicas.config()) as broker:
            await eventually(lambda: complains(caplog, "delete brokerIdentity there"), "the refusal is logged")
            assert not side_of(broker).has_role.is_set()
        assert side_of(replicas.brokers[2]).broker_id == 2
        await replicas.in_sync(1, 2)


async def test_a_broker_name_of_another_cluster_is_refused_with_both_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running_replicas(tmp_path, 1) as replicas:
        config = replicas.config(cluster_name="Other")
        async with running_broker(tmp_path / "foreign", config) as broker:
            await eventually(
                lambda: complains(caplog, "belongs to cluster DefaultCluster here, not to Other"), "the refusal"
            )
            assert not side_of(broker).has_role.is_set()
        assert not replicas.brokers[1].settings.is_slave


async def test_a_store_of_another_name_does_not_start(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 1) as replicas:
        await replicas.stop(1)
        identity = tmp_path / "broker-1" / "brokerIdentity"
        identity.write_text("DefaultCluster#broker-z#1")
        with pytest.raises(ConfigError, match="broker-z"):
            async with running_broker(tmp_path / "broker-1", replicas.config()):
                pass
