"""A disk that takes its time for a table holds up the request that changes it, and no other client.

A named pipe stands where the next table is to be written: opening it waits until a reader comes, and then it cannot be
brought to a disk. So a write hangs for as long as a test likes, and fails.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.testing.cluster import HOST, running_broker
from hanabi.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from hanabi.wire.bodies.topics import TopicConfig, TopicConfigList
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import Header
from hanabi.wire.headers.group import DeleteSubscriptionGroupHeader
from hanabi.wire.headers.namesrv import DeleteKVConfigHeader, PutKVConfigHeader
from hanabi.wire.headers.topic import CreateTopicHeader, DeleteTopicHeader
from tests.broker.talk import Peer, connected
from tests.broker.test_broker_lifecycle import send_header

PATIENCE_SECONDS = 20.0  # after which a loop that hangs goes on, so that its test fails and does not hang


class Slow:
    """The place of a table that is being written for as long as it is not released."""

    def __init__(self, table: Path) -> None:
        self.path = table.with_name(table.name + ".tmp")
        os.mkfifo(self.path)
        self._released = threading.Event()
        self._descriptor: int | None = None
        self._reader = threading.Thread(target=self._open)
        self._reader.start()

    def _open(self) -> None:
        self._released.wait(PATIENCE_SECONDS)
        with suppress(FileNotFoundError):
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def hangs(self) -> bool:
        return self._reader.is_alive()

    def release(self) -> None:
        self._released.set()
        self._reader.join()

    def close(self) -> None:
        self.release()
        self.path.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)


@contextmanager
def slow(table: Path) -> Iterator[Slow]:
    disk = Slow(table)
    try:
        yield disk
    finally:
        disk.close()


TOPIC = CreateTopicHeader(
    topic="Orders",
    default_topic="TBW102",
    read_queue_nums=2,
    write_queue_nums=2,
    perm=6,
    topic_filter_type="SINGLE_TAG",
    order=False,
)
GROUP = SubscriptionGroupConfig(group_name="billing")
CHANGES: list[tuple[str, RequestCode, Header | None, bytes]] = [
    ("topics.json", RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC, b""),
    (
        "topics.json",
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        None,
        encode_body(TopicConfigList(topic_config_list=[TopicConfig(topic_name="Orders")])),
    ),
    ("topics.json", RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="Known"), b""),
    ("subscriptionGroup.json", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(GROUP)),
    (
        "subscriptionGroup.json",
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        None,
        encode_body(SubscriptionGroupList(group_config_list=[GROUP])),
    ),
    (
        "subscriptionGroup.json",
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        DeleteSubscriptionGroupHeader(group_name="TOOLS_CONSUMER"),
        b"",
    ),
    ("broker.properties", RequestCode.UPDATE_BROKER_CONFIG, None, b"traceOn=false"),
]


@pytest.mark.parametrize(("table", "code", "header", "body"), CHANGES, ids=[change[1].name for change in CHANGES])
async def test_others_are_served_while_a_change_of_an_administrator_waits_for_the_disk(
    tmp_path: Path, table: str, code: RequestCode, header: Header | None, body: bytes
) -> None:
    one_thread_for_all()
    async with (
        running_broker(tmp_path) as broker,
        connected(broker.address) as admin,
        connected(broker.address) as client,
    ):
        await send(client)
        with slow(tmp_path / "config" / table) as disk:
            asked = admin.start(code, header, body)
            await asyncio.sleep(0.05)  # so that it is there first
            for _ in range(5):
                await send(client)
            await asyncio.to_thread(threading.get_ident)
            assert disk.hangs
            assert not asked.done()
            disk.release()
            assert (await asked).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await admin.ask(code, header, body)).code == ResponseCode.SUCCESS


def one_thread_for_all() -> None:
    """Let the loop's own pool, in which names are looked up too, be held up by one write."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


async def send(client: Peer) -> None:
    reply = await client.ask(RequestCode.SEND_MESSAGE_V2, send_header("Known"), b"x")
    assert reply.code == ResponseCode.SUCCESS, reply.remark


NAMESRV_CHANGES: list[tuple[str, RequestCode, Header | None, bytes]] = [
    ("kvConfig.json", RequestCode.PUT_KV_CONFIG, PutKVConfigHeader(namespace="N", key="k", value="v"), b""),
    ("kvConfig.json", RequestCode.DELETE_KV_CONFIG, DeleteKVConfigHeader(namespace="N", key="known"), b""),
    ("namesrv.properties", RequestCode.UPDATE_NAMESRV_CONFIG, None, b"productEnvName=test"),
]


@asynccontextmanager
async def name_server(home: Path) -> AsyncIterator[tuple[str, int]]:
    async with NameServer(NamesrvConfig(), home) as server:
        yield await server.start(HOST, 0)


@pytest.mark.parametrize(
    ("table", "code", "header", "body"), NAMESRV_CHANGES, ids=[change[1].name for change in NAMESRV_CHANGES]
)
async def test_a_name_server_serves_others_while_a_change_waits_for_the_disk(
    tmp_path: Path, table: str, code: RequestCode, header: Header | None, body: bytes
) -> None:
    one_thread_for_all()
    async with name_server(tmp_path) as address, connected(address) as admin, connected(address) as client:
        known = PutKVConfigHeader(namespace="N", key="known", value="v")
        assert (await admin.ask(RequestCode.PUT_KV_CONFIG, known)).code == ResponseCode.SUCCESS
        with slow(tmp_path / "namesrv" / table) as disk:
            asked = admin.start(code, header, body)
            await asyncio.sleep(0.05)  # so that it is there first
            await client.ask(RequestCode.GET_NAMESRV_CONFIG)
            await asyncio.to_thread(threading.get_ident)
            assert disk.hangs
            assert not asked.done()
            disk.release()
            assert (await asked).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await admin.ask(code, header, body)).code == ResponseCode.SUCCESS
