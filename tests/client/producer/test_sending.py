"""One producer, one broker of ours: what is sent is what is stored."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from hanabi.client.hooks import SendContext
from hanabi.client.producer.config import ProducerConfig
from hanabi.client.producer.producer import Producer
from hanabi.client.producer.routing.selectors import by_hash
from hanabi.client.send_result import SendStatus
from hanabi.errors import ConfigError, InvalidMessage, MQError, TopicNotExist
from hanabi.message import Message, MessageQueue
from hanabi.testing.cluster import running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.message import sysflag
from hanabi.wire.message.compression import CompressionType
from hanabi.wire.message.message_id import decode_unique_id
from hanabi.wire.message.properties import parse_properties, sending_properties
from tests.client.producer.scripted import look_up, scripted_broker, until_it_has


async def test_a_message_arrives_with_everything_that_it_carries(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("orders", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("Orders")
        message = Message("Orders", b"coffee", tags="created", keys=["42", "k-7"], properties={"shop": "Köln"}, flag=9)
        result = await producer.send(message)
        assert result.status is SendStatus.SEND_OK
        assert (result.queue.topic, result.queue.broker_name) == ("Orders", "broker-a")
        assert result.queue_offset == 0
        stored = await look_up(cluster.broker.address, result)
        assert (stored.topic, stored.body, stored.tags) == ("Orders", b"coffee", "created")
        assert stored.keys == ("42", "k-7")
        assert stored.properties["shop"] == "Köln"
        assert stored.flag == 9
        assert stored.message_id == result.message_id
        assert stored.offset_message_id == result.offset_message_id
        assert stored.queue == result.queue
        assert decode_unique_id(result.message_id).made_at_ms(
            time.time_ns() // 1_000_000, time.localtime().tm_gmtoff * 1000
        ) == pytest.approx(time.time() * 1000, abs=60_000)


async def test_queues_take_turns_and_ids_are_unique(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("orders", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T", queues=4)
        results = [await producer.send(Message("T", b"x")) for _ in range(8)]
        assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert len({result.message_id for result in results}) == 8


async def test_a_queue_or_a_selector_decides_where_it_goes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("orders", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T", queues=4)
        queue = MessageQueue("T", "broker-a", 2)
        assert (await producer.send(Message("T", b"x"), queue=queue)).queue == queue
        assert await producer.queues("T") == [MessageQueue("T", "broker-a", number) for number in range(4)]
        for key in ("order-17", 7, -5):
            first = await producer.send(Message("T", b"x"), selector=by_hash, arg=key)
            again = await producer.send(Message("T", b"x"), selector=by_hash, arg=key)
            assert first.queue == again.queue
        last = await producer.send(Message("T", b"x"), selector=lambda queues, message, arg: queues[arg], arg=-1)
        assert last.queue.queue_id == 3
        with pytest.raises(InvalidMessage, match="one of topic T"):
            await producer.send(Message("Other", b"x"), queue=queue)


@pytest.mark.parametrize("name", ["zlib", "lz4", "zstd"])
async def test_large_bodies_travel_compressed_unless_that_makes_them_larger(tmp_path: Path, name: str) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        Producer("g", namesrv=cluster.namesrv, compression=name) as producer,
    ):
        await cluster.create_topic("T")
        for body, packed in ((b"x" * 4096, True), (b"x" * 4095, False)):
            result = await producer.send(Message("T", body))
            stored = await look_up(cluster.broker.address, result)
            assert stored.body == body
            assert bool(stored.sys_flag & sysflag.COMPRESSED) is packed
            assert (stored.size < 1000) is packed
            if packed:
                assert sysflag.compression_number(stored.sys_flag) == CompressionType[name.upper()]
        noise = random.Random(5).randbytes(9000)
        result = await producer.send(Message("T", noise))
        stored = await look_up(cluster.broker.address, result)
        assert stored.body == noise
        assert not stored.sys_flag & sysflag.COMPRESSED


async def test_many_are_sent_at_once_and_the_results_are_in_order(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        Producer("g", namesrv=cluster.namesrv, pipeline_depth=50) as producer,
    ):
        await cluster.create_topic("T")
        bodies = [b"%d" % number for number in range(500)]
        results = await producer.send_many(Message("T", body) for body in bodies)
        assert len(results) == 500
        for number in (0, 1, 250, 499):
            assert (await look_up(cluster.broker.address, results[number])).body == bodies[number]


async def test_what_fails_of_many_stands_in_its_place_or_is_raised_at_the_end(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        messages = [Message("T", b"a"), Message("T", b""), Message("T", b"c")]
        results = await producer.send_many(messages, return_exceptions=True)
        assert isinstance(results[1], InvalidMessage)
        assert [isinstance(result, Exception) for result in results] == [False, True, False]
        with pytest.raises(InvalidMessage, match="at least 1 byte") as raised:
            await producer.send_many(messages)
        assert "1 of 3 messages failed" in raised.value.__notes__[0]


async def test_one_way_messages_arrive_too(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T", queues=1)
        for number in range(50):
            await producer.send_oneway(Message("T", b"%d" % number))
        await until_it_has(cluster.broker.address, MessageQueue("T", "broker-a", 0), 50)


async def test_a_broker_that_reads_slowly_slows_one_way_sends_down_but_loses_none(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T", queues=1)
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config) as producer:
            body = random.Random(3).randbytes(500_000)
            for _ in range(40):  # more than the connection's buffer holds
                await within(producer.send_oneway(Message("T", body), timeout=9))
            await eventually(lambda: len(scripted.sent) == 40, "the last of them")


async def test_delays_are_a_level_or_a_moment(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("T")
        by_level = await producer.send(Message("T", b"later", delay_level=1))
        stored = await look_up(cluster.broker.address, by_level)
        assert stored.topic == "SCHEDULE_TOPIC_XXXX"
        assert stored.properties["REAL_TOPIC"] == "T"
        moment = time.time_ns() // 1_000_000 + 60_000
        by_time = await producer.send(Message("T", b"later", deliver_time_ms=moment))
        stored = await look_up(cluster.broker.address, by_time)
        assert stored.topic != "T"
        assert str(moment) in stored.properties.values()


async def test_what_is_wrong_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config, message_bytes_max=100) as producer:
            await cluster.create_topic("T")
            for message in (
                Message("", b"x"),
                Message("T", b""),
                Message("T", b"x" * 101),
                Message("T", b"x", properties={"TAGS": "mine"}),
                Message("T", b"x", properties={"a": "b\x02c"}),
                Message("T", b"x", properties={"a": "b" * 40_000}),
                Message("SELF_TEST_TOPIC", b"x"),
            ):
                with pytest.raises(InvalidMessage):
                    await producer.send(message)
            assert scripted.sent == []


WRONG_TYPES: list[tuple[Any, str]] = [
    ({"tags": ["a"]}, "tags must be one text"),
    ({"tags": ["a"], "keys": ["k"]}, "tags must be one text"),
    ({"tags": 5}, "tags must be one text"),
    ({"keys": [["a"]]}, "keys must be texts, and .* is none"),
    ({"properties": {"a": 1}}, "properties must have texts as names and values, not 'a': 1"),
    ({"properties": {"a": ["x"]}}, "properties must have texts as names and values"),
    ({"properties": {1: "x"}}, "properties must have texts as names and values"),
    ({"properties": "abc"}, "properties must be a dict, not 'abc'"),
    ({"delay_level": "3"}, "delay_level and deliver_time_ms must be int"),
    ({"deliver_time_ms": 1.5e12}, "delay_level and deliver_time_ms must be int"),
]


async def test_a_wrong_type_is_told_by_the_name_of_its_field(tmp_path: Path) -> None:
    class Hook:
        def before_send(self, context: SendContext) -> None:
            pass

        def after_send(self, context: SendContext) -> None:
            pass

    async with (
        running_cluster(tmp_path) as cluster,
        Producer("g", namesrv=cluster.namesrv) as plain,
        Producer("g2", namesrv=cluster.namesrv, hooks=[Hook()]) as hooked,
    ):
        for producer in (plain, hooked):
            for fields, said in WRONG_TYPES:
                with pytest.raises(InvalidMessage, match=said):
                    await producer.send(Message("T", b"x", **fields))
            no_message: Any = "Orders"
            said = r"must be a hanabi\.Message\(topic, body\), not str"
            for sending in (
                producer.send(no_message),
                producer.send(no_message, selector=by_hash, arg=1),
                producer.send_oneway(no_message),
                producer.send_many([no_message]),
                producer.send_batch([no_message]),
                producer.request(no_message),
            ):
                with pytest.raises(InvalidMessage, match=said):
                    await sending


async def test_a_topic_that_nobody_has_or_makes_says_which_name_servers_were_asked(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, auto_create_topic=False) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        with pytest.raises(TopicNotExist, match=f"Nowhere.*{cluster.namesrv}.*autoCreateTopicEnable"):
            await producer.send(Message("Nowhere", b"x"))


async def test_namespaces_are_put_on_and_taken_off(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("shop%T")
        async with Producer("g", namesrv=cluster.namesrv, namespace="shop") as producer:
            result = await producer.send(Message("T", b"x"))
            assert result.queue.topic == "T"
            stored = await look_up(cluster.broker.address, result)
            assert stored.topic == "shop%T"
            assert stored.properties["INSTANCE_ID"] == "shop"
            assert (await producer.queues("T"))[0].topic == "T"
            queue = MessageQueue("T", "broker-a", 1)
            assert (await producer.send(Message("T", b"x"), queue=queue)).queue == queue


async def test_the_request_has_the_fields_of_javas(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config) as producer:
            before = time.time_ns() // 1_000_000
            result = await producer.send(Message("T", b"x", tags="t", flag=3))
            header, body = scripted.sent[0]
            assert body == b"x"
            assert (header.producer_group, header.topic, header.default_topic) == ("g", "T", "TBW102")
            assert (header.default_topic_queue_nums, header.sys_flag, header.flag) == (4, 0, 3)
            assert (header.reconsume_times, header.max_reconsume_times) == (0, None)
            assert (header.unit_mode, header.batch, header.target_broker) == (False, False, "broker-a")
            assert 0 <= header.born_timestamp - before < 10_000
            pairs = dict(pair.split("\x01") for pair in (header.properties or "").split("\x02"))
            assert pairs == {"TAGS": "t", "WAIT": "true", "UNIQ_KEY": result.message_id}


async def test_the_short_way_to_properties_gives_the_same_as_the_long_one(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, scripted_broker() as scripted:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: scripted.address})
        async with Producer("g", config=config) as producer:
            for message in (
                Message("T", b"x", tags="a"),
                Message("T", b"x", tags="a"),
                Message("T", b"x", tags="a", wait_stored=False),
                Message("T", b"x", tags="a", delay_level=2),
                Message("T", b"x", tags="b"),
                Message("T", b"x"),
                Message("T", b"x", tags="a", keys=["k"]),
                Message("T", b"x", tags="a"),
            ):
                result = await producer.send(message)
                sent = parse_properties(scripted.sent[-1][0].properties or "")
                assert sent == {**sending_properties(message), "UNIQ_KEY": result.message_id}


async def test_a_producer_says_when_it_does_not_run(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        producer = Producer("orders", namesrv=cluster.namesrv)
        with pytest.raises(MQError, match="group orders is not running"):
            await producer.send(Message("T", b"x"))
        await producer.start()
        with pytest.raises(MQError, match="started already"):
            await producer.start()
        await producer.shutdown()
        await producer.shutdown()
        with pytest.raises(MQError, match="is not running"):
            await producer.send(Message("T", b"x"))
        await producer.start()
        await cluster.create_topic("T")
        await producer.send(Message("T", b"x"))
        await producer.shutdown()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"send_timeout_s": 0}, "send_timeout_s must be more than 0"),
        ({"send_timeout_s": float("nan")}, "send_timeout_s must be more than 0"),
        ({"compression_level": 10}, "compression_level of zlib must be between 0 and 9, not 10"),
        ({"compression": "zstd", "compression_level": 23}, "compression_level of zstd must be between 1 and 22"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"compression": "gzip"}, 'must be "zlib", "lz4" or "zstd"'),
        ({"in_flight_max": 0}, "in_flight_max must be at least 1"),
        ({"default_topic": "a b"}, "default_topic"),
        ({"retrys": 3}, r"unknown option 'retrys': did you mean retries\?"),
        ({"colour": 3}, "unknown option 'colour'; there are namesrv, .*, send_timeout_s, "),
    ],
)
def test_a_bad_option_names_itself(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Producer("g", namesrv="127.0.0.1:9876", **options)


def test_settings_may_be_given_whole_and_options_beside_them() -> None:
    producer = Producer("g", namesrv="127.0.0.1:9876", settings=ProducerConfig(retries=5), send_timeout_s=1.5)
    assert (producer.settings.retries, producer.settings.send_timeout_s) == (5, 1.5)
