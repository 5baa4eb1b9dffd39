"""The simple consumer against real brokers: receive, acknowledge, hide for longer or less, several brokers."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

import hanabi
from hanabi.aio import Producer, SimpleConsumer
from hanabi.errors import ConfigError, MQError
from hanabi.grpc.backend.peer import Peer
from hanabi.message import Message
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.embedded import embedded_cluster
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.headers.send import SendMessageV2Header

TOPIC, GROUP = "Orders", "billing"


async def sent(cluster: Cluster, *bodies: bytes, tags: str | None = None) -> None:
    async with Producer("g", config=cluster.config()) as producer:
        for body in bodies:
            await producer.send(Message(TOPIC, body, tags=tags))


def consumer_of(cluster: Cluster, expression: str = "*", **options: object) -> SimpleConsumer:
    consumer = SimpleConsumer(GROUP, config=cluster.config(), **options)  # type: ignore[arg-type]
    consumer.subscribe(TOPIC, expression)
    return consumer


async def test_messages_are_received_hidden_and_acknowledged(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC)
        await sent(cluster, b"a", b"b", b"c")
        async with consumer_of(cluster) as consumer:
            got = await consumer.receive()
            assert sorted(message.body for message in got) == [b"a", b"b", b"c"]
            assert {message.topic for message in got} == {TOPIC}
            assert await consumer.receive(wait_s=0) == []
            await consumer.ack_all(got)
        assert cluster.broker.services.pop.flights.count == 0
        assert sum(cluster.broker.tables.offsets.of(GROUP, TOPIC).values()) == 3


async def test_a_message_that_is_hidden_shortly_comes_again_under_its_own_topic(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        await sent(cluster, b"a")
        async with consumer_of(cluster) as consumer:
            [first] = await consumer.receive()
            longer = await consumer.change_invisible(first, 30)
            assert longer.properties["POP_CK"] != first.properties["POP_CK"]
            await consumer.change_invisible(longer, 0.05)
            [again] = await consumer.receive(wait_s=10)
            assert (again.topic, again.body, again.reconsume_times) == (TOPIC, b"a", 1)
            assert again.message_id == first.message_id
            await consumer.ack(again)
            with pytest.raises(MQError, match="not in flight"):
                await consumer.change_invisible(again, 10)


async def test_a_waiting_consumer_gets_a_message_of_any_broker_and_any_topic_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, brokers=["broker-a", "broker-b"]) as cluster:
        await cluster.create_topic(TOPIC)
        await cluster.create_topic("Payments", brokers=cluster.brokers[1:])
        async with consumer_of(cluster) as consumer, Producer("g", config=cluster.config()) as producer:
            consumer.subscribe("Payments")
            waiting = asyncio.create_task(consumer.receive(wait_s=30))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            await producer.send(Message("Payments", b"paid"))
            [message] = await asyncio.wait_for(waiting, 10)
            assert (message.topic, message.body, message.broker_name) == ("Payments", b"paid", "broker-b")
            await consumer.ack(message)


async def test_members_share_one_queue_and_a_filter_is_the_brokers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        await sent(cluster, *(b"%d" % number for number in range(20)), tags="odd")
        await sent(cluster, b"not wanted", tags="other")
        members = [consumer_of(cluster, "odd", instance=f"m{number}") for number in range(2)]
        got = []
        for member in members:
            async with member:
                found = await member.receive(10)
                await member.ack_all(found)
                got += found
        assert sorted(int(message.body) for message in got) == list(range(20))


async def test_ordered_messages_come_when_those_before_are_acknowledged(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        await sent(cluster, b"a", b"b")
        async with consumer_of(cluster, ordered=True) as consumer:
            [first] = await consumer.receive(1)
            assert await consumer.receive(1, wait_s=0) == []
            await consumer.ack(first)
            [second] = await consumer.receive(1)
            assert (first.body, second.body) == (b"a", b"b")


async def test_calls_that_cannot_work_say_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC)
        consumer = SimpleConsumer(GROUP, config=cluster.config())
        with pytest.raises(MQError, match="not running"):
            await consumer.receive()
        async with consumer:
            with pytest.raises(ConfigError, match="subscribe"):
                await consumer.receive()
            consumer.subscribe(TOPIC)
            with pytest.raises(ConfigError, match="count"):
                await consumer.receive(33)
            with pytest.raises(ConfigError, match="invisible_s"):
                await consumer.receive(invisible_s=0)


@pytest.mark.parametrize("option", [{"batch": 33}, {"wait_s": -1.0}, {"invisible_s": 0.0}, {"start_from": "middle"}])
def test_settings_outside_their_limits_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        SimpleConsumer(GROUP, namesrv="127.0.0.1:9", **option)  # type: ignore[arg-type]


def test_the_blocking_class_does_the_same(tmp_path: Path) -> None:
    with embedded_cluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC)
        with hanabi.Producer("g", namesrv=cluster.namesrv) as producer:
            producer.send(hanabi.Message(TOPIC, b"a"))
        consumer = hanabi.SimpleConsumer(GROUP, namesrv=cluster.namesrv)
        consumer.subscribe(TOPIC)
        with consumer:
            [message] = consumer.receive()
            assert consumer.change_invisible(message, 20).body == b"a"
            consumer.ack(message)
            assert consumer.receive(wait_s=0) == []


async def test_a_receipt_that_the_producer_wrote_is_not_believed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic(TOPIC, queues=1)
        broker = cluster.broker.settings.broker.broker_name
        forged = f"0 {cluster.broker.now_ms()} 60000 0 0 {broker} 0 1"  # of the message behind it
        for body, text in ((b"a", forged), (b"b", "damaged"), (b"c", "")):
            _send_as_4_9(cluster, body, f"UNIQ_KEY\x01{body.decode()}\x02POP_CK\x01{text}")
        async with consumer_of(cluster) as consumer:
            got = await consumer.receive()
            assert [message.body for message in got] == [b"a", b"b", b"c"]
            await consumer.ack(got[0])
        queue = cluster.broker.services.pop.flights.find(TOPIC, GROUP, 0)
        assert queue is not None
        assert sorted(queue.flights) == [1, 2]


def _send_as_4_9(cluster: Cluster, body: bytes, properties: str) -> None:
    """Store a message of a client that our producer would not be."""
    header = SendMessageV2Header(
        producer_group="g",
        topic=TOPIC,
        default_topic="",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=cluster.broker.now_ms(),
        flag=0,
        properties=properties,
        reconsume_times=0,
    )
    request = Command(code=RequestCode.SEND_MESSAGE_V2, body=body, version=VERSION)
    peer = cast(Connection, Peer("127.0.0.1:1", lambda: False))
    reply = cluster.broker.open_handlers[RequestCode.SEND_MESSAGE_V2].handle(header, request, peer)
    assert reply.code == 0  # type: ignore[union-attr]
