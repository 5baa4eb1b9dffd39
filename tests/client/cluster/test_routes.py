"""Routes: what a client makes of what the name servers say, and how it keeps it fresh."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hanabi.client.cluster.api import Api
from hanabi.client.cluster.name_servers import NameServers
from hanabi.client.cluster.routes import DENIALS_MAX, Route, Routes, address_of, describe, for_new_topic, make_route
from hanabi.errors import ConnectError, MQError, TopicNotExist
from hanabi.message import MessageQueue
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.route import BrokerData, QueueData, TopicRoute


def broker(name: str, addresses: dict[int, str], cluster: str = "C") -> BrokerData:
    return BrokerData(broker_addrs=addresses, broker_name=name, cluster=cluster)


def queues(name: str, write: int, read: int | None = None, perm: int = 6) -> QueueData:
    return QueueData(
        broker_name=name, perm=perm, read_queue_nums=write if read is None else read, write_queue_nums=write
    )


def plain(address: str) -> str:
    return address


def a_route(source: TopicRoute) -> Route:
    return make_route("T", source, plain)


TWO = TopicRoute(
    broker_datas=[broker("b", {0: "b0:1"}), broker("a", {0: "a0:1", 1: "a1:1"})],
    queue_datas=[queues("b", 1, 2), queues("a", 2, 1)],
)


# What a route is


def test_queues_are_in_the_order_of_broker_names_and_each_side_has_its_own_number() -> None:
    route = a_route(TWO)
    assert route.write_queues == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)]
    assert route.read_queues == [MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]


def test_nothing_is_written_where_the_permission_or_the_master_is_missing() -> None:
    source = TopicRoute(
        broker_datas=[broker("a", {1: "slave:1"}), broker("b", {0: "b:1"}), broker("c", {0: "c:1"})],
        queue_datas=[queues("a", 1), queues("b", 1, perm=4), queues("c", 1, perm=2), queues("gone", 1)],
    )
    route = a_route(source)
    assert [queue.broker_name for queue in route.write_queues] == ["c"]
    assert [queue.broker_name for queue in route.read_queues] == ["a", "b", "gone"]


def test_the_name_server_may_fix_the_queues_of_an_ordered_topic() -> None:
    source = TopicRoute(broker_datas=TWO.broker_datas, queue_datas=TWO.queue_datas, order_topic_conf="b:1;a:2;junk")
    route = a_route(source)
    assert route.is_ordered
    assert [(queue.broker_name, queue.queue_id) for queue in route.write_queues] == [("b", 0), ("a", 0), ("a", 1)]


def test_a_slave_that_is_gone_is_replaced_by_the_next_one_and_then_by_anybody() -> None:
    addresses = {0: "master:1", 2: "slave2:1"}
    assert address_of(addresses, 0) == "master:1"
    assert address_of(addresses, 1) == "slave2:1"
    assert address_of(addresses, 5) == "master:1"
    assert address_of(addresses, 5, only_this=True) is None
    assert address_of({1: "slave:1"}, 0) == "slave:1"
    assert address_of({}, 0) is None


def test_a_route_knows_masters_clusters_and_any_of_its_brokers() -> None:
    route = a_route(TWO)
    assert route.master_of("a") == "a0:1"
    assert route.master_of("nobody") is None
    assert route.address_of("a", 1) == "a1:1"
    assert route.cluster_of("b") == "C"
    assert route.cluster_of("nobody") is None
    assert route.any_address(min) == "a0:1"
    assert a_route(TopicRoute()).any_address(min) is None
    assert describe(route) == "a (a0:1, a1:1) 2 write 1 read; b (b0:1) 1 write 2 read"


def test_addresses_go_through_the_address_map() -> None:
    route = make_route("T", TWO, lambda address: address.replace(":1", ":9"))
    assert route.brokers == {"b": {0: "b0:9"}, "a": {0: "a0:9", 1: "a1:9"}}


def test_a_new_topic_has_no_more_queues_than_its_model_and_than_asked_for() -> None:
    source = TopicRoute(queue_datas=[queues("a", 8), queues("b", 2)])
    assert [queue.write_queue_nums for queue in for_new_topic(source, 4).queue_datas] == [4, 2]
    assert [queue.read_queue_nums for queue in for_new_topic(source, 4).queue_datas] == [4, 2]


# How routes are kept


class Teller(NameServers):
    """Name servers that say what the test says."""

    def __init__(self) -> None:
        super().__init__(("ns:1",), Api(Connector()))
        self.says: dict[str, TopicRoute | MQError] = {}
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def route_of(self, topic: str, seconds: float) -> TopicRoute:
        self.asked.append(topic)
        await self.answers.wait()
        said = self.says.get(topic, TopicNotExist(f"no {topic}"))
        if isinstance(said, MQError):
            raise said
        return said


@asynccontextmanager
async def routes_of(teller: Teller) -> AsyncIterator[Routes]:
    routes = Routes(teller, mapped=plain, request_timeout_s=3.0)
    try:
        yield routes
    finally:
        await routes.close()


async def test_a_route_is_asked_for_once_and_then_known() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    async with routes_of(teller) as routes:
        assert routes.known("T") is None
        route = await routes.find("T")
        assert await routes.find("T") is route
        assert routes.known("T") is route
        assert teller.asked == ["T"]
        assert routes.topics == ["T"]
        assert routes.master_of("b") == "b0:1"
        assert routes.address_of("a", 1) == "a1:1"


async def test_all_who_ask_at_once_share_one_question_and_one_who_gives_up_does_not_end_it() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    teller.answers.clear()
    async with routes_of(teller) as routes:
        first, second = (asyncio.create_task(routes.find("T")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        teller.answers.set()
        assert (await second).topic == "T"
        await asyncio.wait((first,))
        assert first.cancelled()
        assert teller.asked == ["T"]


async def test_a_fresh_route_is_told_to_whoever_listens_if_it_is_different() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    heard: list[tuple[str, Route | None]] = []
    async with routes_of(teller) as routes:
        routes.on_change.append(lambda topic, route: heard.append((topic, route)))
        old = await routes.find("T")
        assert await routes.find("T", fresh=True) is old
        teller.says["T"] = TopicRoute(broker_datas=[broker("c", {0: "c:1"})], queue_datas=[queues("c", 1)])
        new = await routes.find("T", fresh=True)
        assert heard == [("T", old), ("T", new)]
        assert routes.known("T") is new
        assert routes.brokers == {"c": {0: "c:1"}}


async def test_another_order_is_no_change() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    async with routes_of(teller) as routes:
        route = await routes.find("T")
        teller.says["T"] = TopicRoute(broker_datas=TWO.broker_datas[::-1], queue_datas=TWO.queue_datas[::-1])
        assert await routes.find("T", fresh=True) is route


async def test_when_no_name_server_answers_for_one_topic_the_others_are_not_asked_for() -> None:
    teller = Teller()
    teller.says |= {"T": TWO, "U": TWO}
    async with routes_of(teller) as routes:
        await routes.find("T")
        await routes.find("U")
        teller.says |= {"T": ConnectError("down"), "U": ConnectError("down")}
        teller.asked.clear()
        await routes.refresh()
        assert teller.asked == ["T"]


async def test_while_no_name_server_can_be_reached_the_old_route_stays() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    async with routes_of(teller) as routes:
        route = await routes.find("T")
        teller.says["T"] = ConnectError("down")
        assert await routes.find("T", fresh=True) is route
        for _ in range(DENIALS_MAX + 1):
            await routes.refresh()
        assert routes.known("T") is route
        teller.says["U"] = ConnectError("down")
        with pytest.raises(ConnectError):
            await routes.find("U")


async def test_a_topic_is_gone_only_after_some_refreshes_that_say_so() -> None:
    teller = Teller()
    teller.says["T"] = TWO
    async with routes_of(teller) as routes:
        await routes.find("T")
        gone: list[str] = []
        routes.on_change.append(lambda topic, route: gone.append(topic) if route is None else None)
        del teller.says["T"]
        with pytest.raises(TopicNotExist):
            await routes.find("T", fresh=True)
        for _ in range(DENIALS_MAX - 1):
            await routes.refresh()
            assert routes.known("T") is not None
        await routes.refresh()
        assert routes.known("T") is None
        assert gone == ["T"]


async def test_a_topic_that_is_not_there_yet_gets_the_brokers_that_would_make_it() -> None:
    teller = Teller()
    teller.says["TBW102"] = TWO
    async with routes_of(teller) as routes:
        with pytest.raises(TopicNotExist):
            await routes.find("New")
        route = await routes.find("New", allow_default=True)
        assert route.is_default
        assert route.write_queues[0] == MessageQueue("New", "a", 0)
        assert routes.known("New") is None
        assert routes.brokers["a"] == {0: "a0:1", 1: "a1:1"}  # they must hear from us, as they get our messages
        asked = len(teller.asked)
        assert await routes.find("New", allow_default=True) is route
        assert len(teller.asked) == asked, "the name servers are not asked again for every message"
        teller.says["New"] = TWO
        await routes.refresh()
        made = await routes.find("New", allow_default=True)
        assert not made.is_default
        assert routes.known("New") is made


async def test_without_brokers_that_make_topics_the_error_says_so() -> None:
    async with routes_of(Teller()) as routes:
        with pytest.raises(TopicNotExist, match="autoCreateTopicEnable"):
            await routes.find("New", allow_default=True)


async def test_closing_ends_what_is_being_asked() -> None:
    teller = Teller()
    teller.answers.clear()
    async with routes_of(teller) as routes:
        waiting = asyncio.create_task(routes.find("T"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(ConnectError, match="shut down"):
        await waiting
