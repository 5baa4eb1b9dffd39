"""Brokers in controller mode with our controller: roles, replicas in sync, failover, truncation, fencing."""

from pathlib import Path

from hanabi import Message
from hanabi.aio import Producer
from hanabi.broker.broker import Broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from tests.broker.replica.replicas import SAFE, running_replicas


async def sent(namesrv: str, count: int, topic: str = "T") -> list[str]:
    async with Producer("p", namesrv=namesrv) as producer:
        return [(await producer.send(Message(topic, f"{topic}-{at}".encode()))).message_id for at in range(count)]


def log_bytes(broker: Broker) -> bytes:
    store, found = broker.store, bytearray()
    at = store.min_log_offset
    while at < store.max_log_offset:
        part = store.read_log(at)
        assert part
        found += part
        at += len(part)
    return bytes(found)


async def test_the_first_broker_becomes_master_and_the_others_join_its_set(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 3, **SAFE) as replicas:
        await replicas.in_sync(1, 2, 3)
        assert not replicas.brokers[1].settings.is_slave
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 10)
        await replicas.same_logs()
        assert len({log_bytes(broker) for broker in replicas.brokers.values()}) == 1


async def test_a_slave_takes_over_and_the_old_master_comes_back_as_a_slave(tmp_path: Path) -> None:
    async with running_replicas(tmp_path, 3, **SAFE) as replicas:
        await replicas.in_sync(1, 2, 3)
        await create_topic(replicas.master, "T")
        await sent(replicas.namesrv, 10)
        await replicas.stop(1)
        await eventually(lambda: sum(not one.settings.is_slave for one in replicas.brokers.values()) == 1, "a master")
        await replicas.in_sync(2, 3)
        await sent(replicas.namesrv, 10)
        await replicas.start(1, **SAFE)
        await replicas.in_sync(1, 2, 3)
        assert replicas.brokers[1].settings.is_slave
        await sent(replicas.namesrv, 10)
        await replicas.same_logs()
        assert len({log_bytes(broker) for broker in replicas.brokers.values()}) == 1
        side = replicas.brokers[1].controller_side
        assert side is not None
        assert side.broker_id == 1
