"""Tests of where a group begins: Apache's rules, alone and at a broker."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.offsets.offset_store import ReadFrom, RemoteOffsets
from hanabi.client.consumer.offsets.start_point import ConsumeFrom, StartPoint, first_offset
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConnectError
from hanabi.message import Message, MessageQueue
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually

QUEUE = MessageQueue("Orders", "broker-a", 0)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAX, AT = 100, 50


def cases() -> Iterator[tuple[str, ConsumeFrom, int]]:
    """Compute as RebalancePushImpl.computePullFromWhereWithException does."""
    expected = {("last", False): MAX, ("last", True): 0, ("first", False): 0, ("first", True): 0}
    for consume_from, is_retry in product(("last", "first"), (False, True)):
        topic = "%RETRY%billing" if is_retry else "Orders"
        yield topic, "last" if consume_from == "last" else "first", expected[consume_from, is_retry]
    yield "Orders", MOMENT, AT
    yield "%RETRY%billing", MOMENT, MAX


@pytest.mark.parametrize(("topic", "consume_from", "expected"), list(cases()))
async def test_a_group_without_an_offset_begins_where_apaches_would(
    topic: str, consume_from: ConsumeFrom, expected: int
) -> None:
    async def max_offset() -> int:
        return MAX

    async def offset_at(moment: datetime) -> int:
        assert moment == MOMENT
        return AT

    assert (await first_offset(topic, consume_from, max_offset=max_offset, offset_at=offset_at)) == expected


async def test_at_a_broker_the_saved_offset_counts_and_then_the_start_point(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("writers", config=cluster.config()) as producer:
            for _ in range(5):
                await producer.send(Message("Orders", b"x"))
        core = await Core.acquire(cluster.config())
        try:
            # A queue that was never shortened begins at 0 for a group that nobody knows: the broker says so itself.
            assert await StartPoint(core, RemoteOffsets(core, "new"), "last").offset(QUEUE) in (0, 5)
            offsets = RemoteOffsets(core, "billing")
            offsets.update(QUEUE, 3, increase_only=True)
            await offsets.persist([QUEUE], confirmed=True)
            for consume_from in ("last", "first", MOMENT):
                fresh = RemoteOffsets(core, "billing")
                assert await StartPoint(core, fresh, consume_from).offset(QUEUE) == 3
                assert fresh.memory(QUEUE) == 3
        finally:
            await core.release()


async def test_remote_offsets_are_told_to_the_broker_and_read_from_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        core = await Core.acquire(cluster.config())
        try:
            offsets = RemoteOffsets(core, "billing")
            await offsets.load()
            assert await offsets.read(QUEUE, ReadFrom.MEMORY) is None
            offsets.update(QUEUE, 0, increase_only=True)
            await offsets.persist([QUEUE], confirmed=True)
            offsets.update(QUEUE, 7, increase_only=True)
            await offsets.persist([QUEUE])  # one-way
            at_broker = cluster.broker.tables.offsets
            await eventually(lambda: at_broker.find("billing", "Orders", 0) == 7)
            assert await RemoteOffsets(core, "billing").read(QUEUE) == 7
        finally:
            await core.release()


async def test_a_broker_that_is_unknown_does_not_keep_the_others_from_knowing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        core = await Core.acquire(cluster.config())
        try:
            offsets = RemoteOffsets(core, "billing")
            nowhere = MessageQueue("Orders", "broker-x", 0)
            for queue in (nowhere, QUEUE):
                offsets.update(queue, 2, increase_only=True)
            with pytest.raises(ConnectError, match="broker-x"):
                await offsets.persist([nowhere, QUEUE], confirmed=True)
            assert cluster.broker.tables.offsets.find("billing", "Orders", 0) == 2
        finally:
            await core.release()
