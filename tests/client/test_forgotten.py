"""asyncio objects that nobody shut down say so at the end of their event loop, leave the cluster, and can be started in
the next one."""

import asyncio
from typing import Any

import pytest

from hanabi import Message, aio
from hanabi.errors import MQError
from tests.client.test_starting import GROUP, KINDS, make
from tests.client.world import WorldThread


@pytest.mark.parametrize("kind", KINDS)
def test_a_forgotten_object_gives_a_resource_warning_that_names_it_and_leaves_the_cluster(
    cluster_thread: WorldThread, kind: str
) -> None:
    cluster_thread.make_topic("T")
    client: Any = make(aio, kind, cluster_thread.config())

    async def forget() -> None:
        await client.start()

    with pytest.warns(ResourceWarning, match=f"of group {GROUP} was not shut down"):
        asyncio.run(forget())
    assert not cluster_thread.world.broker.tables.consumers.client_ids(GROUP)


def test_in_a_second_event_loop_a_forgotten_object_says_what_to_do_and_can_be_started_again(
    cluster_thread: WorldThread,
) -> None:
    cluster_thread.make_topic("T")
    producer = aio.Producer("g", config=cluster_thread.config())

    async def forget() -> None:
        await producer.start()
        await producer.send(Message("T", b"in the first loop"))

    async def again() -> None:
        with pytest.raises(MQError, match=r"producer of group g is not running: start\(\) it"):
            await producer.send(Message("T", b"nobody started it here"))
        async with producer:
            await producer.send(Message("T", b"in the second loop"))

    with pytest.warns(ResourceWarning):
        asyncio.run(forget())
    asyncio.run(again())


def test_a_task_that_is_cancelled_at_the_end_shuts_its_own_client_down_without_a_warning(
    cluster_thread: WorldThread,
) -> None:
    cluster_thread.make_topic("T")
    left: list[bool] = []

    async def main() -> None:
        started = asyncio.Event()

        async def work() -> None:
            async with aio.Producer("g", config=cluster_thread.config()) as producer:
                await producer.send(Message("T", b"hello"))
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await producer.send(Message("T", b"last words"))
                    left.append(True)

        task = asyncio.create_task(work())
        await started.wait()
        assert not task.done()

    asyncio.run(main())
    assert left == [True]
