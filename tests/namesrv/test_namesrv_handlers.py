"""Every request that a name server answers, over a real socket."""

import asyncio
import logging
import socket
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.handlers import namesrv_handlers
from hanabi.namesrv.kv_config import KVConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.namesrv.settings import Settings
from hanabi.remoting import loop
from hanabi.wire.bodies.route import (
    BrokerMemberGroupReply,
    ClusterInfo,
    KVTable,
    QueueData,
    TopicList,
    TopicRoute,
)
from hanabi.wire.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfigTable,
    encode_register_body,
)
from hanabi.wire.codes import HeaderForm, RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import Header
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
    WipeWritePermHeader,
)
from hanabi.wire.java_properties import decode_properties
from tests.golden_frames import GoldenFrame, golden_frames
from tests.namesrv.brokers import registration, topics, unregistration
from tests.namesrv.talk import Peer, Running, running

V4_9_3 = 399
V5_0_0, V5_3_2 = 413, 474


@asynccontextmanager
async def served(
    home: Path,
    config: NamesrvConfig = NamesrvConfig(),  # noqa: B008 - frozen
) -> AsyncIterator[tuple[Running, Peer]]:
    """Yield a running server, and a peer of it."""
    async with running(home, config) as talk:
        yield talk, await talk.peer()


async def register(
    peer: Peer,
    header: RegisterBrokerHeader,
    sent: TopicConfigTable,
    *,
    compress: bool = False,
    form: HeaderForm = HeaderForm.JSON,
) -> Command:
    body = encode_register_body(RegisterBrokerBody(topic_config_serialize_wrapper=sent), compress)
    header = msgspec.structs.replace(header, compressed=compress, body_crc32=zlib.crc32(body) & 0x7FFF_FFFF)
    reply = await peer.ask(RequestCode.REGISTER_BROKER, header, body, form=form)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


async def route(peer: Peer, topic: str) -> TopicRoute | None:
    reply = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic))
    if reply.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    assert reply.code == ResponseCode.SUCCESS
    return decode_body(reply.body, TopicRoute)


async def topic_list(peer: Peer, code: int, header: Header | None = None) -> list[str]:
    reply = await peer.ask(code, header)
    assert reply.code == ResponseCode.SUCCESS
    return decode_body(reply.body, TopicList).topic_list


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("form", HeaderForm)
async def test_a_broker_registers_and_clients_find_its_topics(tmp_path: Path, compress: bool, form: HeaderForm) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await register(peer, registration("a:1"), topics("T"), compress=compress, form=form)
        assert reply.fields() == {}
        assert reply.body == b""
        found = await route(peer, "T")
        assert found is not None
        assert found.broker_datas[0].broker_addrs == {0: "a:1"}


async def test_a_slave_is_answered_with_its_master(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T"))
        reply = await register(peer, registration("s:1", broker_id=1), topics("T"))
        assert reply.fields() == {"haServerAddr": "ha-of-a:1", "masterAddr": "a:1"}


async def test_a_damaged_registration_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        body = encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=topics("T")))
        header = msgspec.structs.replace(registration("a:1"), body_crc32=4711)
        reply = await peer.ask(RequestCode.REGISTER_BROKER, header, body)
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
        reply = await peer.ask(RequestCode.REGISTER_BROKER, registration("a:1"), b'{"filterServerList":3}')
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "RegisterBrokerBody" in (reply.remark or "")
        assert await route(peer, "T") is None


async def test_a_registration_without_a_body_is_a_broker_without_topics(tmp_path: Path) -> None:
    async with served(tmp_path) as (talk, peer):
        for version, address in ((409, "a:1"), (36, "b:1")):
            header = registration(address, f"broker-{address[0]}")
            assert (await peer.ask(RequestCode.REGISTER_BROKER, header, version=version)).code == 0
        assert talk.server.routes.data_version("C", "broker-a", "a:1") == DataVersion()
        assert talk.server.routes.addresses("broker-b") == {0: "b:1"}


async def test_a_broker_before_3_0_11_sends_its_topics_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(RequestCode.REGISTER_BROKER, registration("a:1"), encode_body(topics("T")), version=36)
        assert reply.code == ResponseCode.SUCCESS
        assert await route(peer, "T") is not None


async def test_unregistering_and_closing_take_a_broker_away(tmp_path: Path) -> None:
    async with served(tmp_path) as (talk, peer):
        await register(peer, registration("a:1"), topics("T"))
        assert (await peer.ask(RequestCode.UNREGISTER_BROKER, unregistration("a:1"))).code == 0
        assert await route(peer, "T") is None
        broker = await talk.peer()
        await register(broker, registration("a:1"), topics("T"))
        assert await route(peer, "T") is not None
        await broker.close()
        await talk.until_gone("T")
        assert await route(peer, "T") is None


async def test_a_silent_broker_is_forgotten_and_its_connection_closed(tmp_path: Path) -> None:
    async with served(tmp_path) as (talk, _):
        broker, shared = await talk.peer(), await talk.peer()
        await register(broker, registration("a:1"), topics("T"))
        await register(shared, registration("b:1", "broker-b"), topics("T"))
        await register(shared, registration("c:1", "broker-c", timeout_ms=1000), topics("Brief"))
        talk.clock.ms = 119_000
        heartbeat = BrokerHeartbeatHeader(cluster_name="C", broker_addr="b:1", broker_name="broker-b")
        assert (await shared.ask(RequestCode.BROKER_HEARTBEAT, heartbeat)).code == 0
        talk.clock.ms = 120_001
        talk.server.scan()
        await broker.closed_by_server()
        found = await route(shared, "T")  # still open: one of its brokers is alive
        assert found is not None
        assert [each.broker_name for each in found.broker_datas] == ["broker-b"]
        assert await route(shared, "Brief") is None


async def test_the_server_scans_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, scan_seconds=0.001) as talk:
        await register(await talk.peer(), registration("a:1"), topics("T"))
        talk.clock.ms = 1_000_000
        await talk.until_gone("T")
        await register(await talk.peer(), registration("a:1"), topics("T"))
        talk.clock.ms = 2_000_000
        await talk.until_gone("T")  # and again


async def test_a_data_version_is_compared_and_counts_as_a_sign_of_life(tmp_path: Path) -> None:
    async with served(tmp_path) as (talk, peer):

        async def ask(version: DataVersion) -> Command:
            header = QueryDataVersionHeader(broker_name="broker-a", broker_addr="a:1", cluster_name="C", broker_id=0)
            return await peer.ask(RequestCode.QUERY_DATA_VERSION, header, encode_body(version))

        sent = topics("T", version=5)
        reply = await ask(sent.data_version)
        assert (reply.fields(), reply.body) == ({"changed": "true"}, b"")
        await register(peer, registration("a:1"), sent)
        talk.clock.ms = 100_000
        reply = await ask(sent.data_version)
        assert reply.fields() == {"changed": "false"}
        assert decode_body(reply.body, DataVersion) == sent.data_version
        assert (await ask(DataVersion(counter=6, timestamp=1000))).fields() == {"changed": "true"}
        talk.clock.ms = 200_000
        talk.server.scan()
        assert await route(peer, "T") is not None


async def test_a_topic_without_route_is_answered_as_apache_answers(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic="Missing"))
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        assert (reply.remark or "").startswith("No topic route info in name server for the topic: Missing\nSee http")


async def test_only_clients_before_4_9_4_get_bare_number_keys(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T"))

        async def body(version: int, standard: bool | None = None) -> bytes:
            header = GetRouteHeader(topic="T", accept_standard_json_only=standard)
            return (await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, version=version)).body

        assert b'{0:"a:1"}' in await body(V4_9_3)
        assert b'{0:"a:1"}' in await body(400)
        assert b'{"0":"a:1"}' in await body(401)
        assert b'{"0":"a:1"}' in await body(V4_9_3, standard=True)
        assert b'{0:"a:1"}' in await body(V4_9_3, standard=False)


@pytest.mark.parametrize("enabled", [True, False])
async def test_order_configuration_comes_with_the_register_reply_and_if_enabled_with_the_route(
    tmp_path: Path, enabled: bool
) -> None:
    async with served(tmp_path, NamesrvConfig(order_message_enable=enabled)) as (_, peer):
        put = PutKVConfigHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        await peer.ask(RequestCode.PUT_KV_CONFIG, put)
        reply = await register(peer, registration("a:1"), topics("T"))
        assert reply.body == b'{"table":{"T":"broker-a:4"}}'
        found = await route(peer, "T")
        assert found is not None
        assert found.order_topic_conf == ("broker-a:4" if enabled else None)
        await peer.ask(RequestCode.PUT_KV_CONFIG, msgspec.structs.replace(put, value="broker-a:8"))
        found = await route(peer, "T")
        assert found is not None
        assert found.order_topic_conf == ("broker-a:8" if enabled else None)


async def test_cluster_info_has_bare_number_keys_as_apaches(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1", cluster="DefaultCluster"), topics("T"))
        await register(peer, registration("s:1", broker_id=1, cluster="DefaultCluster"), topics("T"))
        reply = await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert reply.body == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1",1:"s:1"},"brokerName":"broker-a",'
            b'"cluster":"DefaultCluster"}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
        )
        assert decode_body(reply.body, ClusterInfo).cluster_addr_table == {"DefaultCluster": ["broker-a"]}


@pytest.mark.parametrize(("registered", "told"), [(None, b"false"), (False, b"false"), (True, b"true")])
async def test_clients_of_5_x_are_told_whether_a_slave_may_act_as_master_and_older_ones_are_not(
    tmp_path: Path, registered: bool | None, told: bytes
) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, msgspec.structs.replace(registration("a:1"), enable_acting_master=registered), topics("T"))
        asked = (
            (RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic="T")),
            (RequestCode.GET_BROKER_CLUSTER_INFO, None),
        )
        for code, header in asked:
            assert b"enableActingMaster" not in (await peer.ask(code, header, version=V5_0_0 - 1)).body
            for version in (V5_0_0, V5_3_2):
                assert b'"enableActingMaster":' + told in (await peer.ask(code, header, version=version)).body


async def test_the_members_of_a_broker_are_listed_for_5_x_brokers(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T"))
        await register(peer, registration("s:1", broker_id=2), topics("T"))
        for name, addresses in (("broker-a", {0: "a:1", 2: "s:1"}), ("broker-x", {})):
            header = GetBrokerMemberGroupHeader(cluster_name="C", broker_name=name)
            reply = await peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, header)
            group = decode_body(reply.body, BrokerMemberGroupReply).broker_member_group
            assert group is not None
            assert (group.broker_name, group.cluster, group.broker_addrs) == (name, "C", addresses)


async def test_a_5_x_broker_registers_a_single_topic(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T"))
        queues = QueueData(broker_name="broker-a", perm=6, read_queue_nums=3, write_queue_nums=3)
        body = encode_body(TopicRoute(queue_datas=[queues]))
        for each in (body, b""):
            reply = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicHeader(topic="New"), each)
            assert reply.code == ResponseCode.SUCCESS
        found = await route(peer, "New")
        assert found is not None
        assert found.queue_datas == [queues]


async def test_topics_are_listed(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T", flag=1))
        await register(peer, registration("b:1", "broker-b", cluster="D"), topics("U", flag=2))
        assert await topic_list(peer, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["T", "U"]
        by_cluster = GetTopicsByClusterHeader(cluster="D")
        assert await topic_list(peer, RequestCode.GET_TOPICS_BY_CLUSTER, by_cluster) == ["U"]
        nowhere = GetTopicsByClusterHeader(cluster="nowhere")
        assert await topic_list(peer, RequestCode.GET_TOPICS_BY_CLUSTER, nowhere) == []
        system = await topic_list(peer, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert system == ["C", "broker-a", "D", "broker-b"]
        assert await topic_list(peer, RequestCode.GET_UNIT_TOPIC_LIST) == ["T"]
        assert await topic_list(peer, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["U"]
        assert await topic_list(peer, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["U"]


async def test_a_topic_is_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T", "U"))
        for header in (
            DeleteTopicInNamesrvHeader(topic="T", cluster_name="C"),
            DeleteTopicInNamesrvHeader(topic="U", cluster_name=""),
        ):
            assert await route(peer, header.topic) is not None
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)).code == 0
            assert await route(peer, header.topic) is None


async def test_write_permission_is_wiped_and_added(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T", "U"))
        wiped = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermHeader(broker_name="broker-a"))
        assert wiped.fields() == {"wipeTopicCount": "2"}
        found = await route(peer, "T")
        assert found is not None
        assert found.queue_datas[0].perm == 4
        added = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermHeader(broker_name="broker-a"))
        assert added.fields() == {"addTopicCount": "2"}
        found = await route(peer, "T")
        assert found is not None
        assert found.queue_datas[0].perm == 6


async def test_values_are_put_got_listed_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        get, listing = GetKVConfigHeader(namespace="N", key="k"), GetKVListHeader(namespace="N")
        missing = await peer.ask(RequestCode.GET_KV_CONFIG, get)
        assert (missing.code, missing.remark) == (22, "No config item, Namespace: N Key: k")
        unlisted = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, listing)
        assert (unlisted.code, unlisted.remark) == (22, "No config item, Namespace: N")
        put = PutKVConfigHeader(namespace="N", key="k", value="Wert: ü")
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, put)).code == 0
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, get)).fields() == {"value": "Wert: ü"}
        listed = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, listing)
        assert decode_body(listed.body, KVTable).table == {"k": "Wert: ü"}
        delete = DeleteKVConfigHeader(namespace="N", key="k")
        for _ in range(2):
            assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, delete)).code == 0
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, get)).code == 22
        assert (await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, listing)).body == b'{"table":{}}'


async def test_values_and_changed_settings_are_there_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        await peer.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigHeader(namespace="N", key="k", value="v"))
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")).code == 0

    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(RequestCode.GET_KV_CONFIG, GetKVConfigHeader(namespace="N", key="k"))
        assert reply.fields() == {"value": "v"}
        shown = decode_properties((await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body)
        assert shown["orderMessageEnable"] == "true"


async def test_settings_are_shown_under_apaches_keys(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        shown = decode_properties((await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body)
        # What Apache's 4.9.8 shows, less rocketmqHome, kvConfigPath, configStorePath: those are paths of its machine.
        assert shown == {
            "rocketmqHome": str(tmp_path),
            "kvConfigPath": str(tmp_path / "namesrv" / "kvConfig.json"),
            "configStorePath": str(tmp_path / "namesrv" / "namesrv.properties"),
            "productEnvName": "center",
            "clusterTest": "false",
            "orderMessageEnable": "false",
            "configBlackList": "configBlackList;configStorePath;kvConfigPath",
            "listenPort": "9876",
            "serverWorkerThreads": "8",
            "serverCallbackExecutorThreads": "0",
            "serverSelectorThreads": "3",
            "serverOnewaySemaphoreValue": "256",
            "serverAsyncSemaphoreValue": "64",
            "serverChannelMaxIdleTimeSeconds": "120",
            "serverSocketSndBufSize": "0",
            "serverSocketRcvBufSize": "0",
            "writeBufferHighWaterMark": "0",
            "writeBufferLowWaterMark": "0",
            "serverSocketBacklog": "1024",
            "serverPooledByteBufAllocatorEnable": "true",
            "useEpollNativeSelector": "false",
        }


@pytest.mark.parametrize(
    "key", ["kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList", "listenPort", "noSuchKey"]
)
async def test_settings_outside_the_safe_list_are_refused_by_name_and_nothing_changes(tmp_path: Path, key: str) -> None:
    async with served(tmp_path) as (_, peer):
        before = (await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body
        body = f"orderMessageEnable=true\n{key}=/tmp/anywhere\n".encode()
        reply = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
        assert reply.code == ResponseCode.NO_PERMISSION
        assert key in (reply.remark or "")
        assert (await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body == before


async def test_a_setting_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=perhaps")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "orderMessageEnable must be true or false" in (reply.remark or "")
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG)).code == ResponseCode.SUCCESS


async def test_an_order_setting_changed_over_the_wire_is_in_force_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        put = PutKVConfigHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        await peer.ask(RequestCode.PUT_KV_CONFIG, put)
        await register(peer, registration("a:1"), topics("T"))
        for value, expected in (("true", "broker-a:4"), ("false", None)):
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"orderMessageEnable={value}".encode())
            found = await route(peer, "T")
            assert found is not None
            assert found.order_topic_conf == expected


async def test_what_is_not_asked_of_a_name_server_is_not_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(RequestCode.SEND_MESSAGE)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        reply = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "topic" in (reply.remark or "")


def golden(name: str, code: int) -> tuple[GoldenFrame, GoldenFrame]:
    """Return the first recorded request with *code* to Apache's name server, and its answer."""
    request, answer = (
        next(f for f in golden_frames(name) if (f.server, f.request_code, f.response) == ("namesrv", code, is_answer))
        for is_answer in (False, True)
    )
    return request, answer


@pytest.mark.parametrize("name", ["frames-json.jsonl", "frames-binary.jsonl"])
async def test_what_apaches_broker_and_client_said_is_answered_as_apaches_name_server_answered(
    tmp_path: Path, name: str
) -> None:
    async with served(tmp_path) as (_, peer):
        for code in (RequestCode.REGISTER_BROKER, RequestCode.GET_ROUTEINFO_BY_TOPIC):
            request, answer = golden(name, code)
            if request.opaque != answer.opaque:
                pytest.fail("these two do not belong together")
            expected = decode_command(answer.frame[4:])
            reply = await peer.send(request.frame)
            assert (reply.code, reply.remark, reply.fields()) == (expected.code, None, expected.fields())
            if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                assert reply.body == expected.body


# ── what hostile peers find ──


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_peer_that_sends_damaged_registrations_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as (talk, peer):
        header = msgspec.structs.replace(registration("a:1"), body_crc32=4711)
        for _ in range(3):
            assert (await peer.ask(RequestCode.REGISTER_BROKER, header, b"{}")).remark == "crc32 not match"
        assert len(warnings_of(caplog)) == 1
        await (await talk.peer()).ask(RequestCode.REGISTER_BROKER, header, b"{}")
        assert len(warnings_of(caplog)) == 2


async def test_a_broker_beyond_the_limits_is_told_so_and_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, NamesrvConfig(topics_per_broker_max=2)) as (_, peer):
        body = encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=topics("T", "U", "V")))
        for _ in range(3):
            reply = await peer.ask(RequestCode.REGISTER_BROKER, registration("a:1"), body)
            assert reply.code == ResponseCode.NO_PERMISSION
            assert reply.remark == "broker broker-a has 3 topics, limit 2 (topicsPerBrokerMax)"
        assert await route(peer, "T") is None
        (warning,) = warnings_of(caplog)
        assert warning.endswith("broker broker-a is refused: " + (reply.remark or ""))


async def test_only_a_topic_that_was_there_is_reported_as_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async with served(tmp_path) as (_, peer):
        await register(peer, registration("a:1"), topics("T"))
        for topic in ("Nothing", "T", "T"):
            await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic))
        assert caplog.text.count("is deleted") == 1


@pytest.mark.parametrize(
    ("code", "header", "length"),
    [
        (RequestCode.UPDATE_NAMESRV_CONFIG, None, 64 * 1024),
        (
            RequestCode.QUERY_DATA_VERSION,
            QueryDataVersionHeader(broker_name="broker-a", broker_addr="a:1", cluster_name="C", broker_id=0),
            4 * 1024,
        ),
        (RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicHeader(topic="T"), 1024 * 1024),
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, 4 * 1024),
        (RequestCode.PUT_KV_CONFIG, PutKVConfigHeader(namespace="N", key="k", value="v"), 4 * 1024),
    ],
)
async def test_a_body_longer_than_its_request_needs_is_refused_unread(
    tmp_path: Path, code: int, header: Header | None, length: int
) -> None:
    async with served(tmp_path) as (_, peer):
        reply = await peer.ask(code, header, b" " * (length + 1))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert f"a body of {length + 1} bytes, limit {length}" in (reply.remark or "")


def test_only_registrations_may_have_a_body_as_long_as_a_frame(tmp_path: Path) -> None:
    server = NameServer(NamesrvConfig(), tmp_path)
    settings = Settings(NamesrvConfig(), tmp_path / "namesrv.properties")
    handlers = namesrv_handlers(server.routes, KVConfig(tmp_path / "kvConfig.json"), settings, lambda: 0)
    assert [code for code, handler in handlers.items() if handler.body_bytes_max is None] == [
        RequestCode.REGISTER_BROKER
    ]


async def test_a_value_that_is_too_long_is_refused_with_an_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, peer):
        put = PutKVConfigHeader(namespace="N", key="k", value="v" * (512 * 1024 + 1))
        reply = await peer.ask(RequestCode.PUT_KV_CONFIG, put)
        assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "the value has more than 524288 bytes")


@pytest.mark.parametrize("run_on", [asyncio.run, loop.run])
def test_a_sign_of_life_that_waits_while_the_server_stands_still_is_heard_before_the_scan(
    tmp_path: Path, run_on: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """uvloop runs timers before it reads: a stall in what one peer sent must not cost another his place."""
    header = BrokerHeartbeatHeader(cluster_name="C", broker_addr="a:1", broker_name="broker-a")
    heartbeat = encode_request(RequestCode.BROKER_HEARTBEAT, 1, header)

    async def main() -> None:
        async with running(tmp_path, scan_seconds=0.05) as talk:
            await register(await talk.peer(), registration("a:1", timeout_ms=1000), topics("T"))
            this, other = socket.socketpair()
            with socket.create_connection(talk.address) as broker, this, other:

                def stand_still() -> None:
                    asyncio.get_running_loop().remove_reader(this)
                    talk.clock.ms = 5_000
                    broker.sendall(heartbeat)
                    time.sleep(0.2)

                asyncio.get_running_loop().add_reader(this, stand_still)
                other.send(b"x")
                broker.setblocking(False)
                await asyncio.get_running_loop().sock_recv(broker, 4)
                assert talk.server.routes.route("T") is not None
                talk.clock.ms = 7_000
                await talk.until_gone("T")  # and then silence counts again

    run_on(main())
