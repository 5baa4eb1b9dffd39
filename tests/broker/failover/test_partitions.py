"""A master that is cut off from the controller and its slaves never acknowledges what is lost later (SLOW: 100 times).

Clients reach all brokers all the time, and send to each one that believes to be the master.
"""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from hanabi.broker.broker import Broker
from hanabi.errors import MQError
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.send import SendMessageHeader
from tests.broker.failover.cut_off import CutOff, running_cut_off
from tests.broker.replica.test_controller_mode import log_bytes

logger = logging.getLogger(__name__)

PARTITIONS = int(os.environ.get("HANABI_PARTITIONS", 100 if os.environ.get("HANABI_SLOW_TESTS") else 1))


class Sender:
    """Sends to every broker that is a master in its own eyes; `acked` are the bodies that it was told are stored."""

    def __init__(self, group: CutOff) -> None:
        self._group, self._connector = group, Connector()
        self.acked: list[bytes] = []
        self._number = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            masters = [each for each in self._group.replicas.brokers.values() if not each.settings.is_slave]
            await asyncio.gather(*(self._send(broker) for broker in masters), asyncio.sleep(0.01))

    async def _send(self, broker: Broker) -> None:
        self._number += 1
        body = b"<%d>" % self._number
        header = SendMessageHeader(
            producer_group="p",
            topic="T",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties="",
        )
        try:
            reply = await self._connector.request(broker.address, RequestCode.SEND_MESSAGE, header, body, timeout=5.0)
        except MQError:
            return
        if reply.code == ResponseCode.SUCCESS:
            self.acked.append(body)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._connector.close()


@pytest.mark.timeout(400 + 30 * PARTITIONS)
async def test_a_master_that_is_cut_off_acknowledges_nothing_that_is_lost(tmp_path: Path) -> None:
    async with running_cut_off(tmp_path) as group:
        replicas = group.replicas
        await replicas.in_sync(1, 2, 3)
        await create_topic(replicas.master, "T")
        sender = Sender(group)
        try:
            for _ in range(PARTITIONS):
                await one_partition(group, sender)
        finally:
            await sender.stop()
        await replicas.same_logs()
        logs = {log_bytes(broker) for broker in replicas.brokers.values()}
        assert len(logs) == 1
        log = logs.pop()
        assert [body for body in sender.acked if body not in log] == []
        logger.info("%d partitions, %d acknowledged", PARTITIONS, len(sender.acked))


async def one_partition(group: CutOff, sender: Sender) -> None:
    replicas = group.replicas
    await replicas.in_sync(1, 2, 3)
    await more_acked(sender, 10)
    old = replicas.master
    number = next(each for each, broker in replicas.brokers.items() if broker is old)
    group.cut(number)
    others = [broker for each, broker in replicas.brokers.items() if each != number]
    await eventually(lambda: any(not broker.settings.is_slave for broker in others), "another master", seconds=60)
    await eventually(lambda: old.store.fence is not None or old.settings.is_slave, "the old one is fenced", seconds=60)
    group.join(number)
    await eventually(lambda: old.settings.is_slave, "the old master is a slave", seconds=60)
    await replicas.in_sync(1, 2, 3)
    await more_acked(sender, 10)


async def more_acked(sender: Sender, count: int) -> None:
    wanted = len(sender.acked) + count
    await eventually(lambda: len(sender.acked) >= wanted, "messages are acknowledged", seconds=60)
