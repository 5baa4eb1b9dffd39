"""Topics that nobody has made yet: the first messages make them, on every broker."""

import asyncio
from pathlib import Path

import pytest

from hanabi.client.producer.producer import Producer
from hanabi.errors import SendFailed
from hanabi.message import Message
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.waiting import eventually, within
from hanabi.wire.codes import ResponseCode
from tests.client.producer.scripted import refusing, scripted_broker

THREE = ("broker-a", "broker-b", "broker-c")


def brokers_with(cluster: Cluster, topic: str) -> set[str]:
    return {name for name, broker in zip(THREE, cluster.brokers, strict=False) if broker.tables.topics.find(topic)}


async def test_the_first_messages_of_a_topic_make_it_on_every_broker(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=THREE) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        results = [await producer.send(Message("New", b"x")) for _ in range(3)]
        assert [result.queue.broker_name for result in results] == list(THREE)
        assert brokers_with(cluster, "New") == set(THREE)


async def test_a_topic_is_spread_also_when_its_route_is_known_after_the_first_message(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=THREE) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        await producer.send(Message("New", b"x"))
        await cluster.brokers[0].registration.settled()
        running = producer._running
        assert running is not None
        route = await running.core.routes.find("New", fresh=True)  # as a consumer of this process would
        assert set(route.brokers) == {"broker-a"}
        await producer.send(Message("New", b"x"))
        await producer.send(Message("New", b"x"))
        assert brokers_with(cluster, "New") == set(THREE)


async def test_many_first_messages_at_once_reach_every_broker(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=THREE) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        results = await producer.send_many([Message("New", b"x")] * 30)
        counts = [sum(result.queue.broker_name == name for result in results) for name in THREE]
        assert min(counts) >= 5
        for broker in cluster.brokers:
            await broker.registration.settled()
        results = await producer.send_many([Message("New", b"x")] * 60)
        assert {result.queue.queue_id for result in results} == {0, 1, 2, 3}


async def test_the_new_route_is_followed_when_every_broker_had_its_chance(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, brokers=THREE[:2]) as cluster,
        Producer("g", namesrv=cluster.namesrv) as producer,
    ):
        await producer.send_many([Message("New", b"x")] * 4)
        for broker in cluster.brokers:
            await broker.registration.settled()

        async def is_followed() -> bool:
            await producer.send(Message("New", b"x"))
            running = producer._running
            assert running is not None
            publishing = running.publishings.known("New")
            return publishing is not None and not publishing.route.is_default and publishing.first is None

        async with asyncio.timeout(60):
            while not await is_followed():  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_broker_that_makes_no_topics_is_not_asked_for_ever(tmp_path: Path) -> None:
    no = refusing(ResponseCode.TOPIC_NOT_EXIST, "topic[New] not exist")
    async with running_cluster(tmp_path, brokers=THREE[:2]) as cluster, scripted_broker(no) as strict:
        config = cluster.config(address_map={cluster.brokers[0].address: strict.address})
        async with Producer("g", config=config) as producer:
            for _ in range(6):
                assert (await within(producer.send(Message("New", b"x")))).queue.broker_name == "broker-b"
            await cluster.brokers[1].registration.settled()
            await eventually(lambda: brokers_with(cluster, "New") == {"broker-b"})


async def test_a_topic_that_cannot_be_written_says_what_its_route_is(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Producer("g", namesrv=cluster.namesrv) as producer:
        await cluster.create_topic("Archive", perm=4)
        with pytest.raises(SendFailed, match=r"no queue of topic Archive can be written.*broker-a.*0 write 4 read"):
            await producer.send(Message("Archive", b"x"))
