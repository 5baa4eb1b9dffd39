"""Connections that break in the middle of an answer, answers in another order, name servers that are not there yet."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.client.config import ClientConfig
from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.client.producer.producer import Producer
from hanabi.errors import ConnectError, SendFailed
from hanabi.message import Message, StoredMessage
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import parse_address
from hanabi.remoting.connection.dispatch import Reply
from hanabi.testing.cluster import HOST, Cluster, running_broker, running_cluster
from hanabi.testing.proxied import proxied_cluster
from hanabi.testing.proxy import Proxy
from hanabi.testing.waiting import eventually, within
from hanabi.wire.headers.send import SendMessageReplyHeader, SendMessageV2Header
from tests.client.consumer.pushing import Inbox, committed, numbered, send
from tests.client.producer.scripted import scripted_broker
from tests.interop.processes import free_port

SEEDS = random.sample(range(1_000_000), 3)


async def stored(cluster: Cluster, queues: int) -> Counter[bytes]:
    """Return what the broker has, and how often."""
    found: Counter[bytes] = Counter()
    async with PullConsumer("looking", config=cluster.config()) as consumer:
        for queue in await consumer.queues_of("T"):
            offset, end = 0, await consumer.end_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found.update(message.body for message in result.messages)
                offset = result.next_offset
    return found


@asynccontextmanager
async def cutting(cluster: Cluster, cuts: Iterable[int]) -> AsyncIterator[Proxy]:
    """Yield a proxy before the broker that cuts the first connections, each after so many bytes of the broker's."""
    async with Proxy(parse_address(cluster.broker.address)) as proxy:
        proxy.cut_after(cuts)
        yield proxy


# In the middle of an answer


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_send_whose_answer_breaks_off_is_tried_again_and_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    cuts = [chance.randrange(1, 1_500) for _ in range(6)]
    async with running_cluster(tmp_path) as cluster, cutting(cluster, cuts) as cutter:
        await cluster.create_topic("T", queues=2)
        config = cluster.config(address_map={cluster.broker.address: cutter.address})
        bodies = numbered(80)
        async with Producer("g", config=config, retries=10, send_timeout_s=30.0) as producer:
            for body in bodies[:40]:
                await within(producer.send(Message("T", body)), 30.0)
            await within(producer.send_many([Message("T", body) for body in bodies[40:]]), 30.0)
        found = await stored(cluster, 2)
        assert set(found) == set(bodies)
        assert cutter.cuts >= 1
        # An answer that broke off is of a message that was stored, so it is there twice.
        assert sum(found.values()) - len(bodies) <= 40 * cutter.cuts


async def test_a_pull_whose_answer_breaks_off_is_made_again_and_every_message_is_consumed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cutting(cluster, [9_000]) as cutter:
        await cluster.create_topic("T", queues=1)
        bodies = [body * 100 for body in numbered(100)]
        await send(cluster, bodies)
        addresses = {cluster.broker.address: cutter.address}
        async with Inbox(cluster, "g", address_map=addresses, persist_offsets_s=0.1) as inbox:
            await eventually(lambda: set(inbox.bodies) == set(bodies))
            await eventually(lambda: committed(cluster, "g") == {0: 100})
        assert cutter.cuts == 1


async def test_one_request_whose_answer_breaks_off_is_told_with_the_others_that_were_under_way(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cutting(cluster, [300]) as cutter:
        await cluster.create_topic("T", queues=1)
        config = cluster.config(address_map={cluster.broker.address: cutter.address})
        async with Producer("g", config=config, retries=0) as producer:
            results = await within(
                producer.send_many([Message("T", body) for body in numbered(30)], return_exceptions=True)
            )
        failed = [result for result in results if isinstance(result, Exception)]
        assert failed
        for error in failed:
            assert isinstance(error, SendFailed)
            assert error.maybe_stored
            assert "topic T" in str(error)
            assert "broker-a" in str(error)
            assert "may store it twice" in str(error)


# In another order


async def test_answers_in_another_order_reach_those_who_asked(tmp_path: Path) -> None:
    waiting: list[asyncio.Future[None]] = []

    async def answer(header: SendMessageV2Header, body: bytes) -> Reply:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        if len(waiting) == 16:  # the last shall be the first
            for index, each in enumerate(reversed(waiting)):
                asyncio.get_running_loop().call_later(0.001 * index, each.set_result, None)
        await turn
        offset = int(body)
        return Reply(
            header=SendMessageReplyHeader(msg_id=f"{offset:032X}", queue_id=header.queue_id, queue_offset=offset)
        )

    async with running_cluster(tmp_path) as cluster, scripted_broker(answer) as broker:
        await cluster.create_topic("T")
        config = cluster.config(address_map={cluster.broker.address: broker.address})
        async with Producer("g", config=config) as producer:
            results = await within(producer.send_many([Message("T", b"%d" % number) for number in range(16)]))
        assert [result.queue_offset for result in results] == list(range(16))


# Nobody there yet


async def test_with_both_name_servers_down_clients_start_say_so_and_work_when_one_is_there(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    addresses = [f"{HOST}:{port}" for port in ports]
    config = ClientConfig(namesrv=";".join(addresses), request_timeout_s=1.0)
    consumer = LitePullConsumer("g", config=config, consume_from="first")
    consumer.subscribe("T")
    async with Producer("p", config=config) as producer, consumer:
        with pytest.raises(ConnectError, match="topic T") as raised:
            await within(producer.send(Message("T", b"too early"), timeout=1.0))
        assert all(address in str(raised.value) for address in addresses)
        assert await consumer.poll(0.01) == []
        async with NameServer(NamesrvConfig(), tmp_path / "namesrv") as name_server:
            await name_server.start(HOST, ports[1])
            known_to = BrokerConfig(broker_name="broker-a", namesrv_addr=addresses[1])
            async with running_broker(tmp_path / "broker", known_to) as broker:
                await broker.registration.until_registered()
                await within(producer.send(Message("T", b"in time")))
                got = await within(consumer.poll(30.0), 40.0)
                assert [message.body for message in got] == [b"in time"]


# Without a word


async def test_a_producer_whose_connections_died_silently_sends_again_after_one_timeout(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path, brokers=("broker-a",)) as cluster:
        await cluster.create_topic("T")
        config = ClientConfig(namesrv=cluster.namesrv)
        async with Producer("g", config=config, retries=0, send_timeout_s=4.0) as producer:
            await producer.send(Message("T", b"before"))
            for proxy in cluster.proxies.values():
                proxy.swallow()
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"into the void"))
            for _ in range(20):
                await within(producer.send(Message("T", b"after")))


async def test_a_consumer_whose_connections_died_silently_goes_on_with_new_ones(tmp_path: Path) -> None:
    async with proxied_cluster(tmp_path, brokers=("broker-a",)) as cluster:
        await cluster.create_topic("T", queues=1)
        config = ClientConfig(namesrv=cluster.namesrv, heartbeat_s=1.0)
        got: list[bytes] = []
        consumer = PushConsumer("g", config=config, consume_from="first")
        consumer.subscribe("T")

        @consumer.listener
        async def take(messages: list[StoredMessage]) -> None:
            got.extend(message.body for message in messages)

        async with consumer:
            async with Producer("p", namesrv=cluster.namesrv) as producer:
                await producer.send(Message("T", b"before"))
            await eventually(lambda: got == [b"before"])
            cluster.proxies["broker-a"].swallow()
            async with Producer("p", namesrv=cluster.namesrv) as producer:
                await producer.send(Message("T", b"after"))
            await eventually(lambda: got == [b"before", b"after"])
