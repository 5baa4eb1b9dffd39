"""Large compressed bodies are unpacked in a thread, and nothing else changes for whoever pulls them."""

import asyncio
from pathlib import Path

import pytest

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.consumer.unpacking import PACKED_BYTES_MIN, takes_long
from hanabi.client.producer.producer import Producer
from hanabi.message import Message, StoredMessage
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import CompressionType
from tests.client.busy_thread import busy_thread
from tests.client.consumer.test_pull_request import record

PACKED = sysflag.with_compression(0, CompressionType.ZLIB)
HALF = bytes(PACKED_BYTES_MIN // 2)
WHOLE = bytes(PACKED_BYTES_MIN)


@pytest.mark.parametrize(
    ("records", "long"),
    [
        (b"", False),
        (record(0, HALF, sys_flag=PACKED), False),
        (record(0, WHOLE) + record(1, WHOLE), False),
        (record(0, WHOLE) + record(1, HALF, sys_flag=PACKED), False),
        (record(0, WHOLE, sys_flag=PACKED), True),
        (record(0, WHOLE) + record(1, HALF, sys_flag=PACKED) + record(2, HALF, sys_flag=PACKED), True),
        (bytes(2 * PACKED_BYTES_MIN), False),
        (b"\xff" * 2 * PACKED_BYTES_MIN, False),
        (record(0, WHOLE, sys_flag=PACKED)[:-1], True),
    ],
)
def test_what_takes_long_is_much_that_is_compressed(records: bytes, long: bool) -> None:
    assert takes_long(records) is long


def large(number: int, pieces: int = 20_000) -> bytes:
    """Return a body that takes more than the limit when it is compressed, by any means."""
    return b"".join(b"%d," % (number * pieces + piece) for piece in range(pieces))


async def store(cluster: Cluster, topic: str, bodies: list[bytes], compression: str = "zlib") -> None:
    await cluster.create_topic(topic, queues=1)
    async with Producer("makers", config=cluster.config(), compression=compression) as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
async def test_the_loop_goes_on_while_large_bodies_are_unpacked(tmp_path: Path, compression: str) -> None:
    async with running_cluster(tmp_path) as cluster:
        bodies = [large(number) for number in range(3)]
        await store(cluster, "Large", [*bodies, b"small"], compression)
        async with PullConsumer("readers", config=cluster.config()) as consumer:
            (queue,) = await consumer.queues_of("Large")
            with busy_thread() as thread:
                pulled = asyncio.create_task(consumer.pull(queue, 0))
                small = await within(consumer.pull(queue, 3))
                assert [message.body for message in small.messages] == [b"small"]
                assert not pulled.done()
                thread.freed.set()
                result = await within(pulled)
            assert [message.body for message in result.messages] == [*bodies, b"small"][: len(result.messages)]
            assert (len(result.messages), result.next_offset) in ((1, 1), (2, 2), (3, 3), (4, 4))


async def test_listeners_get_large_and_small_bodies_in_the_order_of_the_queue(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        bodies = [large(number // 2) if number % 2 else b"%d" % number for number in range(40)]
        await store(cluster, "Mixed", bodies)
        seen: list[bytes] = []

        consumer = PushConsumer("readers", config=cluster.config(), consume_from="first")
        consumer.subscribe("Mixed")

        @consumer.listener(ordered=True)
        async def note(messages: list[StoredMessage]) -> None:
            seen.extend(message.body for message in messages)

        async with consumer:
            await eventually(lambda: len(seen) >= len(bodies))
        assert seen == bodies


async def test_who_leaves_while_bodies_are_unpacked_does_not_wait_for_them_and_loses_none(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        bodies = [large(number) for number in range(3)]
        await store(cluster, "Left", bodies)
        with busy_thread() as thread:
            early = LitePullConsumer("readers", config=cluster.config(), consume_from="first")
            early.subscribe("Left")
            await early.start()
            before = thread.asked
            await eventually(lambda: thread.asked > before)
            assert await early.poll(0) == []
            await within(early.shutdown())
        late = LitePullConsumer("readers", config=cluster.config(), consume_from="first")
        late.subscribe("Left")
        async with late:
            got: list[bytes] = []
            while len(got) < len(bodies):
                got += [message.body for message in await within(late.poll(5))]
        assert got == bodies
