"""Asking name servers of which some are down, silent, or do not know."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.name_servers import NameServers
from hanabi.errors import ConnectError, NoPermission, RequestCodeNotSupported, TopicNotExist, TransportError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.testing.waiting import eventually, within
from hanabi.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.namesrv import GetRouteHeader
from tests.broker.talk import serving
from tests.interop.processes import free_port


class FakeNameServer:
    """Answers for the topics it knows, in its own time."""

    def __init__(self, *topics: str, silent: bool = False, refuses: bool = False, brokers: int = 1) -> None:
        self._topics, self._silent, self._refuses = topics, silent, refuses
        self._brokers = brokers
        self.address = ""
        self.asked = 0

    def route(self, header: GetRouteHeader, _: Command, __: Connection) -> Reply | Awaitable[Reply]:
        self.asked += 1
        if self._silent:
            return self._never()
        if self._refuses:
            return Reply(ResponseCode.NO_PERMISSION, "not you")
        if header.topic not in self._topics:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info for {header.topic}")
        return Reply(body=encode_body(a_route(self.address)))

    def brokers(self, _: NoHeader, __: Command, ___: Connection) -> Reply:
        table = {f"b{number}": a_route(self.address).broker_datas[0] for number in range(self._brokers)}
        return Reply(body=encode_body(ClusterInfo(broker_addr_table=table)))

    async def _never(self) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeNameServer"]:
        handlers: dict[int, Handler] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler(GetRouteHeader, self.route),
            RequestCode.GET_BROKER_CLUSTER_INFO: Handler(NoHeader, self.brokers),
        }
        async with serving(handlers) as (host, port):
            self.address = f"{host}:{port}"
            yield self


def a_route(address: str) -> TopicRoute:
    return TopicRoute(
        broker_datas=[BrokerData(broker_addrs={0: address}, broker_name="broker-a", cluster="C")],
        queue_datas=[QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)],
    )


def nobody_there() -> str:
    return f"127.0.0.1:{free_port()}"


class InOrder(random.Random):
    """Shuffles nothing: the test says who is asked first."""

    def shuffle(self, x: object) -> None:
        pass


@asynccontextmanager
async def asking(*addresses: str, silence_seconds: float = 30.0) -> AsyncIterator[NameServers]:
    connector = Connector()
    try:
        yield NameServers(addresses, Api(connector), rng=InOrder(), silence_seconds=silence_seconds)
    finally:
        await connector.close()


async def test_the_first_one_is_chosen_at_random() -> None:
    connector = Connector()
    addresses = ["a:1", "b:2", "c:3"]
    firsts = {NameServers(addresses, Api(connector), rng=random.Random(seed)).first for seed in range(50)}
    assert firsts == set(addresses)
    await connector.close()


async def test_when_one_is_down_the_next_is_asked_and_stays_the_first_choice() -> None:
    down = nobody_there()
    async with FakeNameServer("T").running() as up, asking(down, up.address) as servers:
        route = await servers.route_of("T", 30.0)
        assert route.broker_datas[0].broker_addrs == {0: up.address}
        assert servers.first == up.address
        assert servers.addresses == (down, up.address)


async def test_one_that_is_silent_does_not_use_up_the_whole_time() -> None:
    async with (
        FakeNameServer("T", silent=True).running() as silent,
        FakeNameServer("T").running() as up,
        asking(silent.address, up.address, silence_seconds=0.05) as servers,
    ):
        route = await within(servers.route_of("T", 3_600.0))
        assert route.broker_datas[0].broker_addrs == {0: up.address}
        assert servers.first == up.address


async def test_a_topic_that_only_one_of_them_knows_is_found() -> None:
    async with (
        FakeNameServer().running() as newcomer,
        FakeNameServer("T").running() as knows,
        asking(newcomer.address, knows.address) as servers,
    ):
        assert await servers.route_of("T", 30.0) == a_route(knows.address)


async def test_a_topic_that_none_knows_is_an_error_that_names_all_who_were_asked() -> None:
    down = nobody_there()
    async with (
        FakeNameServer().running() as one,
        FakeNameServer().running() as other,
        asking(one.address, down, other.address) as servers,
    ):
        with pytest.raises(TopicNotExist) as caught:
            await servers.route_of("Missing", 30.0)
        text = str(caught.value)
        assert "Missing" in text
        for address in (one.address, other.address, down):
            assert address in text
        assert "refused" in text


async def test_one_that_is_no_name_server_is_called_so() -> None:
    async with serving({}) as (host, port), asking(f"{host}:{port}") as servers:
        with pytest.raises(RequestCodeNotSupported) as caught:
            await servers.route_of("T", 30.0)
        assert str(caught.value) == f"{host}:{port} is not a name server (a broker, perhaps)"


async def test_that_there_are_no_brokers_is_known_only_if_all_say_it() -> None:
    other = nobody_there()
    async with (
        FakeNameServer(brokers=0).running() as empty,
        FakeNameServer(brokers=1).running() as full,
        asking(empty.address) as one,
        asking(empty.address, full.address) as two,
        asking(empty.address, other) as half,
    ):
        assert await one.have_no_brokers(30.0)
        assert not await two.have_no_brokers(30.0)
        assert not await half.have_no_brokers(30.0)


async def test_when_all_are_down_the_error_says_which_and_why() -> None:
    down = [nobody_there(), nobody_there()]
    async with asking(*down) as servers:
        with pytest.raises(ConnectError) as caught:
            await servers.route_of("T", 30.0)
        for address in down:
            assert address in str(caught.value)
        assert "topic T" in str(caught.value)


async def test_when_all_are_silent_the_time_is_kept() -> None:
    async with FakeNameServer(silent=True).running() as silent, asking(silent.address) as servers:
        with pytest.raises(TransportError, match="no answer"):
            await within(servers.route_of("T", 0.2))


async def test_one_that_refuses_us_is_heard_when_no_other_can_be_reached() -> None:
    async with FakeNameServer(refuses=True).running() as strict, asking(nobody_there(), strict.address) as servers:
        with pytest.raises(NoPermission, match="not you"):
            await servers.route_of("T", 30.0)


async def test_a_question_that_is_cancelled_leaves_nothing_behind() -> None:
    async with FakeNameServer(silent=True).running() as silent, asking(silent.address) as servers:
        question = asyncio.create_task(servers.route_of("T", 60.0))
        await eventually(lambda: silent.asked)
        before = asyncio.all_tasks()
        question.cancel()
        await asyncio.wait((question,))
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(left) < len(before)
        assert not any("topic_route" in repr(task) for task in left)
