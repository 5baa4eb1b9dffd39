"""Bodies: what Java sent is understood, and leaves us again as Java wrote it.

`java_bodies.jsonl` has what the classes of Apache RocketMQ 4.9.8 and 5.3.3 wrote by themselves, outside of any
conversation: each body once with a value in every field and, of 4.9.8, once with nothing but its defaults.
"""

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hanabi.errors import RemoteProtocolError
from hanabi.message import MessageQueue
from hanabi.wire.bodies import (
    acl,
    clients,
    groups,
    ha_status,
    heartbeat,
    locks,
    mappings,
    offsets,
    pop,
    route,
    stats,
    topics,
)
from hanabi.wire.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from hanabi.wire.bodies.mappings import QueueMapping
from hanabi.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from hanabi.wire.bodies.topics import (
    PARTS_MAX,
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    decode_register_body,
    encode_register_body,
)
from hanabi.wire.bodies.v5 import controller
from hanabi.wire.body import Body
from hanabi.wire.command import decode_command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.registry.bodies import REPLY_BODIES, REQUEST_BODIES
from tests.golden_frames import ALL_FRAMES, GoldenFrame

FAMILIES = [acl, clients, controller, groups, ha_status, heartbeat, locks, mappings, offsets, pop, route, stats, topics]
ALL_BODIES = sorted(
    {
        kind
        for family in FAMILIES
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body
    },
    key=lambda kind: kind.__name__,
)
KINDS_BY_NAME = {f"{kind.__module__.rsplit('.', 1)[1]}.{kind.__name__}": kind for kind in ALL_BODIES}


def json_bodies() -> Iterator[tuple[GoldenFrame, bytes]]:
    for golden in ALL_FRAMES:
        body = decode_command(golden.frame[4:]).body
        if body.startswith((b"{", b"[")):
            yield golden, body


JSON_BODIES = list(json_bodies())


def kind_of(golden: GoldenFrame) -> type[Body]:
    return (REPLY_BODIES if golden.response else REQUEST_BODIES)[golden.request_code]


def test_there_are_golden_bodies_of_many_kinds() -> None:
    assert len(JSON_BODIES) == 126
    assert len({kind_of(golden) for golden, _ in JSON_BODIES}) == 20


@pytest.mark.parametrize(("golden", "body"), JSON_BODIES, ids=[str(golden) for golden, _ in JSON_BODIES])
def test_a_golden_body_is_understood_and_written_byte_for_byte(golden: GoldenFrame, body: bytes) -> None:
    kind = kind_of(golden)
    value = decode_body(body, kind)
    assert encode_body(value, standard=kind is TopicRoute) == body
    for standard in (False, True):
        assert decode_body(encode_body(value, standard=standard), kind) == value


JAVA_BODIES = [json.loads(line) for line in Path(__file__).with_name("java_bodies.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", JAVA_BODIES, ids=lambda row: f"{row['version']}-{row['java']}")
def test_what_javas_classes_write_is_understood_and_written_byte_for_byte(row: dict[str, str]) -> None:
    kind = KINDS_BY_NAME[row["body"]]
    value = decode_body(row["text"].encode(), kind)
    written = encode_body(value)
    assert decode_body(written, kind) == value
    dates_for_people = r',"\w+TimeStampStr":"[^"]*"'  # of a QueueTimeSpan; Java writes them and does not read them
    assert written.decode() == re.sub(dates_for_people, "", row["text"])


def test_golden_bodies_are_understood_as_they_are_meant() -> None:
    first: dict[type[Body], Body] = {}
    for golden, body in JSON_BODIES:
        first.setdefault(kind_of(golden), decode_body(body, kind_of(golden)))
    cluster = first[ClusterInfo]
    assert isinstance(cluster, ClusterInfo)
    assert cluster.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
    assert cluster.broker_addr_table["broker-a"].broker_addrs[0] == "127.0.0.1:10971"
    table = first[stats.TopicStatsTable]
    assert isinstance(table, stats.TopicStatsTable)
    assert table.offset_table[MessageQueue("Golden", "broker-a", 2)].max_offset == 7


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_fields_are_declared_in_the_order_in_which_fastjson_writes_them(kind: type[Body]) -> None:
    names = [item.encode_name for item in msgspec.structs.fields(kind)]
    assert names == sorted(names)


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_no_null_is_ever_written(kind: type[Body]) -> None:
    required = {item.name for item in msgspec.structs.fields(kind) if item.required}
    if not required:
        assert b"null" not in encode_body(kind())
    for item in msgspec.structs.fields(kind):
        if item.name not in required and item.default_factory is not msgspec.NODEFAULT:
            assert item.default_factory() is not None


def test_every_body_of_the_registry_belongs_to_a_family() -> None:
    assert {*REQUEST_BODIES.values(), *REPLY_BODIES.values()} <= set(ALL_BODIES)


# ---- routes ----------------------------------------------------------------------------------------------------------

ROUTE = TopicRoute(
    broker_datas=[BrokerData(broker_name="broker-é", cluster="c", broker_addrs={0: "h:1", 2: "h:2"})],
    queue_datas=[QueueData(broker_name="broker-é", perm=6, read_queue_nums=8, write_queue_nums=4)],
    order_topic_conf="broker-é:4",
)


def test_a_route_for_new_clients_has_quoted_keys_and_is_ascii() -> None:
    assert encode_body(ROUTE, standard=True).decode() == (
        r'{"brokerDatas":[{"brokerAddrs":{"0":"h:1","2":"h:2"},"brokerName":"broker-\u00E9","cluster":"c"}],'
        r'"filterServerTable":{},"orderTopicConf":"broker-\u00E9:4",'
        r'"queueDatas":[{"brokerName":"broker-\u00E9","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_a_route_for_old_clients_has_bare_keys() -> None:
    data = encode_body(ROUTE)
    assert '{"brokerAddrs":{0:"h:1",2:"h:2"},"brokerName":"broker-é","cluster":"c"}' in data.decode()
    assert decode_body(data, TopicRoute) == ROUTE


def test_what_5x_says_besides_is_kept() -> None:
    text = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[],"topicQueueMappingByBroker":{"b":{"bname":"b","currIdMap":{0:1},'
        b'"dirty":false,"epoch":9,"scope":"__global__","topic":"T","totalQueues":8}}}'
    )
    value = decode_body(text, TopicRoute)
    assert value.broker_datas[0].enable_acting_master is False
    assert value.topic_queue_mapping_by_broker is not None
    assert value.topic_queue_mapping_by_broker["b"].curr_id_map == {0: 1}
    assert encode_body(value) == text


def test_a_number_that_java_could_not_hold_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"bad QueueData: .*perm"):
        decode_body(b'{"brokerName":"b","perm":2147483648,"readQueueNums":1,"writeQueueNums":1}', QueueData)


# ---- heartbeats ------------------------------------------------------------------------------------------------------


def test_a_heartbeat_may_have_numbers_for_enums_as_the_cpp_client_sends_them() -> None:
    text = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g","messageModel":1,'
        b'"subscriptionDataSet":null,"unitMode":false}],"producerDataSet":null}'
    )
    (consumer,) = decode_body(text, HeartbeatData).consumer_data_set
    assert consumer == ConsumerData(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        group_name="g",
        message_model=MessageModel.CLUSTERING,
    )
    assert consumer.message_model is MessageModel.CLUSTERING


@pytest.mark.parametrize("model", ["2", "-1", '"NOBODY"', "[]", "99999999999999999999"])
def test_an_enum_that_does_not_exist_is_a_protocol_error(model: str) -> None:
    text = f'{{"consumeType":1,"groupName":"g","messageModel":{model}}}'
    with pytest.raises(RemoteProtocolError, match="bad ConsumerData"):
        decode_body(text.encode(), ConsumerData)


# ---- registration ----------------------------------------------------------------------------------------------------

# What RegisterBrokerBody.encode(true) of 4.9.8 and of 5.3.3 made of the values below.
COMPRESSED_BY_4 = bytes.fromhex(
    "78da63606050af564ace2fcd2b492d52b232d5512ac9cc4d2d2e49cc2d50b23234b7343137323534b1303035ae65606060026229d520"
    "d790a048d5e474054320345308f6f473f7718d0f717407ca8abbe7e7a4a4e629982858a04b09452b191ae881a0a195b1011028c50200"
    "9d291d1a"
)
COMPRESSED_BY_5 = bytes.fromhex(
    "78da5d4fc14ac340105dfd04ef4218e8c958766d62d2bd796843402dd652282261b3196330c986cde65042fedd49bd398fb9bc796fe6"
    "0d632c1e419ba1756841863ef44e393ca2ed2bd3828c7c70558344361d4811ad83e8211441ccc3d5c418bba6be5dec3787fd69a14b4f"
    "101ebdf7f43579de6487a7c41b67114f4c5d60eb055efc6f0a77b4ba57252eddb94390b04db73b983d371f20f87286902b4e059fc45e"
    "51bb11f25635b33ab7e607edbd021ff4606d5abc280a397229261f8acaba33c82f55f7e80376467f835cd37fda5c4e6559599b5cd559"
    "467667ba4a13f997f4423855bf0d38600f329e7e01d5f652fa"
)
RETRY = TopicConfig(topic_name="%RETRY%cg", read_queue_nums=1, write_queue_nums=1)
GOLDEN = TopicConfig(topic_name="Golden", read_queue_nums=4, write_queue_nums=8)
REGISTERED_BY_4 = RegisterBrokerBody(
    filter_server_list=["10.0.0.1:30000"],
    topic_config_serialize_wrapper=TopicConfigTable(
        data_version=DataVersion(counter=5, timestamp=1794725148053),
        topic_config_table={"%RETRY%cg": RETRY, "Golden": GOLDEN},
    ),
)
REGISTERED_BY_5 = RegisterBrokerBody(
    filter_server_list=["10.0.0.1:30000"],
    topic_config_serialize_wrapper=TopicConfigTable(
        data_version=DataVersion(counter=5, timestamp=1794725148053, state_version=7),
        topic_config_table={
            "%RETRY%cg": msgspec.structs.replace(RETRY, attributes={}),
            "Golden": msgspec.structs.replace(GOLDEN, attributes={"+message.type": "FIFO"}),
        },
        topic_queue_mapping_info_map={
            "Golden": QueueMapping(
                topic="Golden", bname="broker-a", epoch=9, total_queues=8, curr_id_map={0: 1}, scope="__global__"
            )
        },
    ),
)


def test_a_compressed_registration_is_that_of_java() -> None:
    assert decode_register_body(COMPRESSED_BY_4, compressed=True) == REGISTERED_BY_4
    layout = zlib.decompress(encode_register_body(REGISTERED_BY_4, compress=True))
    assert layout == zlib.decompress(COMPRESSED_BY_4)


def test_a_compressed_registration_of_5x_is_understood() -> None:
    assert decode_register_body(COMPRESSED_BY_5, compressed=True) == REGISTERED_BY_5


@pytest.mark.parametrize("compress", [False, True])
def test_a_registration_goes_there_and_back(compress: bool) -> None:
    body = REGISTERED_BY_4
    assert decode_register_body(encode_register_body(body, compress), compress) == body
    attributes = {"a b": "c d", "quote": '"'}
    topic = msgspec.structs.replace(GOLDEN, attributes=attributes)
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table={"Golden": topic}, topic_queue_mapping_info_map={}
        )
    )
    assert decode_register_body(encode_register_body(body, compress), compress) == body


def test_a_4x_name_server_gets_no_attributes_and_no_mappings_it_did_not_ask_for() -> None:
    layout = zlib.decompress(encode_register_body(REGISTERED_BY_4, compress=True))
    assert b"SINGLE_TAG\0" in layout
    assert layout.endswith(b'["10.0.0.1:30000"]')


def compressed(*parts: bytes) -> bytes:
    return zlib.compress(b"".join(parts))


def part(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


VERSION = part(b'{"counter":1,"timestamp":2}')
ONE = (1).to_bytes(4, "big")
NONE = bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        COMPRESSED_BY_4[:-30],
        compressed(),
        compressed(VERSION),
        compressed(part(b"")),
        compressed(b"\xff\xff\xff\xff"),
        compressed(b"\x7f\xff\xff\xff"),
        compressed(VERSION, b"\x7f\xff\xff\xff"),
        compressed(VERSION, b"\xff\xff\xff\xff"),
        compressed(VERSION, ONE, part(b"T 1 1 6"), part(b"[]")),
        compressed(VERSION, ONE, part(b"T 1 x 6 SINGLE_TAG"), part(b"[]")),
        compressed(VERSION, ONE, part(b"T 1 99999999999 6 SINGLE_TAG"), part(b"[]")),
        compressed(VERSION, ONE, part(b"\xff 1 1 6 SINGLE_TAG"), part(b"[]")),
        compressed(VERSION, ONE, part(b"T 1 1 6 SINGLE_TAG {"), part(b"[]")),
        compressed(VERSION, NONE, part(b"{}")),
        compressed(VERSION, NONE, part(b"[]"), b"\0"),
        compressed(VERSION, NONE, part(b"[]"), ONE),
        compressed(VERSION, NONE, part(b"[]"), ONE, part(b"[]")),
    ],
)
def test_a_broken_registration_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_register_body(data, compressed=True)


def test_a_zip_bomb_is_refused_before_it_unfolds() -> None:
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 9)
    assert len(bomb) < 100_000
    with pytest.raises(RemoteProtocolError, match="inflates to more than"):
        decode_register_body(bomb, compressed=True)
    with pytest.raises(RemoteProtocolError, match="inflates to more than 100 bytes"):
        decode_register_body(COMPRESSED_BY_4, compressed=True, inflated_bytes_max=100)


def count(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_the_parts_of_a_compressed_registration_share_one_limit() -> None:
    line, mapping = part(b"T 1 1 6 SINGLE_TAG"), part(b'{"currIdMap":{0:1},"topic":"T"}')
    most = PARTS_MAX // 2
    body = compressed(VERSION, count(most), line * most, part(b"[]"), count(most), mapping * most)
    assert len(decode_register_body(body, compressed=True).topic_config_serialize_wrapper.topic_config_table) == 1
    body = compressed(VERSION, count(most), line * most, part(b"[]"), count(most + 1), mapping * (most + 1))
    with pytest.raises(RemoteProtocolError, match="more than 50000 topics and mappings"):
        decode_register_body(body, compressed=True)


@pytest.mark.parametrize(
    "parts",
    [
        [b"{counter:1}", NONE, part(b"[]")],
        [VERSION, ONE, part(b"T 1 1 6 SINGLE_TAG {a:1}"), part(b"[]")],
        [VERSION, ONE, part(b"T 1 1 6 SINGLE_TAG {'a':'b'}"), part(b"[]")],
        [VERSION, NONE, part(b"['f:1']")],
        [VERSION, NONE, part(b"[]"), ONE, part(b"{topic:'T'}")],
        [VERSION, NONE, part(b"[]"), ONE, part(b"{},{}")],
    ],
)
def test_in_parts_nothing_is_read_the_dear_way(parts: list[bytes]) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_register_body(compressed(*parts), compressed=True)


def test_tens_of_thousands_of_topics_are_read_compressed_or_not() -> None:
    table = {name: msgspec.structs.replace(GOLDEN, topic_name=name) for name in map(str, range(50_000))}
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable(topic_config_table=table))
    for compress in (False, True):
        assert decode_register_body(encode_register_body(body, compress), compress) == body
