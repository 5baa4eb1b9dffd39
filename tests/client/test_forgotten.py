"""asyncio objects that nobody shut down say so at the end of their event loop, leave the cluster, and can be started in
the next one."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from hanabi import Message, aio
from hanabi.errors import MQError
from hanabi.testing.embedded import EmbeddedCluster
from tests.client.test_starting import GROUP, KINDS, make


@pytest.mark.parametrize("kind", KINDS)
def test_a_forgotten_object_gives_a_resource_warning_that_names_it_and_leaves_the_cluster(
    hanabi_cluster: EmbeddedCluster, kind: str
) -> None:
    hanabi_cluster.create_topic("T")
    client: Any = make(aio, kind, hanabi_cluster.config())

    async def forget() -> None:
        await client.start()

    with pytest.warns(ResourceWarning, match=f"of group {GROUP} was not shut down"):
        asyncio.run(forget())
    assert not hanabi_cluster.cluster.broker.tables.consumers.client_ids(GROUP)


def test_in_a_second_event_loop_a_forgotten_object_says_what_to_do_and_can_be_started_again(
    hanabi_cluster: EmbeddedCluster,
) -> None:
    hanabi_cluster.create_topic("T")
    producer = aio.Producer("g", config=hanabi_cluster.config())

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
    hanabi_cluster: EmbeddedCluster,
) -> None:
    hanabi_cluster.create_topic("T")
    left: list[bool] = []

    async def main() -> None:
        started = asyncio.Event()

        async def work() -> None:
            async with aio.Producer("g", config=hanabi_cluster.config()) as producer:
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


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_close_of_the_loop_names_what_was_lost_and_it_can_be_started_in_the_next_loop(
    hanabi_cluster: EmbeddedCluster, kind: str, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    hanabi_cluster.create_topic("T")
    client: Any = make(aio, kind, hanabi_cluster.config())
    loop = make_loop()
    loop.run_until_complete(client.start())
    with warnings.catch_warnings(record=True) as told:  # uvloop also tells of each connection
        warnings.simplefilter("always", ResourceWarning)
        loop.close()
    assert any(f"of group {GROUP} was not shut down before its event loop was closed" in str(each) for each in told)
    with pytest.raises(MQError, match=r"is not running \(its event loop was closed without shutdown\(\)\): start"):
        _ = client.client_id

    async def again() -> None:
        await client.shutdown()
        async with client:
            assert client.client_id

    asyncio.run(again())


def test_a_send_after_a_bare_close_says_that_the_loop_was_closed(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    producer = aio.Producer("g", config=hanabi_cluster.config())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(producer.start())
    loop.run_until_complete(producer.send(Message("T", b"in the first loop")))
    with pytest.warns(ResourceWarning):
        loop.close()
    with pytest.raises(MQError, match=r"producer of group g is not running \(its event loop was closed"):
        asyncio.run(producer.send(Message("T", b"in the second loop")))


def test_a_start_that_a_bare_close_interrupted_can_be_repeated(hanabi_cluster: EmbeddedCluster) -> None:
    hanabi_cluster.create_topic("T")
    consumer = aio.LitePullConsumer("g", config=hanabi_cluster.config())
    consumer.subscribe("T")
    loop = asyncio.new_event_loop()
    starting = loop.create_task(consumer.start())
    loop.run_until_complete(asyncio.sleep(0))
    assert not starting.done()
    loop.close()

    async def again() -> None:
        async with consumer:
            assert consumer.client_id

    asyncio.run(again())
