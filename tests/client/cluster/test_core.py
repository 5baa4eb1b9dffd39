"""Tests of what the clients of one loop share: the messages to brokers when members, brokers and connections change."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.heartbeats import listeners, retry_pause
from hanabi.client.config import ClientConfig, Credentials, client_config
from hanabi.errors import ConfigError, ConnectError, NoPermission
from hanabi.message import MessageQueue, StoredMessage
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.testing.cluster import running_cluster, small_store
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from hanabi.wire.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from hanabi.wire.bodies.offsets import ConsumerStatus, QueueAndOffset, ResetOffset, ResetOffsetList
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.client import (
    ConsumeMessageDirectlyHeader,
    GetConsumerRunningInfoHeader,
    NotifyConsumerIdsChangedHeader,
)
from hanabi.wire.headers.namesrv import UnregisterBrokerHeader
from hanabi.wire.headers.offset import GetConsumerStatusHeader, ResetOffsetHeader
from hanabi.wire.headers.send import ReplyMessageHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.record import encode_record
from tests.broker.talk import serving
from tests.client.slow_heartbeats import slow_heartbeats
from tests.interop.processes import free_port

QUEUE = MessageQueue("T", "broker-a", 0)


class ProducerSpy:
    """Remembers what was asked of it."""

    def __init__(self, *, knows: bool = True) -> None:
        self.checked: list[tuple[CheckTransactionStateHeader, StoredMessage, str]] = []
        self.replies: list[tuple[ReplyMessageHeader, bytes]] = []
        self._knows = knows

    async def check_transaction(
        self, header: CheckTransactionStateHeader, message: StoredMessage, address: str
    ) -> bool:
        self.checked.append((header, message, address))
        return self._knows

    def reply_arrived(self, header: ReplyMessageHeader, body: bytes) -> bool:
        self.replies.append((header, body))
        return self._knows


class ConsumerSpy:
    """Remembers what was asked of it."""

    def __init__(self, group: str = "c", topic: str = "T") -> None:
        self.group, self.topic = group, topic
        self.rebalances = self.saves = 0
        self.resets: list[tuple[str, Mapping[MessageQueue, int]]] = []
        self.consumed: list[StoredMessage] = []

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=[SubscriptionData(topic=self.topic, sub_string="*")],
        )

    def rebalance_soon(self) -> None:
        self.rebalances += 1

    async def persist_offsets(self) -> None:
        self.saves += 1

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append((topic, offsets))

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {MessageQueue(topic, "broker-a", 0): 7}

    async def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(properties={"mine": "yes"})

    async def consume_directly(self, message: StoredMessage) -> ConsumeMessageDirectlyResult:
        self.consumed.append(message)
        return ConsumeMessageDirectlyResult(consume_result="CR_SUCCESS")


def consumers_at(broker: Broker, group: str = "c") -> list[str]:
    found = broker.tables.consumers.find_group(group)
    return [] if found is None else [member.client.client_id for member in found.members.values()]


def connections_at(broker: Broker, group: str = "c") -> list[Connection]:
    found = broker.tables.consumers.find_group(group)
    return [] if found is None else list(found.members)


@asynccontextmanager
async def acquired(config: ClientConfig, **options: Any) -> AsyncIterator[Core]:
    core = await Core.acquire(config, **options)
    try:
        yield core
    finally:
        await core.release()


# Sharing


async def test_clients_of_one_loop_with_the_same_settings_share_a_core_until_the_last_leaves() -> None:
    config = ClientConfig(namesrv="127.0.0.1:1;127.0.0.1:2")
    first = await Core.acquire(config)
    assert await Core.acquire(ClientConfig(namesrv=["127.0.0.1:2", "127.0.0.1:1"])) is first
    async with acquired(ClientConfig(namesrv="127.0.0.1:3")) as other:
        assert other is not first
        assert other.client_id != first.client_id
    await first.release()
    assert await Core.acquire(config) is first, "somebody still had it"
    await first.release()
    await first.release()
    async with acquired(config) as later:
        assert later is not first


async def test_two_consumers_of_a_group_in_one_process_have_two_client_ids() -> None:
    config = ClientConfig(namesrv="127.0.0.1:1")
    async with acquired(config, consumer_group="g") as first, acquired(config) as producers:
        assert producers is first
        async with acquired(config, consumer_group="other") as third:
            assert third is first
        async with acquired(config, consumer_group="g") as second:
            assert second.client_id != first.client_id


async def test_two_consumers_of_a_group_under_one_client_id_are_refused() -> None:
    config = ClientConfig(namesrv="127.0.0.1:1", client_id="fixed")
    async with acquired(config, consumer_group="g") as core:
        assert core.client_id == "fixed"
        with pytest.raises(ConfigError, match="client_id or instance"):
            await Core.acquire(config, consumer_group="g")
        await core.add_consumer("g", ConsumerSpy("g"))
        with pytest.raises(ConfigError, match="already"):
            await core.add_consumer("g", ConsumerSpy("g"))
        await core.remove_consumer("g")


def test_every_loop_has_its_own() -> None:
    config = ClientConfig(namesrv="127.0.0.1:1")

    async def client_id() -> str:
        async with acquired(config) as core:
            return core.client_id

    assert asyncio.run(client_id()) != asyncio.run(client_id())


async def test_after_the_last_release_nothing_is_left(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        before = asyncio.all_tasks()
        async with acquired(cluster.config()) as core:
            await core.routes.find("T")
            await core.add_consumer("c", ConsumerSpy())
            await core.remove_consumer("c")
            assert asyncio.all_tasks() > before
        await eventually(lambda: asyncio.all_tasks() <= before)  # the broker, in this loop too, saves its tables
        await eventually(lambda: not consumers_at(cluster.broker))


# Telling brokers


async def test_members_are_known_to_the_brokers_at_once_and_forgotten_at_once(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster,
        acquired(cluster.config()) as core,
    ):
        await cluster.create_topic("T")
        await core.routes.find("T")
        producer, second, consumer = ProducerSpy(), ProducerSpy(), ConsumerSpy()
        await core.add_producer("p", producer)
        await core.add_producer("p", second)
        await core.add_consumer("c", consumer)
        for broker in cluster.brokers:
            assert consumers_at(broker) == [core.client_id]
            assert "p" in broker.tables.producers.groups()
            assert core.broker_version(broker.address) > 0
        await core.remove_producer("p", producer)
        assert "p" in cluster.broker.tables.producers.groups(), "one of the two is still there"
        await core.remove_producer("p", second)
        await core.remove_consumer("c")
        for broker in cluster.brokers:
            assert consumers_at(broker) == []
            assert "p" not in broker.tables.producers.groups()


async def test_a_broker_that_becomes_known_later_hears_of_the_members_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config()) as core:
        await cluster.create_topic("T")
        await core.add_producer("p", producer := ProducerSpy())
        assert "p" not in cluster.broker.tables.producers.groups()
        await core.routes.find("T")
        await eventually(lambda: "p" in cluster.broker.tables.producers.groups(), "the heartbeat")
        await core.remove_producer("p", producer)


async def test_a_broker_that_would_make_a_topic_hears_from_us_too(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config()) as core:
        await core.add_producer("p", producer := ProducerSpy())
        assert (await core.routes.find("New", allow_default=True)).is_default
        await eventually(lambda: "p" in cluster.broker.tables.producers.groups(), "the heartbeat")
        await core.remove_producer("p", producer)


async def test_a_broker_that_forgot_us_with_the_connection_hears_from_us_again_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config()) as core:
        await cluster.create_topic("T")
        await core.routes.find("T")
        await core.add_consumer("c", consumer := ConsumerSpy())
        rebalances = consumer.rebalances
        (lost,) = connections_at(cluster.broker)
        lost.drop("the test cuts it")
        await eventually(lambda: connections_at(cluster.broker) not in ([lost], []), "the heartbeat")
        assert consumers_at(cluster.broker) == [core.client_id]
        await eventually(lambda: consumer.rebalances > rebalances, "sharing queues anew")
        await core.remove_consumer("c")


async def test_a_broker_that_is_down_keeps_nobody_from_joining_and_hears_when_it_is_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config()) as core:
        await cluster.create_topic("T")
        await core.routes.find("T")
        broker = cluster.broker
        host, port = parse_address(broker.address)
        await broker.stop()
        await core.add_consumer("c", ConsumerSpy())
        config = BrokerConfig(broker_name="broker-a", namesrv_addr=cluster.namesrv, ha_listen_port=free_port())
        async with Broker(config, small_store(tmp_path / "broker-a")) as again:
            await again.start(host, port)
            await eventually(lambda: consumers_at(again) == [core.client_id], "the heartbeat")
            await core.remove_consumer("c")


async def test_a_broker_that_refuses_us_is_an_error_and_the_member_did_not_join(tmp_path: Path) -> None:
    refusal = Reply(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: wrong")

    def refuse(*_: object) -> Reply:
        return refusal

    async with (
        running_cluster(tmp_path) as cluster,
        serving({RequestCode.HEART_BEAT: Handler(NoHeader, refuse)}) as (host, port),
    ):
        await cluster.create_topic("T")
        config = cluster.config(
            access=Credentials("alice", "s"), address_map={cluster.broker.address: f"{host}:{port}"}
        )
        async with acquired(config) as core:
            await core.routes.find("T")
            with pytest.raises(NoPermission, match=r"alice.*wrong"):
                await core.add_consumer("c", ConsumerSpy())
            await core.heartbeat_now()  # nobody is here, so there is nothing to say


async def test_who_leaves_waits_until_no_heartbeat_that_names_it_is_under_way(tmp_path: Path) -> None:
    """Brokers work on both side by side: one that heard them in the other order would keep a member that has gone."""
    async with running_cluster(tmp_path) as cluster, slow_heartbeats() as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address}, request_timeout_s=10.0)
        async with acquired(config) as core:
            broker.answers.set()
            await core.routes.find("T")
            await core.add_consumer("c", ConsumerSpy())
            await core.add_producer("p", producer := ProducerSpy())
            broker.answers.clear()
            broker.events.clear()
            beating = asyncio.create_task(core.heartbeat_now())
            await eventually(lambda: broker.events == ["beat"])
            leaving = [
                asyncio.create_task(core.remove_consumer("c")),
                asyncio.create_task(core.remove_producer("p", producer)),
            ]
            await asyncio.sleep(0.02)
            assert broker.events == ["beat"]
            broker.answers.set()
            await within(asyncio.gather(beating, *leaving))
            assert broker.events == ["beat", "answered", "left", "left"]


async def test_a_broker_that_no_route_has_any_more_hears_that_a_member_left(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster,
        acquired(cluster.config()) as core,
    ):
        await cluster.create_topic("T")
        await core.routes.find("T")
        await core.add_consumer("c", ConsumerSpy())
        other = cluster.brokers[1]
        assert consumers_at(other) == [core.client_id]
        await other.registration.settled()  # the group's retry topic is new, and would register it again below
        await core.api.ask(cluster.namesrv, RequestCode.UNREGISTER_BROKER, gone(other), timeout=5.0)
        route = await core.routes.find("T", fresh=True)
        assert list(route.brokers) == ["broker-a"]
        await core.remove_consumer("c")
        assert consumers_at(other) == consumers_at(cluster.broker) == []


async def test_a_route_that_lost_a_broker_is_asked_for_again_soon(tmp_path: Path) -> None:
    # One that restarts is gone for a moment; the next regular round is a minute away.
    async with (
        running_cluster(tmp_path, brokers=("broker-a", "broker-b")) as cluster,
        acquired(cluster.config(route_refresh_s=60.0)) as core,
    ):
        await cluster.create_topic("T")
        await core.routes.find("T")
        await core.api.ask(cluster.namesrv, RequestCode.UNREGISTER_BROKER, gone(cluster.brokers[1]), timeout=5.0)
        assert list((await core.routes.find("T", fresh=True)).brokers) == ["broker-a"]
        await cluster.create_topic("Another")  # so it registers again

        def is_whole() -> bool:
            route = core.routes.known("T")
            return route is not None and len(route.brokers) == 2

        assert not is_whole()
        await eventually(is_whole, "asking again")
        assert core.routes._lost == {}


def gone(broker: Broker) -> UnregisterBrokerHeader:
    return UnregisterBrokerHeader(
        broker_name=broker._config.broker_name, broker_addr=broker.address, cluster_name="DefaultCluster", broker_id=0
    )


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 3.0), (50, 3.0)])
def test_a_broker_that_does_not_answer_hears_from_us_every_few_seconds(failures: int, seconds: float) -> None:
    assert retry_pause(failures) == seconds


async def test_a_group_is_free_again_when_its_consumer_has_released_the_core() -> None:
    config = ClientConfig(namesrv="127.0.0.1:1", client_id="fixed")
    async with acquired(config) as core:
        assert await Core.acquire(config, consumer_group="g") is core
        await core.release(consumer_group="g")
        assert await Core.acquire(config, consumer_group="g") is core
        await core.release(consumer_group="g")


def test_producers_are_no_business_of_slaves() -> None:
    brokers = {"a": {0: "a0:1", 1: "a1:1"}, "b": {1: "b1:1"}}
    assert listeners(brokers, has_consumers=False) == {"a0:1"}
    assert listeners(brokers, has_consumers=True) == {"a0:1", "a1:1", "b1:1"}


async def test_time_and_changed_routes_make_consumers_save_and_share_anew(tmp_path: Path) -> None:
    config = {"persist_offsets_s": 0.02, "rebalance_s": 0.02, "route_refresh_s": 0.02, "heartbeat_s": 0.02}
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config(**config)) as core:
        await cluster.create_topic("T", queues=1)
        await core.routes.find("T")
        await core.add_consumer("c", consumer := ConsumerSpy())
        await eventually(lambda: consumer.saves > 2 and consumer.rebalances > 2, "the clocks")
        await cluster.create_topic("T", queues=3)
        await eventually(lambda: len(core.routes.known("T").read_queues) == 3, "the new route")  # type: ignore[union-attr]
        await core.remove_consumer("c")
        saves = consumer.saves
        await asyncio.sleep(0.05)
        assert consumer.saves == saves


async def test_one_consumer_that_fails_to_save_does_not_stop_the_clock(tmp_path: Path) -> None:
    class Failing(ConsumerSpy):
        async def persist_offsets(self) -> None:
            self.saves += 1
            raise ConnectError("down") if self.saves % 2 else ValueError("bug")

    async with acquired(ClientConfig(namesrv="127.0.0.1:1", persist_offsets_s=0.01)) as core:
        await core.add_consumer("c", consumer := Failing())
        await eventually(lambda: consumer.saves >= 4, "the clock")
        await core.remove_consumer("c")


# Answering brokers


@asynccontextmanager
async def asked(tmp_path: Path, consumer: ConsumerSpy, *producers: ProducerSpy) -> AsyncIterator[Connection]:
    """Yield a broker whose own connection to us can be used to ask."""
    async with running_cluster(tmp_path) as cluster, acquired(cluster.config()) as core:
        await cluster.create_topic("T")
        await core.routes.find("T")
        await core.add_consumer("c", consumer)
        for producer in producers:
            await core.add_producer("p", producer)
        (connection,) = connections_at(cluster.broker)
        yield connection
        for producer in producers:
            await core.remove_producer("p", producer)
        await core.remove_consumer("c")


def a_record(properties: bytes = b"PGROUP\x01p\x02UNIQ_KEY\x01id-1\x02") -> bytes:
    host = encode_host("127.0.0.1", 10911)
    record = encode_record(
        topic=b"T",
        body=b"half",
        properties=properties,
        queue_id=0,
        born_timestamp_ms=1,
        born_host=host,
        store_host=host,
    )
    return bytes(record)


async def test_members_changed_means_sharing_the_queues_anew(tmp_path: Path) -> None:
    consumer = ConsumerSpy()
    async with asked(tmp_path, consumer) as connection:
        before = consumer.rebalances
        for group in ("unknown", "c"):
            header = NotifyConsumerIdsChangedHeader(consumer_group=group)
            connection.send_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
        await eventually(lambda: consumer.rebalances == before + 1)


async def test_offsets_are_reset_in_the_form_for_java_and_in_that_for_cpp(tmp_path: Path) -> None:
    consumer = ConsumerSpy()
    header = ResetOffsetHeader(topic="T", group="c", timestamp=1, is_force=True)
    for_java = encode_body(ResetOffset(offset_table={QUEUE: 3}))
    entry = QueueAndOffset(topic="T", broker_name="broker-a", queue_id=0, offset=4)
    for_cpp = encode_body(ResetOffsetList(offset_table=[entry]))
    async with asked(tmp_path, consumer) as connection:
        for body in (for_java, for_cpp, b""):
            connection.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        await eventually(lambda: len(consumer.resets) == 3)
        assert consumer.resets == [("T", {QUEUE: 3}), ("T", {QUEUE: 4}), ("T", {})]


async def test_an_operator_sees_the_offsets_and_what_the_consumer_does(tmp_path: Path) -> None:
    async with asked(tmp_path, ConsumerSpy()) as connection:
        status = GetConsumerStatusHeader(topic="T", group="c")
        reply = await connection.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, status, timeout=5.0)
        assert decode_body(reply.body, ConsumerStatus).message_queue_table == {QUEUE: 7}

        header = GetConsumerRunningInfoHeader(consumer_group="c", client_id="any", jstack_enable=True)
        reply = await connection.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout=5.0)
        info = decode_body(reply.body, ConsumerRunningInfo)
        assert info.properties["mine"] == "yes"
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_NAMESERVER_ADDR"].endswith(";")
        assert info.jstack is not None
        assert "MainThread" in info.jstack

        other = msgspec.structs.replace(header, consumer_group="unknown")
        reply = await connection.request(RequestCode.GET_CONSUMER_RUNNING_INFO, other, timeout=5.0)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "The Consumer Group <unknown> not exist in this consumer"


async def test_an_operator_can_have_one_message_consumed(tmp_path: Path) -> None:
    consumer = ConsumerSpy()
    async with asked(tmp_path, consumer) as connection:
        header = ConsumeMessageDirectlyHeader(consumer_group="c", broker_name="broker-a")
        reply = await connection.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, a_record(), timeout=5.0)
        assert decode_body(reply.body, ConsumeMessageDirectlyResult).consume_result == "CR_SUCCESS"
        (message,) = consumer.consumed
        assert (message.message_id, message.body, message.broker_name) == ("id-1", b"half", "broker-a")


async def test_how_a_transaction_ended_is_asked_of_the_producers_until_one_knows(tmp_path: Path) -> None:
    ignorant, knowing, last = ProducerSpy(knows=False), ProducerSpy(), ProducerSpy()
    async with asked(tmp_path, ConsumerSpy(), ignorant, knowing, last) as connection:
        header = CheckTransactionStateHeader(tran_state_table_offset=5, commit_log_offset=100)
        connection.send_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, a_record())
        await eventually(lambda: knowing.checked)
        ((got, message, address),) = knowing.checked
        assert (got, message.message_id) == (header, "id-1")
        assert parse_address(address)[0] == "127.0.0.1"
        assert ignorant.checked
        assert not last.checked
        # an unknown group is logged, and does no harm
        connection.send_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, a_record(b"PGROUP\x01nobody\x02"))
        status = GetConsumerStatusHeader(topic="T", group="c")
        assert (await connection.request(221, status, timeout=5.0)).code == ResponseCode.SUCCESS


async def test_an_answer_is_offered_to_every_producer(tmp_path: Path) -> None:
    ignorant, knowing = ProducerSpy(knows=False), ProducerSpy()
    async with asked(tmp_path, ConsumerSpy(), ignorant, knowing) as connection:
        header = ReplyMessageHeader(
            producer_group="whoever answers",
            topic="C_REPLY_TOPIC",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            born_host="127.0.0.1:1",
            store_host="127.0.0.1:2",
            store_timestamp=2,
            properties="CORRELATION_ID\x01x\x02",
        )
        reply = await connection.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, b"answer", timeout=5.0)
        assert reply.code == ResponseCode.SUCCESS
        assert ignorant.replies == knowing.replies == [(header, b"answer")]


async def test_releasing_ends_what_a_broker_started(tmp_path: Path) -> None:
    class Slow(ConsumerSpy):
        async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
            self.resets.append((topic, offsets))
            await asyncio.Event().wait()

    async def main() -> None:
        consumer = Slow()
        before = asyncio.all_tasks()
        async with asked(tmp_path, consumer) as connection:
            header = ResetOffsetHeader(topic="T", group="c", timestamp=1, is_force=True)
            connection.send_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header)
            await eventually(lambda: consumer.resets)
        assert asyncio.all_tasks() == before

    await within(main())


# Settings


async def test_an_unreachable_broker_address_can_be_mapped(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, advertised_host="192.0.2.7") as cluster:
        await cluster.create_topic("T")
        listened = cluster.broker.address.replace("192.0.2.7", "127.0.0.1")
        for mapping in ({cluster.broker.address: listened}, {"192.0.2.7": "127.0.0.1"}):
            async with acquired(cluster.config(address_map=mapping)) as core:
                route = await core.routes.find("T")
                assert route.master_of("broker-a") == listened
                await core.add_consumer("c", ConsumerSpy())
                assert consumers_at(cluster.broker) == [core.client_id]
                await core.remove_consumer("c")


def test_a_client_id_is_made_as_apache_makes_it() -> None:
    config = ClientConfig(namesrv="a:1")
    ip, _, instance = config.make_client_id(42, 123).partition("@")
    assert instance == "42#123"
    assert ip.count(".") == 3 or ":" in ip
    assert ClientConfig(namesrv="a:1", instance="i", unit="u").make_client_id(1, 2) == f"{ip}@i@u"
    assert ClientConfig(namesrv="a:1", client_id="mine").make_client_id(1, 2) == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"namesrv": "nonsense"}, "not host:port"),
        ({"namesrv": "a:99999"}, "no port"),
        ({"namesrv": " ; "}, "no name server"),
        ({"namesrv": "a:1", "heartbeat_s": 0}, "heartbeat_s must be more than 0"),
        ({"namesrv": "a:1", "heartbeat_s": float("nan")}, "heartbeat_s must be more than 0"),
        ({"namesrv": "a:1", "client_id": " "}, "client_id"),
        ({"namesrv": "a:1", "address_map": {"a:1": "b"}}, "address_map"),
    ],
)
def test_a_bad_setting_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ClientConfig(**options)


def test_name_servers_come_from_the_environment_when_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        ClientConfig()
    monkeypatch.setitem(os.environ, "NAMESRV_ADDR", "a:1;b:2;a:1")
    assert ClientConfig().namesrv_addresses == ("a:1", "b:2")
    assert ClientConfig(namesrv="c:3, d:4").namesrv_addresses == ("c:3", "d:4")


def test_options_replace_what_the_config_says() -> None:
    config = ClientConfig(namesrv="a:1", heartbeat_s=5)
    changed = client_config(config, {"namesrv": None, "heartbeat_s": 7})
    assert (changed.namesrv, changed.heartbeat_s) == ("a:1", 7)
    assert client_config(None, {"namesrv": "b:2"}).namesrv == "b:2"
    with pytest.raises(ConfigError, match="nonsense"):
        client_config(config, {"nonsense": 1})
