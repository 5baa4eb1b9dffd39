"""One pull: whom it asks, what it makes of the answer."""

from pathlib import Path

import msgspec
import pytest

from hanabi.client.cluster.core import Core
from hanabi.client.cluster.queue_access import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.pull_request import (
    Pulling,
    PullResult,
    PullStatus,
    decode_pulled,
    restored,
    wanted,
)
from hanabi.client.consumer.subscription import sql, subscription_data
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConnectError, RemoteProtocolError, SystemBusy
from hanabi.message import Message, MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.transport.server import RemotingServer
from hanabi.testing.cluster import running_cluster
from hanabi.wire.bodies.route import BrokerData, QueueData, TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.namesrv import GetRouteHeader
from hanabi.wire.headers.pull import PullMessageHeader, PullMessageReplyHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.message.compression import CompressionType, compress
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import encode_record
from tests.steps import steps

QUEUE = MessageQueue("Orders", "broker-a", 0)
ALL = subscription_data("Orders", "*", 7)
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def record(offset: int, body: bytes = b"x", *, sys_flag: int = 0, **properties: str) -> bytes:
    return bytes(
        encode_record(
            topic=b"Orders",
            body=body,
            properties=encode_properties(properties),
            queue_id=0,
            born_timestamp_ms=1,
            born_host=HOST,
            store_timestamp_ms=2,
            store_host=HOST,
            queue_offset=offset,
            log_offset=100 * offset,
            sys_flag=sys_flag,
        )
    )


def test_tags_are_compared_by_text_as_brokers_compare_hash_codes_alone() -> None:
    # "Aa" and "BB" have the same hash code in Java.
    messages, _ = decode_pulled(record(0, TAGS="Aa") + record(1, TAGS="BB") + record(2), QUEUE, 3)
    one, two = subscription_data("Orders", "Aa", 0), subscription_data("Orders", "BB || CC", 0)
    assert one.code_set[0] in two.code_set
    assert [message.tags for message in wanted(messages, one)] == ["Aa"]
    assert [message.tags for message in wanted(messages, two)] == ["BB"]
    assert wanted(messages, ALL) == messages
    assert wanted(messages, subscription_data("Orders", sql("a > 1"), 0)) == messages


def test_a_message_that_cannot_be_read_stops_the_queue_there() -> None:
    bad = record(2, b"this is not zlib", sys_flag=1)
    messages, next_offset = decode_pulled(record(0) + record(1) + bad + record(3), QUEUE, 4)
    assert ([message.queue_offset for message in messages], next_offset) == ([0, 1], 2)
    with pytest.raises(RemoteProtocolError, match=r"topic Orders, queue 0 of broker-a.*bad zlib body"):
        decode_pulled(bad + record(3), QUEUE, 4)


def test_queues_that_moved_between_brokers_count_on() -> None:
    messages, next_offset = decode_pulled(record(0) + record(1), QUEUE, 102, 100)
    assert ([message.queue_offset for message in messages], next_offset) == ([100, 101], 102)


INNER = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def inner_batch(offset: int, *bodies: bytes, sys_flag: int = INNER) -> bytes:
    """Several messages as 5.x keeps them in a topic whose queues are of the type BatchCQ."""
    parts = [
        BatchMessage(index, body, encode_properties({"TAGS": "t", "KEYS": f"k{index} l", "UNIQ_KEY": f"ID{index}"}))
        for index, body in enumerate(bodies)
    ]
    return record(offset, encode_batch(parts), sys_flag=sys_flag, INNER_NUM=str(len(bodies)))


def test_inner_batches_of_5_x_are_taken_apart() -> None:
    body = record(6) + inner_batch(7, b"a", b"b", b"c") + record(10)
    messages, next_offset = decode_pulled(body, QUEUE, 11, offset=6)
    assert [(message.queue_offset, message.body) for message in messages] == [
        (6, b"x"),
        (7, b"a"),
        (8, b"b"),
        (9, b"c"),
        (10, b"x"),
    ]
    assert next_offset == 11
    middle = messages[2]
    assert (middle.tags, middle.keys, middle.message_id, middle.flag) == ("t", ("k1", "l"), "ID1", 1)
    assert (middle.log_offset, middle.topic, middle.broker_name) == (700, "Orders", "broker-a")
    compressed = encode_batch([BatchMessage(0, b"z", b"")])
    packed = record(3, compress(compressed, CompressionType.ZLIB, 5), sys_flag=sysflag.with_compression(INNER, 3))
    (only,), _ = decode_pulled(packed, QUEUE, 4)
    assert only.body == b"z"


def test_who_pulls_from_the_middle_of_an_inner_batch_gets_the_rest_of_it() -> None:
    messages, _ = decode_pulled(inner_batch(7, b"a", b"b", b"c") + record(10), QUEUE, 11, offset=9)
    assert [message.body for message in messages] == [b"c", b"x"]


def test_an_inner_batch_that_cannot_be_read_stops_the_queue_there() -> None:
    broken = record(1, b"no batch", sys_flag=INNER)
    messages, next_offset = decode_pulled(record(0) + broken, QUEUE, 4)
    assert ([message.queue_offset for message in messages], next_offset) == ([0], 1)
    with pytest.raises(RemoteProtocolError, match=r"topic Orders, queue 0 of broker-a.*batch at 0"):
        decode_pulled(broken, QUEUE, 4, offset=1)


def test_a_batch_that_is_not_to_be_taken_apart_stays_whole() -> None:
    (message,), _ = decode_pulled(inner_batch(0, b"a", b"b", sys_flag=sysflag.INNER_BATCH), QUEUE, 2)
    assert message.body.count(b"UNIQ_KEY") == 2


def test_topics_are_what_producers_named_them() -> None:
    (message,), _ = decode_pulled(record(0, RETRY_TOPIC="shop%Orders"), QUEUE, 1)
    assert restored(message, "") is message
    again = msgspec.structs.replace(message, topic="%RETRY%shop%billing")
    assert restored(again, "").topic == "shop%Orders"
    assert restored(again, "shop").topic == "Orders"
    assert restored(msgspec.structs.replace(message, topic="shop%Orders"), "shop").topic == "Orders"


class ScriptedBroker:
    """A master or a slave that says what it is told to, on a real socket; it can also be asked for the route."""

    def __init__(self) -> None:
        self.asked: list[PullMessageHeader] = []
        self.route = TopicRoute()
        self.suggests = 0
        self.refuses = False
        self._server = RemotingServer(
            {
                RequestCode.PULL_MESSAGE: Handler(PullMessageHeader, self._pull),
                RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler(GetRouteHeader, self._route),
            }
        )
        self.address = ""

    async def start(self) -> None:
        host, port = await self._server.start("127.0.0.1", 0)
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        await self._server.stop()

    def _route(self, *_: object) -> Reply:
        return Reply(body=encode_body(self.route))

    def _pull(self, header: PullMessageHeader, *_: object) -> Reply:
        self.asked.append(header)
        if self.refuses:  # as 5.x slaves without slaveReadEnable
            return Reply(ResponseCode.SYSTEM_BUSY, "start flow control for a while")
        offset = header.queue_offset
        told = PullMessageReplyHeader(
            suggest_which_broker_id=self.suggests, next_begin_offset=offset + 1, min_offset=0, max_offset=100
        )
        return Reply(ResponseCode.SUCCESS, header=told, body=record(offset))


class Pair:
    """A master and a slave of one name, and a core that knows them."""

    def __init__(self) -> None:
        self.master, self.slave = ScriptedBroker(), ScriptedBroker()

    async def __aenter__(self) -> "Pair":
        await self.master.start()
        await self.slave.start()
        addresses = {0: self.master.address, 1: self.slave.address}
        self.master.route = TopicRoute(
            broker_datas=[BrokerData(cluster="c", broker_name="broker-a", broker_addrs=addresses)],
            queue_datas=[
                QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
            ],
        )
        self.core = await Core.acquire(ClientConfig(namesrv=self.master.address))
        self.pulling = Pulling(self.core, "readers")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.core.release()
        await self.master.stop()
        await self.slave.stop()

    async def pull(self, offset: int) -> PullResult:
        return await self.pulling.pull(QUEUE, offset, ALL, commit_offset=offset, timeout=5)


async def test_a_suggested_slave_is_asked_next_and_hears_of_no_offsets() -> None:
    async with Pair() as pair:
        pair.master.suggests = pair.slave.suggests = 1
        result = await pair.pull(3)
        assert (result.status, result.next_offset, result.suggested_broker_id) == (PullStatus.FOUND, 4, 1)
        pair.slave.suggests = 0
        await pair.pull(4)
        await pair.pull(5)
        assert [header.queue_offset for header in pair.master.asked] == [3, 5]
        assert [header.queue_offset for header in pair.slave.asked] == [4]
        assert pair.master.asked[0].sys_flag == COMMIT_OFFSET | SUSPEND
        assert pair.slave.asked[0].sys_flag == SUSPEND


async def test_when_the_master_is_gone_the_slave_is_asked_and_the_other_way_round() -> None:
    async with Pair() as pair:
        await pair.pull(0)
        await pair.master.stop()
        with pytest.raises(ConnectError, match="broker-a"):
            await pair.pull(1)
        assert (await pair.pull(1)).next_offset == 2
        assert (await pair.pull(2)).next_offset == 3, "the slave suggests the master, which is known to be silent"


async def test_a_slave_that_refuses_is_not_asked_again() -> None:
    async with Pair() as pair:
        pair.master.suggests = 1
        await pair.pull(0)
        pair.slave.refuses = True
        with pytest.raises(SystemBusy):
            await pair.pull(1)
        assert (await pair.pull(1)).next_offset == 2
        assert [header.queue_offset for header in pair.master.asked] == [0, 1]


async def test_the_request_has_the_fields_of_apaches() -> None:
    async with Pair() as pair:
        await pair.pulling.pull(QUEUE, 9, subscription_data("Orders", "a", 7), count=5, hold_s=15, timeout=5)
        telling = Pulling(pair.core, "readers", tells_subscription=True, lite=True)
        await telling.pull(QUEUE, 9, subscription_data("Orders", "a", 7), hold_s=0, timeout=5)
        pushed, lite = pair.master.asked
        assert pushed == PullMessageHeader(
            consumer_group="readers",
            topic="Orders",
            queue_id=0,
            queue_offset=9,
            max_msg_nums=5,
            sys_flag=SUSPEND,
            commit_offset=0,
            suspend_timeout_millis=15_000,
            sub_version=7,
            expression_type="TAG",
            target_broker="broker-a",
        )
        assert (lite.sys_flag, lite.subscription, lite.sub_version) == (SUBSCRIPTION | 1 << 4, "a", 0)


async def test_a_compressed_body_arrives_unpacked(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("Orders", queues=1)
        body = b"to be compressed " * 1_000
        async with Producer("writers", config=cluster.config()) as producer:
            await producer.send(Message("Orders", body))
        core = await Core.acquire(cluster.config())
        try:
            pulling = Pulling(core, "readers", tells_subscription=True)
            (message,) = (await pulling.pull(QUEUE, 0, ALL, hold_s=1)).messages
            assert message.body == body
            assert message.size < len(body)
            assert message.queue == QUEUE
        finally:
            await core.release()


def test_decoding_takes_few_steps_a_message() -> None:
    body = b"".join(record(offset, b"x" * 1024, TAGS="a", KEYS="k", UNIQ_KEY="F" * 32) for offset in range(32))
    assert steps(lambda: decode_pulled(body, QUEUE, 32)) / 32 < 60
