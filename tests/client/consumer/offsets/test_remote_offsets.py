"""Offsets at the brokers: a member that a broker had lost sight of does not take its group back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hanabi.client.cluster.core import Core
from hanabi.client.consumer.offsets.offset_store import ReadFrom, RemoteOffsets
from hanabi.message import MessageQueue
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox, committed, numbered, send

QUEUE = MessageQueue("T", "broker-a", 0)


@asynccontextmanager
async def stores(home: Path) -> AsyncIterator[tuple[Cluster, Core, RemoteOffsets]]:
    async with running_cluster(home) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(20))
        core = await Core.acquire(cluster.config())
        try:
            await core.routes.find("T")
            offsets = RemoteOffsets(core, "g")
            await offsets.read(QUEUE)
            yield cluster, core, offsets
        finally:
            await core.release()


async def cut(cluster: Cluster, core: Core) -> None:
    """End the connection of *core* to the broker."""
    losses = core.losses_of("broker-a")
    for connection in list(core.connector._connections.values()):
        if core.api.broker_names.get(connection.peer) == "broker-a":
            connection.drop("the test cuts it")
    await eventually(lambda: core.losses_of("broker-a") > losses)


def say(cluster: Cluster, offset: int) -> None:
    """Commit as another member does."""
    cluster.broker.tables.offsets.commit("g", "T", 0, offset, backwards=True)


async def test_what_others_have_consumed_while_the_broker_had_lost_us_is_not_taken_back(tmp_path: Path) -> None:
    async with stores(tmp_path) as (cluster, core, offsets):
        offsets.update(QUEUE, 5, increase_only=True)
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 5}
        assert offsets.is_undisputed(QUEUE)
        await cut(cluster, core)
        say(cluster, 9)
        assert not offsets.is_undisputed(QUEUE)
        for mine, theirs in ((6, 9), (8, 9), (9, 9), (12, 12)):
            offsets.update(QUEUE, mine, increase_only=True)
            await offsets.persist([QUEUE], confirmed=True)
            assert committed(cluster, "g") == {0: theirs}
        assert offsets.is_undisputed(QUEUE)


async def test_others_that_come_further_after_we_have_looked_are_not_taken_back_either(tmp_path: Path) -> None:
    """Found by chaos: for a moment both have the queue, as the broker forgot one of them and knows it again."""
    async with stores(tmp_path) as (cluster, core, offsets):
        offsets.update(QUEUE, 5, increase_only=True)
        await cut(cluster, core)
        await offsets.persist([QUEUE], confirmed=True)
        assert offsets.is_undisputed(QUEUE)
        say(cluster, 9)
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 9}
        offsets.update(QUEUE, 2, increase_only=False)  # but who is told to go back does
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 2}


async def test_if_nobody_came_further_everything_goes_on(tmp_path: Path) -> None:
    async with stores(tmp_path) as (cluster, core, offsets):
        offsets.update(QUEUE, 5, increase_only=True)
        await offsets.persist([QUEUE], confirmed=True)
        await cut(cluster, core)
        offsets.update(QUEUE, 6, increase_only=True)
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 6}
        assert offsets.is_undisputed(QUEUE)


async def test_who_wants_to_go_back_can(tmp_path: Path) -> None:
    async with stores(tmp_path) as (cluster, core, offsets):
        offsets.update(QUEUE, 5, increase_only=True)
        await cut(cluster, core)
        say(cluster, 9)
        assert await offsets.read(QUEUE, ReadFrom.STORE) == 9  # to look is not to agree
        assert not offsets.is_undisputed(QUEUE)
        offsets.update(QUEUE, 3, increase_only=False)  # a seek
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 3}
        await cut(cluster, core)
        say(cluster, 9)
        offsets.update(QUEUE, 7, increase_only=False)
        offsets.force_next_commit(QUEUE)  # a program that commits what it says
        await offsets.persist([QUEUE], confirmed=True)
        assert committed(cluster, "g") == {0: 7}


async def test_a_consumer_that_was_cut_off_never_takes_its_group_back(tmp_path: Path) -> None:
    """Neither when it saves its offsets nor with a pull, which carries them too."""
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(5))
        seen: list[int] = []
        async with Inbox(cluster, "g", persist_offsets_s=0.02) as inbox:
            await eventually(lambda: committed(cluster, "g") == {0: 5})
            core = inbox.consumer._core
            assert core is not None
            say(cluster, 8)
            await cut(cluster, core)
            await send(cluster, numbered(2, 5))

            async def look() -> None:
                while True:
                    seen.append(committed(cluster, "g")[0])
                    await asyncio.sleep(0)

            looking = asyncio.create_task(look())
            await eventually(lambda: len(inbox.messages) == 7)
            await asyncio.sleep(0.1)  # some rounds of saving
            await send(cluster, numbered(3, 7))
            await eventually(lambda: committed(cluster, "g") == {0: 10})
            looking.cancel()
        assert set(seen) <= {8, 9, 10}
