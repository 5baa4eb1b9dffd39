"""Tests of what may go wrong with a whole slave: one line, a count, nothing corrupted, and it goes on when it can."""

from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.errors import ConfigError
from hanabi.store.message_store import MessageStore
from hanabi.testing.cluster import small_store
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.pairs import (
    running_master,
    running_name_server,
    running_pair,
    running_slave,
    side_of,
    slave_config,
)
from tests.store.stores import copy_as_after_a_kill, message, read_queue

TOPIC = "T"


def put(store: MessageStore, count: int, body: bytes = b"x" * 1_000) -> None:
    for _ in range(count):
        assert store.put(message(body)).reason == ""


async def caught_up(slave: Broker, master: Broker) -> None:
    await eventually(lambda: slave.store.max_log_offset == master.store.max_log_offset, "the slave has the whole log")


async def test_a_slave_that_was_killed_with_a_torn_tail_goes_on_at_its_last_whole_message(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        put(pair.master.store, 20)
        await pair.caught_up()
        killed = copy_as_after_a_kill(pair.slave.store, tmp_path / "killed")
        log = killed / "commitlog" / ("0" * 20)
        with log.open("r+b") as file:  # the last message lacks its end
            file.seek(pair.master.store.max_log_offset - 300)
            file.write(bytes(300))
        put(pair.master.store, 20)
        async with running_slave(killed, pair.namesrv, broker_id=2) as again:
            await caught_up(again, pair.master)
            assert read_queue(again.store) == read_queue(pair.master.store)


async def test_an_empty_slave_begins_with_the_masters_last_file_and_its_queues_where_that_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_name_server(tmp_path) as namesrv, running_master(tmp_path / "master", namesrv) as master:
        await create_topic(master, TOPIC, queues=1)
        put(master.store, 2_500)  # in files of a mebibyte
        async with running_slave(tmp_path / "slave", namesrv) as slave:
            await caught_up(slave, master)
            file_bytes = 1 << 20
            assert slave.store.min_log_offset == master.store.max_log_offset // file_bytes * file_bytes > 0
            low, high = slave.store.reader.min_offset(TOPIC, 0), slave.store.reader.max_offset(TOPIC, 0)
            assert 0 < low < high == 2_500
            assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_log_of_another_master_is_refused_with_one_line_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_name_server(tmp_path) as namesrv:
        async with (
            running_master(tmp_path / "other", namesrv) as master,
            running_slave(tmp_path / "slave", namesrv) as slave,
        ):
            await eventually(lambda: side_of(slave).is_connected, "the slave is connected")
            put(master.store, 7, b"another log")
            await caught_up(slave, master)
            before = read_queue(slave.store)
        async with (
            running_master(tmp_path / "master", namesrv) as master,
            running_slave(tmp_path / "slave", namesrv, reconnect_interval_ms=50) as slave,
        ):
            put(master.store, 100)
            refusals = side_of(slave).slave.refusals
            await eventually(lambda: refusals.total() >= 3, "it was refused several times")
            assert "is not followed" in side_of(slave).slave.state().trouble
            assert read_queue(slave.store) == before
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1


async def test_a_commit_log_of_another_file_size_is_refused_and_nothing_is_corrupted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_name_server(tmp_path) as namesrv:
        larger = small_store(tmp_path / "master", commit_log_segment_bytes=3 << 20)
        async with (
            running_master(tmp_path / "master", namesrv, larger) as master,
            running_slave(tmp_path / "slave", namesrv, reconnect_interval_ms=50) as slave,
        ):
            await eventually(lambda: side_of(slave).is_connected, "the slave is connected")
            put(master.store, 2_000)
            refusals = side_of(slave).slave.refusals
            await eventually(lambda: refusals.total() >= 3, "it was refused several times")
            held = read_queue(slave.store)
            assert held == read_queue(master.store)[: len(held)]
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1
    assert "mappedFileSizeCommitLog" in "".join(caplog.messages)


async def test_two_slaves_with_one_id_are_told_of_each_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pair(tmp_path) as pair, running_slave(tmp_path / "twin", pair.namesrv):
        assert [line for line in caplog.messages if "another broker named broker-a with id 1 is registered" in line]


async def test_a_slave_finds_a_master_that_comes_later_and_one_that_moved(tmp_path: Path) -> None:
    async with running_name_server(tmp_path) as namesrv, running_slave(tmp_path / "slave", namesrv) as slave:
        side = side_of(slave)
        assert side.summary() == "slave 1, no master yet"
        for _ in range(2):  # each time at another port
            async with running_master(tmp_path / "master", namesrv) as master:
                slave.registration.ask_again()
                await eventually(lambda: side.is_connected, "the slave is connected")
                assert side.sync.master == master.address
                put(master.store, 5)
                await caught_up(slave, master)
            await eventually(lambda: side.sync.master is None, "the master has left")
            assert side.slave.state().master_address is not None  # the last one is kept


def test_a_slave_without_an_id_or_with_a_wrong_address_does_not_start(tmp_path: Path) -> None:
    for wrong in ({"broker_id": 0}, {"ha_master_address": "nowhere"}):
        with pytest.raises(ConfigError, match=r"brokerId|haMasterAddress"):
            Broker(slave_config("", **wrong), small_store(tmp_path))


async def test_a_full_disk_of_the_slave_is_one_line_and_it_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(24_576))
    store = small_store(tmp_path / "slave", commit_log_dir=str(small_disk / "commitlog"))
    async with running_name_server(tmp_path) as namesrv, running_master(tmp_path / "master", namesrv) as master:
        await create_topic(master, TOPIC, queues=1)
        put(master.store, 1)
        async with running_slave(tmp_path / "slave", namesrv, store, reconnect_interval_ms=50) as slave:
            await caught_up(slave, master)
            put(master.store, 45)
            refusals = side_of(slave).slave.refusals
            await eventually(lambda: refusals.total() >= 3, "it was refused several times")
            assert "cannot be stored" in side_of(slave).slave.state().trouble
            held = read_queue(slave.store)
            assert held == read_queue(master.store)[: len(held)]
            ballast.unlink()
            await caught_up(slave, master)
            assert read_queue(slave.store) == read_queue(master.store)
    assert len([line for line in caplog.messages if "is not followed" in line]) == 1
