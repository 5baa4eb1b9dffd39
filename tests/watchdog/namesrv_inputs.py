"""The worst legal input of every request code that a name server answers. It knows the 20,000 topics of the broker."""

import zlib
from typing import Final

from hanabi.namesrv.kv_config import VALUE_BYTES_MAX
from hanabi.wire.bodies.route import QueueData, TopicRoute
from hanabi.wire.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.namesrv import (
    AddWritePermHeader,
    BrokerHeartbeatHeader,
    DeleteKVConfigHeader,
    DeleteTopicInNamesrvHeader,
    GetBrokerMemberGroupHeader,
    GetKVConfigHeader,
    GetKVListHeader,
    GetRouteHeader,
    GetTopicsByClusterHeader,
    PutKVConfigHeader,
    QueryDataVersionHeader,
    RegisterBrokerHeader,
    RegisterTopicHeader,
    UnregisterBrokerHeader,
    WipeWritePermHeader,
)
from tests.broker.talk import connected
from tests.watchdog.broker_inputs import MANY, SOME
from tests.watchdog.large_home import topic_name
from tests.watchdog.worst_input import Request, World, Worst, times

CLUSTER: Final = "DefaultCluster"
OTHER_CLUSTER: Final = "Other"
VALUE: Final = "v" * VALUE_BYTES_MAX


def _topics_of(name: str) -> bytes:
    """Register as many topics as a broker may have."""
    table = {f"{name}-{number:05d}": TopicConfig(topic_name=f"{name}-{number:05d}") for number in range(49_000)}
    return encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable(topic_config_table=table)))


def _registration(world: World) -> Request:
    name = f"other{world.round}"
    body = _topics_of(name)
    header = RegisterBrokerHeader(
        broker_name=name,
        broker_addr=f"127.0.0.2:{world.round + 1}",
        cluster_name=OTHER_CLUSTER,
        ha_server_addr="127.0.0.2:9",
        broker_id=0,
        body_crc32=zlib.crc32(body) & 0x7FFF_FFFF,
    )
    return Request(header, body)


async def _registered(world: World) -> None:
    request = _registration(world)
    async with connected(world.namesrv) as peer:
        assert (await peer.ask(Code.REGISTER_BROKER, request.header, request.body)).code == 0


async def _fill_kv(world: World) -> None:
    """Values up to the limit of the table."""
    async with connected(world.namesrv) as peer:
        for number in range(14):
            header = PutKVConfigHeader(namespace="ns", key=f"k{number}", value=VALUE)
            assert (await peer.ask(Code.PUT_KV_CONFIG, header)).code == 0


NAMESRV_INPUTS: Final[dict[int, Worst]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: Worst("one lookup, pipelined", times(MANY, GetRouteHeader(topic=topic_name(0)))),
    Code.GET_BROKER_CLUSTER_INFO: Worst("every broker, pipelined", times(SOME)),
    Code.GET_BROKER_MEMBER_GROUP: Worst(
        "one lookup, pipelined", times(MANY, GetBrokerMemberGroupHeader(cluster_name=CLUSTER, broker_name="broker-a"))
    ),
    Code.REGISTER_BROKER: Worst(
        "as many topics as a broker may have, all of them new", lambda world: [_registration(world)]
    ),
    Code.UNREGISTER_BROKER: Worst(
        "a broker with as many topics as one may have",
        lambda world: [
            Request(
                UnregisterBrokerHeader(
                    broker_name=f"other{world.round}",
                    broker_addr=f"127.0.0.2:{world.round + 1}",
                    cluster_name=OTHER_CLUSTER,
                    broker_id=0,
                )
            )
        ],
        before=_registered,
    ),
    Code.BROKER_HEARTBEAT: Worst(
        "one lookup, pipelined",
        times(MANY, BrokerHeartbeatHeader(cluster_name=CLUSTER, broker_addr="127.0.0.3:1", broker_name="none")),
    ),
    Code.QUERY_DATA_VERSION: Worst(
        "one lookup, pipelined",
        times(
            MANY,
            QueryDataVersionHeader(broker_name="none", broker_addr="127.0.0.3:1", cluster_name=CLUSTER, broker_id=0),
            encode_body(DataVersion(counter=1, timestamp=1)),
        ),
    ),
    Code.WIPE_WRITE_PERM_OF_BROKER: Worst(
        "a broker with as many topics as one may have: the routes of all of them change",
        lambda world: [Request(WipeWritePermHeader(broker_name=f"other{world.round}"))],
        before=_registered,
    ),
    Code.ADD_WRITE_PERM_OF_BROKER: Worst(
        "a broker with as many topics as one may have: the routes of all of them change",
        lambda world: [Request(AddWritePermHeader(broker_name=f"other{world.round}"))],
        before=_registered,
    ),
    Code.REGISTER_TOPIC_IN_NAMESRV: Worst(
        "as many queues as a body can hold, of a broker that is there",
        times(
            1,
            RegisterTopicHeader(topic="Routed"),
            encode_body(
                TopicRoute(
                    queue_datas=[
                        QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)
                        for _ in range(8_000)
                    ]
                )
            ),
        ),
    ),
    Code.DELETE_TOPIC_IN_NAMESRV: Worst(
        "one lookup, pipelined", times(MANY, DeleteTopicInNamesrvHeader(topic="none", cluster_name=CLUSTER))
    ),
    Code.GET_TOPICS_BY_CLUSTER: Worst(
        "20,000 topics in one answer, pipelined", times(8, GetTopicsByClusterHeader(cluster=CLUSTER))
    ),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Worst("all topics of all brokers, pipelined", times(8)),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Worst("every cluster and broker, pipelined", times(SOME)),
    Code.GET_UNIT_TOPIC_LIST: Worst("every topic is looked at, pipelined", times(8)),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: Worst("every topic is looked at, pipelined", times(8)),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Worst("every topic is looked at, pipelined", times(8)),
    Code.PUT_KV_CONFIG: Worst(
        "the longest value in a full table, which is written whole, pipelined",
        times(4, PutKVConfigHeader(namespace="ns", key="k0", value=VALUE)),
        before=_fill_kv,
    ),
    Code.GET_KV_CONFIG: Worst("the longest value, pipelined", times(SOME, GetKVConfigHeader(namespace="ns", key="k0"))),
    Code.DELETE_KV_CONFIG: Worst(
        "a value of a full table, which is written whole, pipelined",
        lambda _: [Request(DeleteKVConfigHeader(namespace="ns", key=f"k{number}")) for number in range(4)],
        before=_fill_kv,
    ),
    Code.GET_KVLIST_BY_NAMESPACE: Worst(
        "a full table in one answer, pipelined", times(4, GetKVListHeader(namespace="ns"))
    ),
    Code.UPDATE_NAMESRV_CONFIG: Worst(
        "one setting, as often as a body can hold it",
        times(2, None, b"orderMessageEnable=true\n" * ((64 << 10) // 24)),
    ),
    Code.GET_NAMESRV_CONFIG: Worst("all settings as text, pipelined", times(MANY)),
}
