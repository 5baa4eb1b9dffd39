"""Tests of what an operator asks a running consumer, through its broker."""

from pathlib import Path

from hanabi.client.consumer.listening.listener import ConsumeLater
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.message import StoredMessage
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from hanabi.wire.bodies.offsets import ConsumerStatus
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.client import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader
from tests.client.consumer.pushing import Inbox, committed, numbered, send


async def _ask(cluster: Cluster, code: int, header: Header) -> Command:
    operator = Connector()
    try:
        reply = await operator.request(cluster.broker.address, code, header)
    finally:
        await operator.close()
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


async def test_running_info_tells_queues_subscriptions_and_figures(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        await send(cluster, numbered(10))
        async with Inbox(cluster, "g", expression="*") as inbox:
            await eventually(lambda: len(inbox.messages) == 10)
            header = GetConsumerRunningInfoHeader(
                consumer_group="g", client_id=inbox.consumer.client_id, jstack_enable=True
            )
            reply = await _ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            info = decode_body(reply.body, ConsumerRunningInfo)
        held = {queue.queue_id: facts for queue, facts in info.mq_table.items() if queue.topic == "T"}
        assert {number: facts.commit_offset for number, facts in held.items()} == {0: 5, 1: 5}
        assert all(facts.last_pull_timestamp > 0 and not facts.droped for facts in held.values())
        assert {subscription.topic for subscription in info.subscription_set} == {"T", "%RETRY%g"}
        assert info.status_table["T"].consume_ok_tps > 0
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.jstack


async def test_consumer_status_tells_the_offsets_in_memory(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(3))
        async with Inbox(cluster, "g") as inbox:
            await eventually(lambda: len(inbox.messages) == 3)
            header = GetConsumerStatusHeader(topic="T", group="g")
            reply = await _ask(cluster, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
            table = decode_body(reply.body, ConsumerStatus).consumer_table[inbox.consumer.client_id]
            assert [(queue.topic, offset) for queue, offset in table.items()] == [("T", 3)]


async def test_a_reset_makes_the_group_go_on_there_whatever_it_has_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=2)
        await send(cluster, numbered(10))
        for ordered in (False, True):
            group = f"g-{ordered}"
            async with Inbox(cluster, group, ordered=ordered, persist_offsets_s=0.05) as inbox:
                await eventually(lambda group=group: committed(cluster, group) == {0: 5, 1: 5})  # type: ignore[misc]
                header = ResetOffsetHeader(topic="T", group=group, timestamp=0, is_force=True)
                await _ask(cluster, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
                await eventually(lambda inbox=inbox: len(inbox.messages) == 20)  # type: ignore[misc]
            assert sorted(inbox.bodies[10:]) == numbered(10)
            assert committed(cluster, group) == {0: 5, 1: 5}


async def test_an_operator_has_one_message_consumed_and_hears_how_it_went(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        await send(cluster, numbered(1))
        consumer = PushConsumer("g", config=cluster.config(), consume_from="first")
        consumer.subscribe("T")
        seen: list[StoredMessage] = []

        @consumer.listener
        async def listen(messages: list[StoredMessage]) -> None:
            seen.extend(messages)
            if len(seen) == 3:
                raise ConsumeLater("not now")
            if len(seen) == 4:
                raise ValueError("broken")

        results: list[ConsumeMessageDirectlyResult] = []
        async with consumer:
            await eventually(lambda: len(seen) == 1)
            header = ConsumeMessageDirectlyHeader(
                consumer_group="g", client_id=consumer.client_id, msg_id=seen[0].offset_message_id
            )
            for _ in range(3):
                reply = await _ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
                results.append(decode_body(reply.body, ConsumeMessageDirectlyResult))
        assert [result.consume_result for result in results] == ["CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION"]
        assert results[2].remark == "ValueError: broken"
        assert {message.message_id for message in seen} == {seen[0].message_id}
        assert committed(cluster, "g") == {0: 1}
