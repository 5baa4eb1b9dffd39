"""Name servers learn of the broker at once, of each change, and of its leave; one that is down holds up nobody."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.registration import Identity, Registration
from hanabi.broker.settings import Settings
from hanabi.broker.tables.topics import Topics
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.server import RemotingServer
from hanabi.store.config import StoreConfig
from hanabi.testing.clock import ManualClock
from hanabi.wire.bodies.route import KVTable
from hanabi.wire.bodies.topics import DataVersion, TopicConfig, decode_register_body, encode_register_body
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.namesrv import (
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    UnregisterBrokerHeader,
)
from tests.interop.processes import free_port

IDENTITY = Identity(
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    broker_id=0,
    address="10.0.0.1:10911",
    ha_address="10.0.0.1:1",
)


class Listener:
    """A name server that only writes down what it is told."""

    def __init__(self) -> None:
        self.registered: list[tuple[RegisterBrokerHeader, dict[str, TopicConfig]]] = []
        self.asked: list[DataVersion] = []
        self.unregistered = 0
        self.order: dict[str, str] = {}
        self.refuses = 0
        self._changed = asyncio.Event()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.REGISTER_BROKER: Handler(RegisterBrokerHeader, self._register),
            RequestCode.QUERY_DATA_VERSION: Handler(QueryDataVersionHeader, self._query),
            RequestCode.UNREGISTER_BROKER: Handler(UnregisterBrokerHeader, self._unregister),
        }

    def _register(self, header: RegisterBrokerHeader, request: Command, _: Connection) -> Reply:
        self._changed.set()
        if self.refuses:
            self.refuses -= 1
            return Reply(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = decode_register_body(bytes(request.body), header.compressed)
        self.registered.append((header, body.topic_config_serialize_wrapper.topic_config_table))
        return Reply(header=RegisterBrokerReplyHeader(), body=encode_body(KVTable(table=self.order)))

    def _query(self, _header: QueryDataVersionHeader, request: Command, _: Connection) -> Reply:
        self._changed.set()
        version = decode_body(bytes(request.body), DataVersion)
        changed = version not in self.asked
        self.asked.append(version)
        return Reply(header=QueryDataVersionReplyHeader(changed=changed), body=encode_body(version))

    def _unregister(self, _header: UnregisterBrokerHeader, _request: Command, _: Connection) -> Reply:
        self.unregistered += 1
        return Reply()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Running:
    def __init__(self, registration: Registration, topics: Topics, settings: Settings) -> None:
        self.registration, self.topics, self.settings = registration, topics, settings


@asynccontextmanager
async def registering(*addresses: str, **broker: object) -> AsyncIterator[Running]:
    config = BrokerConfig(broker_name="broker-a", namesrv_addr=";".join(addresses), **broker)  # type: ignore[arg-type]
    settings = Settings(config, StoreConfig())
    topics = Topics(None, settings, ManualClock())
    connector = Connector(on_close=lambda connection: registration.lost(connection.peer))
    registration = Registration(IDENTITY, topics, settings, connector, retry_seconds=0.01)
    topics.on_change.append(registration.changed)
    task = asyncio.create_task(registration.run())
    try:
        yield Running(registration, topics, settings)
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await connector.close()


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[str]:
    server = RemotingServer(listener.handlers())
    host, port = await server.start("127.0.0.1", 0)
    try:
        yield f"{host}:{port}"
    finally:
        await server.stop(1.0)


@pytest.mark.parametrize("compressed", [False, True])
async def test_topics_are_encoded_once_for_all_name_servers_and_beside_the_loop(
    compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def encode(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return encode_register_body(*arguments)

    async with registering(compressed_register=compressed) as running:
        for number in range(2_000):
            name = f"T{number}"
            running.topics._table.members[name] = TopicConfig(topic_name=name)
        monkeypatch.setattr("hanabi.broker.registration.encode_register_body", encode)
        current_request = running.registration._current_request
        first, second = await asyncio.gather(current_request(), current_request())
        assert first is second
        assert len(threads) == 1
        assert threads[0] != threading.get_ident()
        sent = decode_register_body(first.body, compressed).topic_config_serialize_wrapper
        assert sent.topic_config_table.keys() == running.topics.table().topic_config_table.keys()


async def test_every_name_server_hears_of_the_broker_its_topics_and_its_leave() -> None:
    first, second = Listener(), Listener()
    async with listening(first) as a, listening(second) as b, registering(a, b) as running:
        await running.registration.until_registered()
        assert running.registration.registered == [a, b]
        for each in (first, second):
            ((header, topics),) = each.registered
            assert (header.broker_name, header.broker_addr, header.ha_server_addr) == (
                "broker-a",
                "10.0.0.1:10911",
                "10.0.0.1:1",
            )
            assert topics.keys() == set(running.topics.names())
        await running.registration.unregister()
        assert (first.unregistered, second.unregistered) == (1, 1)
        assert running.registration.registered == []


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_change_is_told_at_once_and_can_be_waited_for(compressed: bool) -> None:
    listener = Listener()
    async with listening(listener) as address, registering(address, compressed_register=compressed) as running:
        await running.registration.until_registered()
        running.topics.update(TopicConfig(topic_name="Orders"))
        await running.registration.settled()
        header, topics = listener.registered[-1]
        assert header.compressed is compressed
        assert "Orders" in topics


async def test_many_changes_at_once_are_told_together() -> None:
    listener = Listener()
    async with listening(listener) as address, registering(address) as running:
        await running.registration.until_registered()
        for number in range(100):
            running.topics.update(TopicConfig(topic_name=f"T{number}"))
        await running.registration.settled()
        assert "T99" in listener.registered[-1][1]
        assert len(listener.registered) <= 3


async def test_a_name_server_that_is_down_holds_up_nobody_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    port = free_port()
    down = f"127.0.0.1:{port}"
    async with listening(listener) as up, registering(down, up) as running:
        await running.registration.until_registered()
        assert running.registration.registered == [up]
        async with asyncio.timeout(20):
            await running.registration.settled()
        late = Listener()
        server = RemotingServer(late.handlers())
        await server.start("127.0.0.1", port)
        await late.until(lambda: bool(late.registered))
        await server.stop(1.0)

    complaints = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len([record for record in complaints if "not registered with name server" in record.message]) == 1


async def test_a_name_server_that_refuses_is_asked_again() -> None:
    listener = Listener()
    listener.refuses = 2
    async with listening(listener) as address, registering(address):
        await listener.until(lambda: bool(listener.registered))


async def test_without_force_only_what_is_new_to_the_name_server_is_sent() -> None:
    listener = Listener()
    async with listening(listener) as address, registering(address, force_register=False) as running:
        await running.registration.until_registered()
        listener.asked.append(running.topics.data_version)
        running.registration.changed()  # as when its time has come
        await running.registration.settled()
        assert (len(listener.registered), len(listener.asked)) == (1, 2)
        running.topics.touch()
        await running.registration.settled()
        assert (len(listener.registered), len(listener.asked)) == (2, 3)


async def test_topics_can_do_no_more_than_the_broker() -> None:
    listener = Listener()
    async with listening(listener) as address, registering(address) as running:
        await running.registration.until_registered()
        running.settings.update("brokerPermission=4")
        running.topics.touch()
        await running.registration.settled()
        assert {topic.perm for topic in listener.registered[-1][1].values()} == {4}


async def test_the_first_name_server_that_answers_says_which_topics_are_ordered() -> None:
    first, second = Listener(), Listener()
    first.order = {"BenchmarkTest": "broker-a:4"}
    async with listening(first) as a, listening(second) as b, registering(a, b) as running:
        await running.registration.until_registered()
        await running.registration.settled()
        running.registration.changed()
        await running.registration.settled()
        topic = running.topics.find("BenchmarkTest")
        assert topic is not None
        assert topic.order


async def test_nothing_is_registered_again_after_the_leave() -> None:
    listener = Listener()
    async with listening(listener) as address, registering(address) as running:
        await running.registration.until_registered()
        await running.registration.unregister()
        running.topics.touch()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(listener.registered) == 1


async def test_a_name_server_of_ours_routes_to_the_broker(tmp_path: Path) -> None:
    async with NameServer(NamesrvConfig(), tmp_path) as server:
        host, port = await server.start("127.0.0.1", 0)
        async with registering(f"{host}:{port}", compressed_register=True) as running:
            await running.registration.until_registered()
            assert server.routes.route("BenchmarkTest") is not None
            await running.registration.unregister()
            assert server.routes.route("BenchmarkTest") is None


class SlowListener(Listener):
    """One whose every registration takes a while, as that of a large table does."""

    SECONDS = 0.01

    def handlers(self) -> dict[int, Handler]:
        return {**super().handlers(), RequestCode.REGISTER_BROKER: Handler(RegisterBrokerHeader, self._slowly)}

    async def _slowly(self, header: RegisterBrokerHeader, request: Command, connection: Connection) -> Reply:
        await asyncio.sleep(self.SECONDS)
        return self._register(header, request, connection)


async def test_while_topics_come_and_come_registering_is_not_all_that_is_done() -> None:
    listener = SlowListener()
    now = asyncio.get_running_loop().time
    async with listening(listener) as address, registering(address) as running:
        await listener.until(lambda: bool(listener.registered))
        began = now()
        for number in range(200):
            running.topics.create_on_send(f"Topic{number}", "TBW102", 4)
            await asyncio.sleep(0.002)
        await listener.until(lambda: "Topic199" in listener.registered[-1][1])
        assert (len(listener.registered) - 1) * listener.SECONDS < 0.5 * (now() - began)


async def test_a_name_server_that_restarted_hears_from_us_before_the_next_round(tmp_path: Path) -> None:
    first, second = Listener(), Listener()
    server = RemotingServer(first.handlers())
    host, port = await server.start("127.0.0.1", 0)
    async with registering(f"{host}:{port}"):
        await first.until(lambda: len(first.registered) == 1)
        await server.stop(1.0)
        again = RemotingServer(second.handlers())
        await again.start(host, port)
        await second.until(lambda: len(second.registered) == 1)  # in 10 s; a round takes 30
        await again.stop(1.0)
