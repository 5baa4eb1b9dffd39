"""Context variables of the program reach every call of its listener."""

import asyncio
import contextvars
from pathlib import Path

import pytest

from hanabi import Message, Producer, PushConsumer, StoredMessage, aio
from hanabi.testing.cluster import running_cluster
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.waiting import eventually, wait_until

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
COUNT = 60


@pytest.mark.parametrize("ordered", [False, True])
def test_a_def_listener_has_the_variables_of_the_start(hanabi_cluster: EmbeddedCluster, ordered: bool) -> None:
    seen: list[str] = []
    consumer = PushConsumer("c", namesrv=hanabi_cluster.namesrv, consume_from="first", concurrency=2)
    consumer.subscribe("T")

    @consumer.listener(ordered=ordered)
    def listen(messages: list[StoredMessage]) -> None:
        seen.append(TENANT.get())
        TENANT.set("of a listener")  # must not reach the next call

    hanabi_cluster.create_topic("T")
    with Producer("p", namesrv=hanabi_cluster.namesrv) as producer:
        producer.send_many([Message("T", b"x")] * COUNT)
    TENANT.set("acme")
    with consumer:
        TENANT.set("changed later")
        wait_until(lambda: len(seen) == COUNT, "all messages")
    assert set(seen) == {"acme"}


async def test_an_async_listener_has_the_variables_of_the_start(tmp_path: Path) -> None:
    seen: list[str] = []
    async with running_cluster(tmp_path) as cluster, aio.Producer("p", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        consumer = aio.PushConsumer("c", namesrv=cluster.namesrv, consume_from="first", concurrency=2)
        consumer.subscribe("T")

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            seen.append(TENANT.get())
            TENANT.set("of a listener")
            await asyncio.sleep(0)

        TENANT.set("acme")
        async with consumer:
            TENANT.set("changed later")
            await producer.send_many([Message("T", b"x")] * COUNT)
            await eventually(lambda: len(seen) == COUNT, "all messages")
    assert set(seen) == {"acme"}
