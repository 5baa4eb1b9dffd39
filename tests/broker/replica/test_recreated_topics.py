"""A topic that is deleted and created again while its slave is down: the slave has the new one's messages and no offset
of the old one."""

from pathlib import Path

from hanabi.broker.broker import Broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.replica.pairs import running_master, running_name_server, running_slave, synced
from tests.broker.replica.test_queue_ends import send
from tests.broker.talk import connected

TOPIC = "Again"


async def ask(broker: Broker, code: RequestCode, **fields: str) -> None:
    async with connected(broker.bound) as peer:
        reply = await peer.ask(code, fields)
    assert reply.code == ResponseCode.SUCCESS, reply.remark


async def commit(broker: Broker, offset: int) -> None:
    fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "1", "commitOffset": str(offset)}
    await ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, **fields)


async def test_the_offsets_of_a_deleted_topic_do_not_skip_messages_of_its_successor(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with running_name_server(tmp_path) as namesrv:
        async with running_master(first, namesrv) as master:
            await create_topic(master, TOPIC, queues=4)
            async with running_slave(second, namesrv) as slave:
                await send(master, TOPIC, *(b"%d" % number for number in range(7)))
                await commit(master, 7)
                await eventually(lambda: slave.store.max_log_offset == master.store.max_log_offset, "the log is equal")
                await synced(slave)
                assert slave.tables.offsets.find("g", TOPIC, 1) == 7
            await ask(master, RequestCode.DELETE_TOPIC_IN_BROKER, topic=TOPIC)
            await create_topic(master, TOPIC, queues=4)
            assert await send(master, TOPIC, b"a", b"b", b"c") == [0, 1, 2]
            async with running_slave(second, namesrv) as slave:
                await eventually(lambda: slave.store.max_log_offset == master.store.max_log_offset, "the log is equal")
                await synced(slave)
        async with running_master(second, namesrv) as promoted:
            assert promoted.store.reader.max_offset(TOPIC, 1) == 3
            assert promoted.tables.offsets.find("g", TOPIC, 1) in (None, -1, 0)
