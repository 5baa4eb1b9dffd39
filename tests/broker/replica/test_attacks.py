"""Attacks on a pair of whole brokers: processes that stand still, clocks that jump, kills while tables are copied."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from chaos.clock import ClockUnavailable, ShiftedClock, compile_library
from hanabi.testing.topics import plain_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from hanabi.wire.bodies.offsets import ConsumerOffsetTable
from hanabi.wire.bodies.topics import TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from tests.broker.replica.masters import send
from tests.broker.replica.test_broker_kills import Pair, compared_logs, under_load
from tests.broker.talk import Peer
from tests.interop.ours import OurNameServer

DAYS_100_S: Final = 100 * 86_400.0
TOPICS: Final = 100
TABLES: Final = (
    (RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable, "topic_config_table"),
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable, "subscription_group_table"),
    (RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable, "offset_table"),
)


@contextlib.asynccontextmanager
async def running_pair(home: Path, clocks: dict[str, ShiftedClock] | None = None) -> AsyncIterator[Pair]:
    """Yield a pair of processes that has acknowledged a message; killed at the end."""
    name_server = OurNameServer(home / "namesrv")
    await asyncio.to_thread(name_server.wait_ready)
    pair = Pair(home, name_server.address, {role: clock.environment for role, clock in (clocks or {}).items()})
    pair.start("master")
    pair.start("slave")
    try:
        async with under_load(pair):
            await pair.wait_for_more(1)
        yield pair
    finally:
        pair.kill("master", "slave")
        name_server.process.kill()


@contextlib.asynccontextmanager
async def peer_of(pair: Pair, role: str) -> AsyncIterator[Peer]:
    process = pair.running[role]
    await asyncio.to_thread(process.wait_for_line, "ready broker ")
    peer = await Peer.connect(("127.0.0.1", pair.ports[role]))
    try:
        yield peer
    finally:
        await peer.close()


async def test_a_stopped_slave_times_sends_out_and_a_stopped_master_is_waited_for(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        async with peer_of(pair, "master") as peer:
            pair.running["slave"].send_signal(signal.SIGSTOP)
            assert (await send(peer)).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            pair.running["slave"].send_signal(signal.SIGCONT)
            async with asyncio.timeout(60):
                while (await send(peer)).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 - the slave is in no hurry
                    await asyncio.sleep(0.05)
        async with under_load(pair):
            for victim in ("slave", "master", "slave"):
                await pair.wait_for_more(100)
                pair.running[victim].send_signal(signal.SIGSTOP)
                await asyncio.sleep(0.7)  # longer than slaveTimeout
                pair.running[victim].send_signal(signal.SIGCONT)
            await pair.wait_for_more(100)
    assert compared_logs(pair) > max(pair.acked)


async def test_clocks_that_jump_on_either_side_change_nothing(tmp_path: Path) -> None:
    try:
        library = compile_library(tmp_path)
    except ClockUnavailable as unavailable:
        pytest.skip(str(unavailable))
    clocks = {role: ShiftedClock(library, tmp_path / f"{role}-clock") for role in ("master", "slave")}
    async with running_pair(tmp_path, clocks) as pair:
        async with under_load(pair):
            for role, seconds in (
                ("slave", DAYS_100_S),
                ("slave", -DAYS_100_S),
                ("master", DAYS_100_S),
                ("master", -DAYS_100_S),
                ("slave", 0.0),
                ("master", 0.0),
            ):
                clocks[role].shift(seconds)
                await pair.wait_for_more(50)
        for role in ("master", "slave"):
            output = pair.running[role].output()
            assert "is refused" not in output
            assert "is not followed" not in output
            assert "was lost" not in output
    assert compared_logs(pair) > max(pair.acked)


async def table(peer: Peer, code: RequestCode, kind: type, name: str) -> dict[str, object]:
    reply = await peer.ask(code)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    found: dict[str, object] = getattr(decode_body(bytes(reply.body), kind), name)
    return found


async def fill_tables(peer: Peer, first: int) -> None:
    """Make topics and groups, and commit offsets."""
    for number in range(first, first + TOPICS):
        name = f"topic-{number}"
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, plain_topic(name, 4))).code == 0
        group = encode_body(SubscriptionGroupConfig(group_name=f"group-{number}", retry_max_times=number % 10))
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)).code == 0
        fields = {"consumerGroup": f"group-{number}", "topic": name, "queueId": "0", "commitOffset": str(number)}
        assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


def sign(path: Path) -> Callable[[], bool]:
    """Return a check of whether a file of the slave has been written since this call."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    return lambda: path.exists() and path.stat().st_mtime_ns != before


async def test_kills_of_either_side_while_tables_are_copied_leave_whole_tables(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        config = tmp_path / "slave" / "config"
        for number, (victim, file) in enumerate((("slave", "topics.json"), ("master", "subscriptionGroup.json"))):
            async with peer_of(pair, "master") as peer:
                is_copying = sign(config / file)
                await fill_tables(peer, number * TOPICS)
                await eventually(is_copying, f"{file} is copied")
            pair.kill(victim)  # the remaining tables are not copied yet, or are being written
            pair.start(victim)
        async with peer_of(pair, "master") as master, peer_of(pair, "slave") as slave:
            for each in TABLES:
                wanted = await table(master, *each)
                assert len(wanted) >= TOPICS
                async with asyncio.timeout(60):
                    while await table(slave, *each) != wanted:  # noqa: ASYNC110 - copied every ten seconds
                        await asyncio.sleep(0.1)
