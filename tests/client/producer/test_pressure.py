"""Too much for the loop, or for the broker: large bodies are compressed beside the loop, and a busy broker is asked
again, by fewer at a time."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.outgoing import THREAD_BYTES, Packing
from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import within
from hanabi.wire.codes import ResponseCode
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message import sysflag
from tests.client.producer.scripted import look_up, scripted_broker, stored

WORDS = b"abcdefgh" * (THREAD_BYTES // 2)  # 256 KiB, and easy to compress


# Large bodies


async def test_the_loop_goes_on_while_a_large_body_is_compressed() -> None:
    packing = Packing(ProducerConfig(), "", lambda: "id")
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    await asyncio.sleep(0)
    outgoing = packing.pack(Message("T", random.Random(1).randbytes(1 << 20).hex().encode()))
    assert outgoing.to_compress
    before = turns
    compressed = await within(packing.compressed(outgoing))
    assert turns > before + 3
    turning.cancel()
    assert len(compressed.body) < len(outgoing.body)
    assert compressed.sys_flag & sysflag.COMPRESSED
    assert not compressed.to_compress


def test_a_small_body_is_compressed_at_once_and_one_that_gets_no_smaller_stays() -> None:
    packing = Packing(ProducerConfig(), "", lambda: "id")
    small = packing.pack(Message("T", WORDS[: THREAD_BYTES - 1]))
    assert small.sys_flag & sysflag.COMPRESSED
    assert not small.to_compress
    never = Packing(ProducerConfig(compress_over_bytes=1 << 30), "", lambda: "id")
    assert not never.pack(Message("T", WORDS)).to_compress


@pytest.mark.parametrize("way", ["send", "send_many", "begin", "oneway", "hooked"])
async def test_a_large_message_arrives_as_it_was_however_it_is_sent(tmp_path: Path, way: str) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        async with Producer("g", config=cluster.config(), trace=way == "hooked") as producer:
            message = Message("T", WORDS)
            if way == "send_many":
                (result,) = await producer.send_many([message])
            elif way == "begin":
                ended = Ended()
                rest = producer.begin_send(message, ended)
                assert rest is not None, "it has to be waited for"
                result = await rest
            elif way == "oneway":
                await producer.send_oneway(message)
                result = await producer.send(Message("T", b"behind it"))
            else:
                result = await producer.send(message)
            if way != "oneway":
                found = await look_up(cluster.broker.address, result)
                assert found.body == WORDS
                assert found.size < len(WORDS)
            assert producer._must_run().gate.sends == 0


class Ended:
    def finish(self, result: object) -> None:
        raise AssertionError("nothing was begun")

    def go_on(self, rest: object) -> None:
        raise AssertionError("nothing was begun")


async def test_shutdown_waits_for_what_is_being_compressed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        producer = Producer("g", config=cluster.config())
        await producer.start()
        await producer.send(Message("T", b"x"))  # the route is known
        sending = asyncio.create_task(producer.send(Message("T", WORDS * 8)))
        await asyncio.sleep(0)
        await within(producer.shutdown())
        assert (await within(sending)).queue.topic == "T"


# Busy brokers


class SlowBroker:
    """Works on one message at a time, and throws away what waited too long, as Apache's does: TIMEOUT_CLEAN_QUEUE."""

    def __init__(self, work_s: float, wait_s: float) -> None:
        self._work_s, self._wait_s = work_s, wait_s
        self._turn = asyncio.Lock()
        self.stored: Counter[bytes] = Counter()
        self.refused = 0
        self.under_way = self.most = 0

    async def answer(self, header: SendMessageV2Header, body: bytes) -> Reply:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._turn.acquire()
            except TimeoutError:
                self.refused += 1
                return Reply(
                    ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"
                )
            try:
                await asyncio.sleep(self._work_s)
                self.stored[body] += 1
                return stored(header, body)
            finally:
                self._turn.release()
        finally:
            self.under_way -= 1


async def test_many_messages_for_a_slow_broker_are_sent_fewer_at_a_time_until_all_are_stored_once(
    tmp_path: Path,
) -> None:
    # It stores some 300 a second, and 512 at once wait longer than it lets them.
    slow = SlowBroker(work_s=0.003, wait_s=0.5)
    async with running_cluster(tmp_path) as cluster, scripted_broker(slow.answer) as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address})
        async with Producer("g", config=config, send_timeout_s=60.0) as producer:
            bodies = [b"%d" % number for number in range(700)]
            results = await within(producer.send_many([Message("T", body) for body in bodies]), 60.0)
            gate = producer._must_run().gate
            assert gate.sends == 0
            assert gate.limit < 512, "fewer at a time"
        assert slow.refused, "or it would prove nothing"
        assert slow.most > 400
        assert len(results) == 700
        assert slow.stored == Counter(bodies)


async def test_a_broker_that_is_busy_for_a_while_gets_the_message_when_it_is_not(tmp_path: Path) -> None:
    refusals = 5  # more than there are retries

    def answer(header: SendMessageV2Header, body: bytes) -> Reply:
        nonlocal refusals
        refusals -= 1
        return Reply(ResponseCode.SYSTEM_BUSY, "busy") if refusals >= 0 else stored(header, body)

    async with running_cluster(tmp_path) as cluster, scripted_broker(answer) as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address})
        async with Producer("g", config=config, send_timeout_s=10.0) as producer:
            await within(producer.send(Message("T", b"x")))
            assert len(broker.sent) == 6
        refusals = 5
        async with Producer("g", config=config, retries=0) as producer:
            with pytest.raises(SendFailed, match="tried once"):
                await within(producer.send(Message("T", b"x")))
