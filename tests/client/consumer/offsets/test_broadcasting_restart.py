"""A broadcasting consumer that was away gets what was sent meanwhile; several on one machine keep apart."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.consumer.offsets.file_location import claim
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.local_address import local_address
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from tests.client.consumer.pushing import Inbox, numbered, send


@pytest.fixture(autouse=True)
def offsets_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "offsets"
    monkeypatch.setenv("ROCKETMQ_OFFSETS_DIR", str(directory))
    return directory


@asynccontextmanager
async def member(cluster: Cluster, **options: Any) -> AsyncIterator[Inbox]:
    async with Inbox(cluster, "g", broadcasting=True, consume_from="last", **options) as inbox:
        await eventually(lambda: len(inbox.consumer.queues) == 2)
        yield inbox


async def test_messages_sent_while_a_broadcasting_consumer_was_down_are_delivered_after_its_restart(
    tmp_path: Path, offsets_directory: Path
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        async with member(cluster) as first:
            await send(cluster, numbered(4))
            await eventually(lambda: len(first.bodies) == 4)
        await send(cluster, numbered(10, 100))
        async with member(cluster) as second:
            await eventually(lambda: sorted(second.bodies) == numbered(10, 100))
        # Where Apache's client has its file, too: it keeps the instance's name for broadcasting.
        assert (offsets_directory / f"{local_address()}@DEFAULT" / "g" / "offsets.json").exists()


async def test_a_lite_consumer_finds_its_broadcasting_offsets_again_as_well(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)

        async def polled(count: int) -> list[bytes]:
            consumer = LitePullConsumer("g", config=cluster.config(), broadcasting=True, consume_from="first")
            consumer.subscribe("T")
            got: list[bytes] = []
            async with consumer, asyncio.timeout(18.0):
                while len(got) < count:
                    got += [message.body for message in await consumer.poll(1.0)]
                await consumer.commit()
            return got

        await send(cluster, numbered(4))
        assert await polled(4) == numbered(4)
        await send(cluster, numbered(10, 100))
        assert await polled(10) == numbered(10, 100)


async def test_two_broadcasting_consumers_of_a_group_have_a_file_each_and_both_get_everything(
    tmp_path: Path, offsets_directory: Path
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        async with member(cluster) as first, member(cluster) as second:
            await send(cluster, numbered(4))
            await eventually(lambda: len(first.bodies) == len(second.bodies) == 4)
        await send(cluster, numbered(10, 100))
        async with member(cluster) as first, member(cluster) as second:
            await eventually(lambda: sorted(first.bodies) == sorted(second.bodies) == numbered(10, 100))

    own = f"{local_address()}@DEFAULT"
    assert sorted(path.name for path in offsets_directory.iterdir()) == [own, f"{own}#2"]


async def test_a_consumer_that_got_nothing_before_it_went_down_gets_what_was_sent_meanwhile(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        async with member(cluster):
            pass
        await send(cluster, numbered(10))
        async with member(cluster) as second:
            await eventually(lambda: sorted(second.bodies) == numbered(10))


HOLD = """
import sys
from pathlib import Path
from hanabi.client.consumer.offsets.file_location import claim
print(claim(Path(sys.argv[1]), "id", "g").folder, flush=True)
sys.stdin.read()
"""


def test_a_folder_that_another_process_uses_is_left_alone_until_that_process_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline().strip() == str(tmp_path / "id" / "g")
        ours = claim(tmp_path, "id", "g")
        assert ours.folder == tmp_path / "id#2" / "g"
        ours.release()
        other.stdin.close()
        other.wait(60)
    again = claim(tmp_path, "id", "g")
    assert again.folder == tmp_path / "id" / "g"
    again.release()
    again.release()
