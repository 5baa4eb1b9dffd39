"""A slave that is far behind catches up while its master takes messages, and consumers read from it meanwhile."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.message.record import decode_records
from tests.broker.replica.masters import TOPIC, send_batch
from tests.broker.talk import Peer
from tests.interop.ours import OurNameServer
from tests.interop.processes import ServerProcess, free_port

RATE: Final = 5_000
BATCH: Final = 50
WAIT_SECONDS: Final = 1_800.0
ROLES: Final = {"master": "brokerRole=ASYNC_MASTER\n", "slave": "brokerRole=SLAVE\nbrokerId=1\nslaveReadEnable=true\n"}


class Brokers:
    """The brokers of a pair, in processes of their own."""

    def __init__(self, home: Path, namesrv: str) -> None:
        self._home, self._namesrv = home, namesrv
        self.ports = {role: free_port(beside=(-2, 1)) for role in ROLES}
        self._running: dict[str, ServerProcess] = {}

    async def start(self, role: str) -> None:
        config = self._home / f"{role}.conf"
        config.write_text(f"brokerName=broker-a\ndiskMaxUsedSpaceRatio=95\n{ROLES[role]}")
        serve = [sys.executable, "-m", "hanabi", "serve", "broker", "-c", str(config), "--host", "127.0.0.1"]
        where = ["--home", str(self._home / role), "--port", str(self.ports[role]), "-n", self._namesrv]
        self._running[role] = process = ServerProcess(role, [*serve, *where], self._home / f"{role}.log")
        await asyncio.to_thread(process.wait_for_line, "ready broker ")

    def kill(self, role: str) -> None:
        if role in self._running:
            self._running.pop(role).kill()

    @contextlib.asynccontextmanager
    async def peer(self, role: str) -> AsyncIterator[Peer]:
        peer = await Peer.connect(("127.0.0.1", self.ports[role]))
        try:
            yield peer
        finally:
            await peer.close()


class Producer:
    """Sends numbered messages to one queue of the master."""

    def __init__(self, peer: Peer) -> None:
        self._peer, self.sent, self.is_over = peer, 0, False

    async def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        reply = await send_batch(self._peer, *(b"%01024d" % number for number in numbers))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        self.sent += count

    async def send_steadily(self) -> None:
        began, first = time.monotonic(), self.sent
        while not self.is_over:
            due = int((time.monotonic() - began) * RATE) - (self.sent - first)
            await (self.send(BATCH) if due >= BATCH else asyncio.sleep(0.005))


def fields_of_pull(offset: int) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="DEFAULT_CONSUMER",
        topic=TOPIC,
        queue_id=1,  # that `send_batch` sends to
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


async def read_from(slave: Peer, producer: Producer, behind: int = 0) -> int:
    """Read the queue at the slave until the reader is where the producer is; return the number of messages."""
    offset = 0
    async with asyncio.timeout(WAIT_SECONDS):
        while not (producer.is_over and offset == producer.sent):
            reply = await slave.ask(RequestCode.PULL_MESSAGE, fields_of_pull(offset))
            if reply.code == ResponseCode.SUCCESS:
                for record in decode_records(reply.body):
                    assert (record.queue_offset, int(record.body)) == (offset, offset)
                    offset += 1
            else:
                await asyncio.sleep(0.01)
            # It has read everything that was missing, and all but what is on its way.
            producer.is_over = producer.is_over or (offset > behind and producer.sent - offset < RATE)
    return offset


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("behind", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
async def test_a_slave_catches_up_while_messages_are_sent_and_read(tmp_path: Path, behind: int) -> None:
    name_server = OurNameServer(tmp_path / "namesrv")
    await asyncio.to_thread(name_server.wait_ready)
    brokers = Brokers(tmp_path, name_server.address)
    try:
        await brokers.start("master")
        async with brokers.peer("master") as peer:
            producer = Producer(peer)
            await producer.send(BATCH)
            await brokers.start("slave")
            async with brokers.peer("slave") as slave:
                producer.is_over = True
                assert await read_from(slave, producer) == BATCH
            brokers.kill("slave")
            while producer.sent < behind:
                await producer.send(BATCH)
            await brokers.start("slave")
            producer.is_over = False
            sending = asyncio.create_task(producer.send_steadily())
            async with brokers.peer("slave") as slave:
                assert await read_from(slave, producer, behind) > behind
            await sending
    finally:
        for role in ROLES:
            brokers.kill(role)
        name_server.process.kill()
