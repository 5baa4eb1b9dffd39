"""Kill -9 a broker under POP load, again and again: nothing answered with SEND_OK is lost, and no message comes again
after the broker has answered its acknowledgement.
"""

import asyncio
import itertools
import random
import time
from pathlib import Path

import pytest

from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.send import SendMessageHeader
from hanabi.wire.headers.v5.pop import AckMessageHeader, PopMessageHeader
from tests.broker.popping import popped
from tests.broker.talk import Peer
from tests.faults.broker_process import broker_process

TOPIC, GROUP, QUEUES = "PopKill", "killed", 4
INVISIBLE_MS = 1_500  # so that what was in flight at a kill comes again soon
IN_TIME_S = 1.0  # an acknowledgement that comes later may have come after the expiry


class Load:
    """One sender and one popper. Each of their steps may be cut by the kill."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.sent: set[bytes] = set()  # answered with SEND_OK
        self.seen: set[bytes] = set()
        self.acknowledged: set[bytes] = set()  # answered with success
        self.in_time: set[bytes] = set()  # those that had certainly not expired before
        self.repeated: list[bytes] = []  # came again after that

    async def send(self, peer: Peer) -> None:
        for number in self.numbers:
            body = b"%d" % number
            header = SendMessageHeader(
                producer_group="g",
                topic=TOPIC,
                default_topic="TBW102",
                default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES,
                sys_flag=0,
                born_timestamp=1,
                flag=0,
            )
            reply = await peer.ask(RequestCode.SEND_MESSAGE, header, body)
            if reply.code == 0:
                self.sent.add(body)

    async def pop_once(self, peer: Peer, poll_ms: int = 200) -> int:
        pop = PopMessageHeader(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=-1,
            max_msg_nums=random.randint(1, 32),
            invisible_time=INVISIBLE_MS,
            poll_time=poll_ms,
            init_mode=0,
        )
        began = time.monotonic()
        found = popped(await peer.ask(RequestCode.POP_MESSAGE, pop))
        for record, receipt in found:
            self.seen.add(record.body)
            if record.body in self.in_time:
                self.repeated.append(record.body)
            if random.random() < 0.1:
                continue  # a consumer that fails
            ack = AckMessageHeader(
                consumer_group=GROUP,
                topic=record.topic,
                queue_id=record.queue_id,
                extra_info=receipt.encode(),
                offset=record.queue_offset,
            )
            if (await peer.ask(RequestCode.ACK_MESSAGE, ack)).code == 0:
                self.acknowledged.add(record.body)
                if time.monotonic() - began < IN_TIME_S:
                    self.in_time.add(record.body)
        return len(found)

    async def pop(self, peer: Peer) -> None:
        while True:
            await self.pop_once(peer)


async def play(home: Path, rounds: int) -> Load:
    load = Load()
    for _ in range(rounds):
        with broker_process(home) as broker:
            await asyncio.to_thread(broker.wait_ready)
            peers = [await Peer.connect(("127.0.0.1", broker.port)) for _ in range(2)]
            tasks = [asyncio.create_task(load.send(peers[0])), asyncio.create_task(load.pop(peers[1]))]
            await asyncio.sleep(random.uniform(0.3, 1.2))
            await asyncio.to_thread(broker.process.kill)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for peer in peers:
                await peer.close()
    await drain(home, load)
    return load


async def drain(home: Path, load: Load) -> None:
    with broker_process(home) as broker:
        await asyncio.to_thread(broker.wait_ready)
        peer = await Peer.connect(("127.0.0.1", broker.port))
        async with asyncio.timeout(120):
            while not load.sent <= load.acknowledged:
                await load.pop_once(peer, 1_000)
        await peer.close()


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
async def test_nothing_is_lost_and_nothing_acknowledged_comes_again(tmp_path: Path, rounds: int) -> None:
    seed = random.randrange(1 << 32)
    random.seed(seed)
    load = await play(tmp_path / "store", rounds)
    assert load.sent, f"seed {seed}"
    assert load.sent <= load.seen, f"seed {seed}: {len(load.sent - load.seen)} are lost"
    assert not load.repeated, f"seed {seed}: {load.repeated[:10]} came again after their acknowledgement"
