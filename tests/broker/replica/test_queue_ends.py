"""A slave that joined late is promoted: no queue uses offsets of its old master again, or the start is refused."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.errors import ConfigError
from hanabi.store.config import StoreConfig
from hanabi.testing.cluster import small_store
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.replica.pairs import running_master, running_name_server, running_pair, running_slave
from tests.broker.talk import connected

OLD, BUSY = "Old", "Busy"
FILE_BYTES = 1 << 16


def store(home: Path) -> StoreConfig:
    return small_store(home, commit_log_segment_bytes=FILE_BYTES)


async def send(broker: Broker, topic: str, *bodies: bytes, queue: int = 1) -> list[int]:
    values = ("p", topic, "TBW102", "4", str(queue), "0", "1", "0", "")
    fields = dict(zip("abcdefghi", values, strict=True))
    async with connected(broker.bound) as peer:
        replies = await asyncio.gather(*(peer.start(RequestCode.SEND_MESSAGE_V2, fields, body) for body in bodies))
    assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
    return [int(reply.fields()["queueOffset"]) for reply in replies]


async def with_old_messages(master: Broker) -> None:
    """Put 7 messages of one queue into the first file of the log, and others into later files."""
    await create_topic(master, OLD, queues=4)
    await send(master, OLD, *(b"%d" % number for number in range(7)))
    while master.store.max_log_offset < 2 * FILE_BYTES + 1000:
        await send(master, BUSY, bytes(4000))


async def test_queues_without_a_copied_message_go_on_where_the_masters_ended(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv:
        async with running_master(first, namesrv, store(first)) as master:
            await with_old_messages(master)
            async with running_slave(second, namesrv, store(second)) as slave:
                await eventually(lambda: slave.tables.queue_ends.is_known, "the ends of the queues are known")
                assert slave.store.min_log_offset > 0
                assert not slave.store.has_messages(OLD, 1)
        async with running_master(second, namesrv, store(second)) as promoted:
            assert promoted.store.reader.min_offset(OLD, 1) == promoted.store.reader.max_offset(OLD, 1) == 7
            shutil.copytree(second, tmp_path / "killed")  # as a kill leaves it
        async with running_master(tmp_path / "killed", namesrv, store(tmp_path / "killed")) as recovered:
            assert await send(recovered, OLD, b"new") == [7]
        async with running_master(second, namesrv, store(second)) as promoted:  # a restart keeps it
            assert promoted.store.reader.max_offset(OLD, 1) == 7
            assert await send(promoted, OLD, b"new", b"newer") == [7, 8]
            assert await send(promoted, OLD, b"first", queue=0) == [0]
            assert promoted.store.get(OLD, 1, 7, 32).next_offset == 9


async def test_a_slave_that_never_asked_for_the_ends_is_not_promoted_unless_the_operator_says_so(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv:
        async with running_master(first, namesrv, store(first)) as master:
            await with_old_messages(master)
            address = f"127.0.0.1:{master.settings.broker.ha_listen_port}"
            # No name server: the slave gets the log, and no table.
            async with running_slave(second, "127.0.0.1:1", store(second), ha_master_address=address) as slave:
                await eventually(
                    lambda: slave.store.max_log_offset == master.store.max_log_offset, "the slave has the log"
                )
        with pytest.raises(ConfigError, match=r"use offsets twice.*delete .*replica\.json"):
            async with running_master(second, namesrv, store(second)):
                pass
        (second / "config" / "replica.json").unlink()
        async with running_master(second, namesrv, store(second)) as promoted:
            assert await send(promoted, OLD, b"again") == [0]


async def test_a_slave_that_has_the_log_from_its_beginning_is_promoted_at_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv:
        async with running_master(first, namesrv, store(first)) as master:
            address = f"127.0.0.1:{master.settings.broker.ha_listen_port}"
            async with running_slave(second, "127.0.0.1:1", store(second), ha_master_address=address) as slave:
                await send(master, OLD, b"0", b"1")
                await eventually(
                    lambda: slave.store.max_log_offset == master.store.max_log_offset, "the slave has the log"
                )
        async with running_master(second, namesrv, store(second)) as promoted:
            assert await send(promoted, OLD, b"2") == [2]
        assert not (second / "config" / "replica.json").exists()


async def test_a_copy_that_begins_again_asks_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv, running_master(first, namesrv, store(first)) as master:
        record = second / "config" / "replica.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"isKnown": True, "ends": {OLD: {"1": 3}}}))  # the store was emptied since
        await with_old_messages(master)
        async with running_slave(second, namesrv, store(second)) as slave:
            await eventually(lambda: slave.tables.queue_ends.is_known, "the ends of the queues are known")
            assert json.loads(record.read_text())["ends"][OLD] == {"1": 7}


async def test_a_topic_of_the_last_moment_has_its_settings_on_the_slave_at_once(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await eventually(lambda: pair.side.sync.rounds, "the tables are copied")
        await create_topic(pair.master, "Late", queues=13)
        await send(pair.master, "Late", b"one", queue=9)
        await eventually(lambda: "Late" in pair.slave.tables.topics, "the topic is copied out of turn", seconds=5)
        found = pair.slave.tables.topics.find("Late")
        assert found is not None
        assert found.write_queue_nums == 13
