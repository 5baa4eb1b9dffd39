"""The tables of a whole slave: equal to its master's, kept through restarts, and not emptied by an odd answer."""

from pathlib import Path

from hanabi.remoting.transport.connector import Connector
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.groups import SubscriptionGroupConfig
from hanabi.wire.codes import RequestCode
from tests.broker.replica.pairs import running_master, running_name_server, running_slave, side_of, synced


async def commit(address: str, group: str, topic: str, offset: int, queue_id: int = 0) -> None:
    connector = Connector()
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
    reply = await connector.request(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert reply.code == 0, reply.remark
    await connector.close()


async def test_topics_groups_and_offsets_of_a_slave_are_its_masters_soon_and_after_a_restart(tmp_path: Path) -> None:
    async with running_name_server(tmp_path) as namesrv, running_master(tmp_path / "master", namesrv) as master:
        await create_topic(master, "Orders", queues=3)
        await master.tables.groups.update(SubscriptionGroupConfig(group_name="billing", retry_max_times=7))
        await commit(master.address, "billing", "Orders", 5, queue_id=2)
        async with running_slave(tmp_path / "slave", namesrv) as slave:
            await eventually(lambda: side_of(slave).sync.rounds, "the tables are copied")
            tables = slave.tables
            assert tables.topics.table() == master.tables.topics.table()
            assert tables.groups.table() == master.tables.groups.table()
            assert tables.offsets.table() == master.tables.offsets.table()
            await master.tables.topics.delete("Orders")
            master.tables.offsets.remove_topic("Orders")
            await create_topic(master, "Invoices")
            await synced(slave)
            assert tables.topics.table() == master.tables.topics.table()
            assert tables.offsets.table().offset_table == {}
            copied = tables.topics.table()
    async with running_slave(tmp_path / "slave", namesrv) as slave:
        assert slave.tables.topics.table() == copied
