"""A slave becomes a master by its configuration, and a master a slave: nothing is lost, no offset is used twice."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from hanabi.broker.broker import Broker
from hanabi.testing.cluster import small_store
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.message.record import decode_records
from tests.broker.replica.masters import TOPIC, send, start_send
from tests.broker.replica.pairs import running_master, running_name_server, running_slave, synced
from tests.broker.talk import connected

QUEUE = 1
LEVELS = "1s 2s"
LATER = "DELAY\x011\x02WAIT\x01true"


async def equal_logs(one: Broker, other: Broker) -> None:
    await eventually(lambda: one.store.max_log_offset == other.store.max_log_offset, "both logs are equally long")
    start = max(one.store.min_log_offset, other.store.min_log_offset)
    assert log_from(one, start) == log_from(other, start)


def log_from(broker: Broker, start: int) -> bytes:
    data = b""
    while piece := broker.store.read_log(start + len(data)):
        data += bytes(piece)
    return data


def bodies(broker: Broker) -> list[bytes]:
    """Return all messages of the queue that are left."""
    reader, found = broker.store.reader, []
    offset, end = reader.min_offset(TOPIC, QUEUE), reader.max_offset(TOPIC, QUEUE)
    while offset < end:
        result = broker.store.get(TOPIC, QUEUE, offset, 32)
        found += [record.body for piece in result.slices for record in decode_records(piece)]
        offset = result.next_offset
    return found


async def send_some(broker: Broker, *texts: bytes, properties: str = "WAIT\x01true") -> list[int]:
    """Send messages and return their offsets in the queue."""
    async with connected(broker.bound) as peer:
        replies = await asyncio.gather(*(start_send(peer, text, properties) for text in texts))
    assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
    return [int(reply.fields()["queueOffset"]) for reply in replies]


async def commit(broker: Broker, offset: int) -> None:
    words = {"consumerGroup": "g", "topic": TOPIC, "queueId": str(QUEUE), "commitOffset": str(offset)}
    async with connected(broker.bound) as peer:
        reply = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, words)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


async def test_a_promoted_slave_goes_on_where_its_master_stopped_and_the_master_follows_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv:
        async with (
            running_master(first, namesrv, message_delay_levels=LEVELS) as master,
            running_slave(second, namesrv, message_delay_levels=LEVELS) as slave,
        ):
            assert await send_some(master, b"0", b"1", b"2") == [0, 1, 2]
            await send_some(master, b"3 is late", properties=LATER)
            await eventually(lambda: len(bodies(master)) == 4, "the delayed message is delivered")
            await commit(master, 2)
            await equal_logs(master, slave)
            await synced(slave)
            await send_some(master, b"4 is later", properties=LATER)  # the slave will deliver it
            await master.stop()
        async with running_master(second, namesrv, message_delay_levels=LEVELS) as promoted:
            assert promoted.tables.offsets.find("g", TOPIC, QUEUE) == 2
            offsets = await send_some(promoted, b"new", b"newer")
            await eventually(lambda: len(bodies(promoted)) == 7, "the other delayed message is delivered")
            assert sorted(bodies(promoted)) == [b"0", b"1", b"2", b"3 is late", b"4 is later", b"new", b"newer"]
            assert set(offsets) < {4, 5, 6}
            async with running_slave(first, namesrv) as demoted:
                await equal_logs(promoted, demoted)
                assert bodies(demoted) == bodies(promoted)
                assert (await refused(demoted)) == ResponseCode.SERVICE_NOT_AVAILABLE


async def refused(broker: Broker) -> int:
    async with connected(broker.bound) as peer:
        return (await send(peer)).code


async def test_a_slave_that_began_with_the_last_file_continues_the_offsets_when_it_is_promoted(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(running_name_server(tmp_path))
        files = {"commit_log_segment_bytes": 1 << 16}
        async with running_master(tmp_path / "first", namesrv, small_store(tmp_path / "first", **files)) as master:
            for number in range(300):
                assert await send_some(master, b"%d " % number * 300) == [number]
            assert master.store.max_log_offset > 3 << 16
            async with running_slave(tmp_path / "second", namesrv, small_store(tmp_path / "second", **files)) as slave:
                await equal_logs(master, slave)
                assert slave.store.min_log_offset > 0
                await eventually(lambda: slave.tables.queue_ends.is_known, "the slave can be promoted")
        store = small_store(tmp_path / "second", **files)
        promoted = await stack.enter_async_context(running_master(tmp_path / "second", namesrv, store))
        assert await send_some(promoted, b"300") == [300]
        assert bodies(promoted)[-1] == b"300"
        assert promoted.store.reader.min_offset(TOPIC, QUEUE) > 0
