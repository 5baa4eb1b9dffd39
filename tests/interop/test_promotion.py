"""Promotion by configuration in mixed pairs: the slave of a lost master of the other kind becomes the master."""

import asyncio
from pathlib import Path

import pytest

from hanabi.wire.codes import RequestCode, ResponseCode
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.probe import ask
from tests.interop.store_messages import QUEUES
from tests.interop.test_slave_brokers import apache, log_end, name_server, our_slave, ours, send_samples, until

pytestmark = [
    pytest.mark.usefixtures("apache_jars"),
    pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5]),
]
TOPIC, EARLY = "Busy", "Early"


def queue_ends(address: str) -> list[int]:
    """Where each queue of the topic ends."""
    answers = [
        ask(address, RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue)}) for queue in range(QUEUES)
    ]
    return [int(answer.fields()["offset"]) for answer in answers]


def offset_of_a_send(address: str, queue: int, topic: str = TOPIC) -> int:
    values = ("p", topic, "TBW102", str(QUEUES), str(queue), "0", "1", "0", "")
    answer = ask(address, RequestCode.SEND_MESSAGE_V2, dict(zip("abcdefghi", values, strict=True)), b"after")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return int(answer.fields()["queueOffset"])


async def test_our_promoted_slave_continues_the_queues_of_apaches_master(tmp_path: Path, jar_set: str) -> None:
    async with name_server(tmp_path) as namesrv:
        async with apache(tmp_path / "master", jar_set, namesrv) as master:
            early = [await asyncio.to_thread(offset_of_a_send, master.address, 2, EARLY) for _ in range(5)]
            await asyncio.to_thread(send_samples, master.address, 1, 200)
            async with our_slave(tmp_path / "slave", namesrv) as slave:  # late: it copies the last file only
                await asyncio.to_thread(send_samples, master.address, 2, 50)
                await until(lambda: slave.store.max_log_offset == log_end(master.address))
                await until(lambda: slave.tables.queue_ends.is_known)
                assert not slave.store.has_messages(EARLY, 2)
                ends = await asyncio.to_thread(queue_ends, master.address)
                master.process.kill()
        assert sum(ends) > 50
        async with ours(tmp_path / "slave", namesrv) as promoted:
            assert await asyncio.to_thread(queue_ends, promoted.address) == ends
            sent = [await asyncio.to_thread(offset_of_a_send, promoted.address, queue) for queue in range(QUEUES)]
            assert sent == ends
            assert await asyncio.to_thread(offset_of_a_send, promoted.address, 2, EARLY) == len(early) == 5


async def test_apaches_promoted_slave_continues_the_queues_of_our_master(tmp_path: Path, jar_set: str) -> None:
    async with name_server(tmp_path) as namesrv:
        async with (
            ours(tmp_path / "master", namesrv) as master,
            apache(tmp_path / "slave", jar_set, namesrv, brokerRole="SLAVE", brokerId=1) as slave,
        ):
            # A slave that joins later would copy the last file only, and not know where some queues end.
            await until(lambda: bool(master.master_side.acks.slaves))
            await asyncio.to_thread(send_samples, master.address, 1, 200)
            ends = await asyncio.to_thread(queue_ends, master.address)
            await until(lambda: log_end(slave.address) == master.store.max_log_offset)
            await until(lambda: queue_ends(slave.address) == ends)
            await asyncio.to_thread(slave.process.stop)
        async with apache(tmp_path / "slave", jar_set, namesrv) as promoted:
            sent = [await asyncio.to_thread(offset_of_a_send, promoted.address, queue) for queue in range(QUEUES)]
            assert sent == ends
