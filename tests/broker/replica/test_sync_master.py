"""A whole broker as SYNC_MASTER: which status a send gets, and when."""

import asyncio
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.fast_path.building import is_compiled
from hanabi.broker.replica.roles import BrokerRole
from hanabi.store.config import FlushMode
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import decode_command, encode_head
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.header import header_fields
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.broker.replica.masters import (
    SEGMENT,
    fields,
    following,
    log_of,
    mute_slave,
    send,
    send_batch,
    start_send,
    sync_master,
)
from tests.broker.replica.test_far_behind import fields_of_pull
from tests.broker.talk import Peer, connected
from tests.replication.logs import MemoryLog, until

HOUR_MS = 3_600_000
OK, NO_SLAVE, TIMEOUT = ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT
HALF = "UNIQ_KEY\x017F00000100000001\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02WAIT\x01true"
both_flushes = pytest.mark.parametrize("flush", FlushMode)


async def every_kind(peer: Peer) -> list[int]:
    """Return the codes of a send, a batch, a half message, a delayed message, and one whose sender does not wait."""
    await send(peer, properties="WAIT\x01false")  # the first one of a queue is the handlers'
    replies = [
        await send(peer),
        await send_batch(peer, b"a", b"b"),
        await send(peer, properties=HALF),
        await send(peer, properties="DELAY\x0118\x02WAIT\x01true"),
        await send(peer, properties="WAIT\x01false"),
    ]
    return [reply.code for reply in replies]


def stored(broker: Broker) -> int:
    return broker.store.reader.max_offset("TopicTest", 1)


@both_flushes
async def test_without_a_slave_every_send_is_stored_and_says_so_at_once(tmp_path: Path, flush: FlushMode) -> None:
    async with sync_master(tmp_path, flush=flush, slave_timeout_ms=HOUR_MS) as broker, connected(broker.bound) as peer:
        assert await every_kind(peer) == [NO_SLAVE, NO_SLAVE, NO_SLAVE, NO_SLAVE, OK]
        assert stored(broker) == 5


@both_flushes
async def test_with_a_slave_every_send_is_acknowledged_when_it_has_it(tmp_path: Path, flush: FlushMode) -> None:
    copy = MemoryLog(file_bytes=SEGMENT)
    async with sync_master(tmp_path, flush=flush) as broker, following(broker, copy), connected(broker.bound) as peer:
        assert await every_kind(peer) == [OK, OK, OK, OK, OK]
        await until(lambda: copy.end_offset == broker.store.max_log_offset)
        assert bytes(copy.data) == log_of(broker)[: copy.end_offset]


@both_flushes
async def test_a_slave_that_says_nothing_makes_sends_time_out(tmp_path: Path, flush: FlushMode) -> None:
    async with (
        sync_master(tmp_path, flush=flush, slave_timeout_ms=50) as broker,
        mute_slave(broker),
        connected(broker.bound) as peer,
    ):
        assert await every_kind(peer) == [TIMEOUT, TIMEOUT, TIMEOUT, TIMEOUT, OK]
        assert stored(broker) == 5


async def test_a_send_is_answered_when_its_last_byte_is_acknowledged_and_not_before(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, slave_timeout_ms=HOUR_MS) as broker,
        mute_slave(broker) as slave,
        connected(broker.bound) as peer,
    ):
        reply = start_send(peer, b"one")
        await until(lambda: stored(broker) == 1)
        slave.acknowledge(broker.store.max_log_offset - 1)
        await until(lambda: broker.master_side.master.slaves()[0].lag_bytes == 1)
        await send(peer, properties="WAIT\x01false")  # a whole round trip later
        assert not reply.done()
        slave.acknowledge(broker.store.max_log_offset)
        assert (await reply).code == OK


async def test_many_sends_wait_together_and_nobody_else_waits_for_them(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, slave_timeout_ms=HOUR_MS) as broker,
        mute_slave(broker) as slave,
        connected(broker.bound) as peer,
        connected(broker.bound) as other,
    ):
        replies = [start_send(peer, b"%d" % number) for number in range(200)]
        await until(lambda: stored(broker) == 200)
        assert (await send(other, properties="WAIT\x01false")).code == OK
        assert broker.master_side.acks.waiting < 200
        slave.acknowledge(broker.store.max_log_offset)
        assert {reply.code for reply in await asyncio.gather(*replies)} == {OK}


async def test_a_slave_too_far_behind_is_none(tmp_path: Path) -> None:
    async with sync_master(tmp_path, slave_fall_behind_bytes=2_000) as broker, connected(broker.bound) as peer:
        await send(peer, b"x" * 3_000)
        async with mute_slave(broker, start=0):
            assert (await send(peer)).code == NO_SLAVE


async def test_the_status_of_the_slave_wins_over_that_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sync_master(tmp_path, flush=FlushMode.SYNC_FLUSH, slave_timeout_ms=50) as broker:
        monkeypatch.setattr("hanabi.store.upkeep.flush.LogFlusher.await_flush", lambda _, end, on_done: on_done(False))
        async with connected(broker.bound) as peer:
            assert (await send(peer)).code == NO_SLAVE
            async with mute_slave(broker):
                assert (await send(peer)).code == TIMEOUT
            async with following(broker):
                assert (await send(peer)).code == ResponseCode.FLUSH_DISK_TIMEOUT


async def test_too_few_replicas_refuse_a_send_before_anything_is_stored(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, acting_master_enabled=True, in_sync_replicas=2) as broker,
        connected(broker.bound) as peer,
    ):
        end = broker.store.max_log_offset
        replies = [await send(peer), await send_batch(peer, b"a", b"b"), await send(peer, properties=HALF)]
        assert [(reply.code, reply.remark) for reply in replies] == [
            (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough (1 of 2 replicas are in sync)")
        ] * 3
        assert broker.store.max_log_offset == end
        assert (await send(peer, properties="WAIT\x01false")).code == OK
        async with following(broker):
            assert (await send(peer)).code == OK


async def test_fewer_replicas_do_where_the_file_says_so(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, acting_master_enabled=True, in_sync_replicas=2, auto_in_sync_replicas=True) as broker,
        connected(broker.bound) as peer,
    ):
        assert (await send(peer)).code == OK


@pytest.mark.parametrize(("replicas", "code"), [(1, OK), (2, TIMEOUT)])
async def test_in_sync_replicas_follow_the_rule_of_5_x(tmp_path: Path, replicas: int, code: int) -> None:
    async with (
        sync_master(tmp_path, in_sync_replicas=replicas, slave_timeout_ms=50) as broker,
        connected(broker.bound) as peer,
    ):
        assert (await send(peer)).code == code


async def test_changed_settings_are_in_force_for_the_next_send(tmp_path: Path) -> None:
    async with sync_master(tmp_path, slave_timeout_ms=HOUR_MS) as broker, connected(broker.bound) as peer:
        assert (await send(peer)).code == NO_SLAVE
        await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"inSyncReplicas=2\nslaveTimeout=50")
        assert (await send(peer)).code == TIMEOUT
        await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"inSyncReplicas=1")
        assert (await send(peer)).code == OK


async def test_an_async_master_waits_for_nobody(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, role=BrokerRole.ASYNC_MASTER, slave_timeout_ms=HOUR_MS) as broker,
        mute_slave(broker),
        connected(broker.bound) as peer,
    ):
        assert await every_kind(peer) == [OK, OK, OK, OK, OK]


@pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")
@both_flushes
async def test_the_fast_path_serves_a_sync_master(tmp_path: Path, flush: FlushMode) -> None:
    async with sync_master(tmp_path, flush=flush) as broker, following(broker), connected(broker.bound) as peer:
        (counts,) = [counts for counts in broker.fast_path_counts if counts.kind == "send"]
        await send(peer)
        await send(peer)  # the index file is new, too
        before = counts.taken, counts.handled
        replies = [start_send(peer, b"%d" % number) for number in range(100)]
        batch = encode_batch([BatchMessage(0, b"%d" % number, b"") for number in range(10)])
        replies += [peer.start(RequestCode.SEND_BATCH_MESSAGE, fields("WAIT\x01true", batch=True), batch)]
        assert {reply.code for reply in await asyncio.gather(*replies)} == {OK}
        assert (counts.taken, counts.handled) == (before[0] + 101, before[1])


@both_flushes
async def test_a_send_and_a_pull_of_one_read_are_both_answered(tmp_path: Path, flush: FlushMode) -> None:
    async with sync_master(tmp_path, flush=flush) as broker, following(broker), connected(broker.bound) as peer:
        for _ in range(3):  # the next ones are the fast path's
            assert (await send(peer)).code == OK
        pull = fields_of_pull(0)
        sent = encode_head(code=RequestCode.SEND_MESSAGE_V2, opaque=1, fields=fields(), body_bytes=3)
        pulled = encode_head(code=RequestCode.PULL_MESSAGE, opaque=2, fields=header_fields(pull), body_bytes=0)
        reader, writer = await asyncio.open_connection(*broker.bound)
        writer.write(sent + b"one" + pulled)
        decoder, replies = FrameDecoder(), dict[int, int]()
        while len(replies) < 2:
            data = await reader.read(1 << 16)
            assert data
            replies |= {reply.opaque: reply.code for reply in map(decode_command, decoder.feed(data))}
        assert replies == {1: OK, 2: OK}
        writer.close()


async def test_waiting_sends_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async with (
        sync_master(tmp_path, slave_timeout_ms=HOUR_MS) as broker,
        mute_slave(broker) as slave,
        connected(broker.bound) as peer,
    ):
        reply = start_send(peer, b"one")
        await until(lambda: stored(broker) == 1)
        stopping = asyncio.create_task(broker.stop(5.0))
        await asyncio.sleep(0)
        slave.acknowledge(broker.store.max_log_offset)
        assert (await reply).code == OK
        await stopping
