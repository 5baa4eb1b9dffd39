"""Typed requests against a real broker: what comes back, and what an error says."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.core import Core
from hanabi.client.config import Credentials
from hanabi.errors import (
    ConnectError,
    NoPermission,
    RequestTimeoutError,
    SubscriptionParseFailed,
    TopicNotExist,
    UnknownReplyError,
)
from hanabi.message import MessageQueue
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.topics import plain_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.bodies.heartbeat import (
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import VERSION, Command
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.offset import GetMaxOffsetHeader
from hanabi.wire.headers.pull import PullMessageHeader
from hanabi.wire.headers.query import QueryMessageHeader
from hanabi.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageReplyHeader, SendMessageV2Header
from hanabi.wire.message.message_id import decode_offset_id
from hanabi.wire.message.record import decode_records
from hanabi.wire.signature import signature
from tests.broker.talk import serving
from tests.interop.processes import free_port


@asynccontextmanager
async def broker_and_api(home: Path) -> AsyncIterator[tuple[Cluster, Api, str, MessageQueue]]:
    async with running_cluster(home) as cluster:
        await cluster.create_topic("T", queues=1)
        core = await Core.acquire(cluster.config())
        try:
            route = await core.routes.find("T")
            (queue,) = route.write_queues
            address = route.master_of(queue.broker_name)
            assert address is not None
            yield cluster, core.api, address, queue
        finally:
            await core.release()


def a_header(topic: str = "T") -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties="KEYS\x01k1\x02UNIQ_KEY\x0100000000000000000000000000000001",
    )


def a_pull(offset: int = 0) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="c",
        topic="T",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,  # the subscription is in the request
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )


def heartbeat(client_id: str, *, consumer: str | None = None, producer: str | None = None) -> HeartbeatData:
    consumers = [
        ConsumerData(
            group_name=group, consume_type=ConsumeType.CONSUME_PASSIVELY, message_model=MessageModel.CLUSTERING
        )
        for group in [consumer]
        if group
    ]
    producers = [ProducerData(group_name=producer)] if producer else []
    return HeartbeatData(client_id=client_id, consumer_data_set=consumers, producer_data_set=producers)


async def test_a_message_is_sent_pulled_viewed_and_found_by_its_key(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (_, api, address, queue):
        reply = await api.send_message(address, a_header(), b"hello")
        sent = reply.header(SendMessageReplyHeader)
        assert (reply.code, sent.queue_id, sent.queue_offset) == (ResponseCode.SUCCESS, 0, 0)

        pulled = await api.pull_message(address, a_pull(), 5.0)
        assert pulled.code == ResponseCode.SUCCESS
        assert [record.body for record in decode_records(pulled.body)] == [b"hello"]
        assert pulled.header.next_begin_offset == 1
        empty = await api.pull_message(address, a_pull(1), 5.0)
        assert empty.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)

        log_offset = decode_offset_id(sent.msg_id).log_offset
        assert decode_records(await api.view_message(address, log_offset))[0].body == b"hello"
        key = QueryMessageHeader(topic="T", key="k1", max_num=10, begin_timestamp=0, end_timestamp=2**62)
        assert [record.body for record in decode_records(await api.query_message(address, key))] == [b"hello"]
        nothing = QueryMessageHeader(topic="T", key="other", max_num=10, begin_timestamp=0, end_timestamp=2**62)
        assert await api.query_message(address, nothing) == b""

        assert await api.get_min_offset(address, queue) == 0
        assert await api.get_max_offset(address, queue) == 1
        stored = await api.earliest_store_time(address, queue)
        assert await api.search_offset(address, queue, stored) == 0
        assert await api.search_offset(address, queue, stored - 3_600_000) == 0


async def test_one_way_messages_and_offsets_arrive(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (cluster, api, address, queue):
        await api.send_oneway(address, a_header(), b"there")
        reader = cluster.broker.store.reader
        await eventually(lambda: reader.max_offset("T", 0) == 1, "the one-way message")
        await api.update_consumer_offset(address, "c", queue, 1)
        await eventually(lambda: cluster.broker.tables.offsets.find("c", "T", 0) == 1, "the one-way offset")
        await api.update_consumer_offset(address, "c", queue, 0, oneway=False)
        assert await api.query_consumer_offset(address, "c", queue) == 0


async def test_an_offset_that_nobody_saved_is_none(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (_, api, address, queue):
        await api.send_message(address, a_header(), b"x")
        other = MessageQueue("Elsewhere", queue.broker_name, 3)
        answers = [await api.query_consumer_offset(address, "nobody", asked) for asked in (queue, other)]
        assert None in answers or answers == [0, 0]  # a queue whose beginning is still there begins there


async def test_members_come_and_go_and_lock_queues(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (cluster, api, address, queue):
        assert await api.heartbeat(address, heartbeat("me", consumer="c", producer="p")) == VERSION
        assert await api.consumer_ids(address, "c") == ["me"]
        assert "p" in cluster.broker.tables.producers.groups()
        assert await api.lock_queues(address, "me", "c", [queue]) == {queue}
        assert await api.lock_queues(address, "other", "c", [queue]) == set()
        await api.unlock_queues(address, "me", "c", [queue])
        assert await api.lock_queues(address, "other", "c", [queue]) == {queue}
        await api.unlock_queues(address, "other", "c", [queue], oneway=True)
        await api.unregister(address, "me", producer_group="p", consumer_group="c")
        assert "p" not in cluster.broker.tables.producers.groups()
        with pytest.raises(UnknownReplyError):
            await api.consumer_ids(address, "c")


async def test_a_message_can_be_sent_back(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (cluster, api, address, _):
        await api.heartbeat(address, heartbeat("me", consumer="c"))
        await api.send_message(address, a_header(), b"again")
        back = ConsumerSendMsgBackHeader(offset=0, group="c", delay_level=3, origin_topic="T")
        await api.send_back(address, back)
        assert "%RETRY%c" in cluster.broker.tables.topics


async def test_a_subscription_is_checked_before_it_is_used(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        connector = Connector()
        api = Api(connector)
        good = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
        bad = SubscriptionData(topic="T", sub_string="a >", expression_type="SQL92")
        await api.check_client(cluster.broker.address, "me", "c", good)
        with pytest.raises(SubscriptionParseFailed):
            await api.check_client(cluster.broker.address, "me", "c", bad)
        await connector.close()


async def test_topics_are_made_and_listed(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (cluster, api, address, _):
        await api.create_topic(address, plain_topic("Made", 2))
        assert {"T", "Made"} <= set(await api.topic_list(cluster.namesrv))
        info = await api.cluster_info(cluster.namesrv)
        assert info.broker_addr_table["broker-a"].broker_addrs == {0: address}


async def test_an_error_names_the_request_the_broker_and_its_address(tmp_path: Path) -> None:
    async with broker_and_api(tmp_path) as (_, api, address, _):
        with pytest.raises(TopicNotExist) as caught:
            await api.pull_message(address, msgspec.structs.replace(a_pull(), topic="Nowhere"), 3.0)
        assert f"PULL_MESSAGE to broker-a ({address})" in str(caught.value)
        assert "Nowhere" in str(caught.value)


async def test_a_broker_that_is_down_is_named_too() -> None:
    address = f"127.0.0.1:{free_port()}"
    connector = Connector()
    api = Api(connector)
    api.broker_names[address] = "broker-x"
    with pytest.raises(ConnectError) as caught:
        await api.get_min_offset(address, MessageQueue("T", "broker-x", 0))
    assert str(caught.value) == f"GET_MIN_OFFSET to broker-x ({address}): Connection refused"
    with pytest.raises(ConnectError, match="UPDATE_CONSUMER_OFFSET to broker-x"):
        await api.update_consumer_offset(address, "c", MessageQueue("T", "broker-x", 0), 1)
    await connector.close()


# What is signed, and what a refusal says


class Guard:
    """A broker that keeps what it was sent, and answers as told."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.requests: list[Command] = []
        self._reply = reply or Reply(fields={"offset": "7"})

    def handle(self, _: object, request: Command, __: Connection) -> Reply | Awaitable[Reply]:
        self.requests.append(request)
        return self._reply

    @property
    def handlers(self) -> dict[int, Handler]:
        codes = (RequestCode.GET_MAX_OFFSET, RequestCode.HEART_BEAT, RequestCode.UPDATE_CONSUMER_OFFSET)
        return {code: Handler(NoHeader, self.handle) for code in codes}


QUEUE = MessageQueue("T", "broker-a", 0)
CREDENTIALS = Credentials("alice", "secret", "token")


@asynccontextmanager
async def guarded(guard: Guard, credentials: Credentials | None) -> AsyncIterator[tuple[Api, str]]:
    async with serving(guard.handlers) as (host, port):
        connector = Connector()
        api = Api(connector, credentials)
        api.broker_names[f"{host}:{port}"] = "broker-a"
        yield api, f"{host}:{port}"
        await connector.close()


async def test_every_request_is_signed() -> None:
    guard = Guard()
    async with guarded(guard, CREDENTIALS) as (api, address):
        await api.get_max_offset(address, QUEUE)
        await api.heartbeat(address, heartbeat("me"))
        await api.update_consumer_offset(address, "c", QUEUE, 1)
        await eventually(lambda: len(guard.requests) == 3)
    for request in guard.requests:
        fields = request.fields()
        assert (fields["AccessKey"], fields["SecurityToken"]) == ("alice", "token")
        assert fields["Signature"] == signature(fields, request.body, "secret")
    assert guard.requests[0].header(GetMaxOffsetHeader).topic == "T"


async def test_without_credentials_nothing_is_signed() -> None:
    guard = Guard()
    async with guarded(guard, None) as (api, address):
        await api.get_max_offset(address, QUEUE)
    assert "Signature" not in guard.requests[0].fields()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: Check signature failed"),
        Reply(ResponseCode.NO_PERMISSION, "Check signature failed"),
    ],
    ids=["4.x", "5.x"],
)
async def test_a_refusal_names_the_access_key_and_the_broker_but_not_the_secret(reply: Reply) -> None:
    async with guarded(Guard(reply), CREDENTIALS) as (api, address):
        with pytest.raises(NoPermission) as caught:
            await api.get_max_offset(address, QUEUE)
        text = str(caught.value)
        assert "alice" in text
        assert f"broker-a ({address})" in text
        assert "Check signature failed" in text
        assert "secret" not in text


@pytest.mark.parametrize(
    "reply",
    [
        Reply(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"),
        Reply(ResponseCode.NO_PERMISSION, "username cannot be null."),
    ],
    ids=["4.x", "5.x"],
)
async def test_a_refusal_of_an_unsigned_request_says_what_to_do(reply: Reply) -> None:
    async with guarded(Guard(reply), None) as (api, address):
        with pytest.raises(NoPermission, match="Credentials"):
            await api.get_max_offset(address, QUEUE)


async def test_no_answer_in_time_says_how_long_and_from_whom() -> None:
    released = asyncio.Event()

    async def silent(*_: object) -> Reply:
        await released.wait()
        return Reply()

    async with serving({RequestCode.GET_MAX_OFFSET: Handler(NoHeader, silent)}) as (host, port):
        connector = Connector()
        with pytest.raises(RequestTimeoutError, match=r"GET_MAX_OFFSET to 127\.0\.0\.1:\d+: no answer .* 0\.\d+ s"):
            await Api(connector).get_max_offset(f"{host}:{port}", QUEUE, 0.05)
        await connector.close()
        released.set()
