"""Tests of the lists of connected clients, as mqadmin's consumerConnection and producerConnection show it."""

from pathlib import Path

from hanabi.broker.handlers.admin.connections import connection_handlers
from hanabi.remoting.connection.dispatch import Handler
from hanabi.testing.clock import START_MS
from hanabi.wire.bodies.clients import ConsumerConnection, ProducerConnection, ProducerTable
from hanabi.wire.bodies.groups import GroupSubscription
from hanabi.wire.bodies.route import TopicList
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.client import GetConsumerConnectionListHeader, GetProducerConnectionListHeader
from hanabi.wire.headers.group import QuerySubscriptionByConsumerHeader, QueryTopicsByConsumerHeader
from tests.broker.clients.people import a_client
from tests.broker.handlers.admin.world import ADDRESS, World, asking


def handlers(world: World) -> dict[int, Handler]:
    return connection_handlers(world.producers, world.consumers, world.offsets, ADDRESS, world.clock)


async def test_the_members_of_a_consuming_group_are_shown_with_what_they_subscribe_to(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        first = world.consumer("g", "T", client_id="c1")
        world.consumer("g", "T", client_id="c2")
        header = GetConsumerConnectionListHeader(consumer_group="g")
        shown = await admin.read(ConsumerConnection, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        assert [member.client_id for member in shown.connection_set] == ["c1", "c2"]
        member = shown.connection_set[0]
        assert (member.client_addr, member.language, member.version) == (first.connection.peer, "JAVA", 409)
        assert (shown.consume_type, shown.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert shown.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        assert list(shown.subscription_table) == ["T"]
        assert shown.subscription_opinions is None


async def test_members_that_subscribe_differently_are_told_apart(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        for client_id, topic in (("c1", "T"), ("c2", "U"), ("c3", "T")):
            world.consumer("g", topic, client_id=client_id)
        header = GetConsumerConnectionListHeader(consumer_group="g")
        shown = await admin.read(ConsumerConnection, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        assert shown.subscription_opinions is not None
        said = [(opinion.subscribes, opinion.client_ids) for opinion in shown.subscription_opinions]
        assert said == [("CLUSTERING T(*)", ["c1", "c3"]), ("CLUSTERING U(*)", ["c2"])]


async def test_a_group_without_members_is_not_online(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (_, admin):
        header = GetConsumerConnectionListHeader(consumer_group="g")
        code, remark = await admin.refused(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        assert (code, remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[g] not online")


async def test_producers_are_shown_by_group_and_all_together(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        client = a_client("p1", language="CPP")
        world.producers.heartbeat(client, "pg")
        header = GetProducerConnectionListHeader(producer_group="pg")
        shown = await admin.read(ProducerConnection, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        assert [(member.client_id, member.language) for member in shown.connection_set] == [("p1", "CPP")]
        table = await admin.read(ProducerTable, RequestCode.GET_ALL_PRODUCER_INFO)
        info = table.data["pg"][0]
        assert (info.client_id, info.remote_ip, info.version) == ("p1", f"/{client.connection.peer}", 409)
        assert info.last_update_timestamp == START_MS
        code, remark = await admin.refused(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListHeader(producer_group="nobody")
        )
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[nobody] not exist")


async def test_the_topics_and_the_subscription_of_a_group_are_told(tmp_path: Path) -> None:
    async with asking(tmp_path, handlers) as (world, admin):
        world.consumer("g", "T")
        world.offsets.commit("g", "T", 0, 1)
        world.offsets.commit("g", "%RETRY%g", 0, 1)
        topics = await admin.read(
            TopicList, RequestCode.QUERY_TOPICS_BY_CONSUMER, QueryTopicsByConsumerHeader(group="g")
        )
        assert (topics.topic_list, topics.broker_addr) == (["%RETRY%g", "T"], ADDRESS)
        header = QuerySubscriptionByConsumerHeader(group="g", topic="T")
        found = await admin.read(GroupSubscription, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        assert found.subscription_data is not None
        assert found.subscription_data.sub_string == "*"
        header = QuerySubscriptionByConsumerHeader(group="g", topic="U")
        found = await admin.read(GroupSubscription, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        assert found.subscription_data is None
