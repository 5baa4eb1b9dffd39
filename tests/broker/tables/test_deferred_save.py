"""Tests of deferred saves: a new entry is in the file soon, and before it is answered; a thousand at once delay no
other client."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.settings import Settings
from hanabi.broker.tables.deferred_save import DeferredSave
from hanabi.broker.tables.topics import Topics
from hanabi.errors import NoPermission, StoreError, StoreFull
from hanabi.store.config import StoreConfig
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_broker
from hanabi.wire.bodies.topics import TopicConfig
from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.talk import connected
from tests.broker.test_broker_lifecycle import send_header


def topics(path: Path, **broker: object) -> Topics:
    config = BrokerConfig(broker_name="broker-a", **broker)  # type: ignore[arg-type]
    return Topics(path, Settings(config, StoreConfig()), ManualClock())


def names_in(path: Path) -> set[str]:
    return set(json.loads(path.read_bytes())["topicConfigTable"])


@asynccontextmanager
async def saving(table: Topics) -> AsyncIterator[None]:
    task = asyncio.create_task(table.keep_saving())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def make(table: Topics, *names: str) -> None:
    for name in names:
        assert table.create_on_send(name, "TBW102", 4) is not None


async def test_a_new_topic_is_unsaved_until_it_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    table = topics(path)
    async with saving(table):
        make(table, "Orders")
        assert not path.exists()
        await table.unsaved["Orders"]
        assert "Orders" in names_in(path)
        assert not table.unsaved


async def test_all_that_is_new_during_a_write_is_written_with_the_next_one() -> None:
    writes, disk = 0, threading.Event()

    def write() -> None:
        nonlocal writes
        writes += 1
        assert disk.wait(60)

    later = DeferredSave(lambda: write)
    task = asyncio.create_task(later.run())
    later.changed(["first"])
    while not writes:  # noqa: ASYNC110 - it is counted in a thread
        await asyncio.sleep(0.001)
    for number in range(1_000):
        later.changed([f"name{number}"])
    disk.set()
    await later.unsaved["name999"]
    assert writes == 2
    assert not later.unsaved
    task.cancel()
    await asyncio.wait((task,))


async def test_a_write_that_fails_is_told_to_all_that_wait_and_tried_again() -> None:
    outcomes = [StoreFull("no room"), StoreFull("still no room"), None]

    def write() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    later = DeferredSave(lambda: write, retry_seconds=0.01)
    task = asyncio.create_task(later.run())
    later.changed(["Orders"])
    for reason in ("no room", "still no room"):
        with pytest.raises(StoreFull, match=f"^{reason}$"):
            await later.unsaved["Orders"]
    await asyncio.wait_for(later.unsaved["Orders"], 60)
    assert not later.unsaved
    task.cancel()
    await asyncio.wait((task,))


async def test_a_write_that_breaks_is_a_failed_one() -> None:
    outcomes: list[Exception | None] = [RuntimeError("can't start new thread"), None]

    def write() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    later = DeferredSave(lambda: write, retry_seconds=0.01)
    task = asyncio.create_task(later.run())
    later.changed(["Orders"])
    with pytest.raises(StoreError, match="can't start new thread"):
        await later.unsaved["Orders"]
    await asyncio.wait_for(later.unsaved["Orders"], 60)
    task.cancel()
    await asyncio.wait((task,))


async def test_what_an_administrator_changes_meanwhile_is_not_written_over_by_what_is_older(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    table = topics(path)
    async with saving(table):
        for number in range(50):
            make(table, f"Topic{number}")
            await asyncio.sleep(0)  # so that its write is on the way
            await table.update(TopicConfig(topic_name="Orders", read_queue_nums=number, write_queue_nums=4))
            assert json.loads(path.read_bytes())["topicConfigTable"]["Orders"]["readQueueNums"] == number
            await table.delete(f"Topic{number}")
        saved = list(table.unsaved.values())
        if saved:
            await asyncio.wait(saved)
    assert names_in(path) == set(table.names())


async def test_a_change_of_an_administrator_is_in_the_file_before_it_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    table = topics(path)
    seen: list[bool] = []
    table.on_change.append(lambda: seen.append("Orders" in names_in(path)))
    async with saving(table):
        change = table.update(TopicConfig(topic_name="Orders"))
        assert "Orders" not in table
        assert table.newest("Orders") is not None
        await change
        assert "Orders" in table
    assert seen == [True]


async def test_changes_of_administrators_that_come_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json")
    async with saving(table):
        counters = []
        table.on_change.append(lambda: counters.append(table.data_version.counter))
        changes = [table.update(TopicConfig(topic_name=f"Topic{number}")) for number in range(100)]
        deleted = table.delete("Topic7")
        await asyncio.gather(*changes, deleted)
        assert set(counters) == {101}  # all in force at once, by one write
        assert "Topic99" in table
        assert "Topic7" not in table


async def test_a_change_that_cannot_be_written_is_refused_and_so_is_what_builds_on_it(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    table = topics(path)
    async with saving(table):
        await table.update(TopicConfig(topic_name="Orders", perm=6))
        (tmp_path / "topics.json.tmp").mkdir()  # in the way
        changes = [table.update(TopicConfig(topic_name="Orders", perm=4)), table.delete("Orders")]
        for outcome in await asyncio.gather(*changes, return_exceptions=True):
            assert isinstance(outcome, StoreError)
        known = table.find("Orders")
        assert known is table.newest("Orders")
        assert known is not None
        assert known.perm == 6
        (tmp_path / "topics.json.tmp").rmdir()
        await table.update(TopicConfig(topic_name="Bills"))
    assert {"Orders", "Bills"} <= names_in(path)
    assert json.loads(path.read_bytes())["topicConfigTable"]["Orders"]["perm"] == 6


async def test_the_limit_of_topics_counts_those_that_are_being_written(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json", topics_max=10)
    async with saving(table):
        change = table.update(TopicConfig(topic_name="Orders"))
        with pytest.raises(NoPermission, match="topicsMax = 10"):
            table.update(TopicConfig(topic_name="Bills"))
        await change
        await asyncio.gather(table.delete("Orders"), table.update(TopicConfig(topic_name="Bills")))
        assert table.names()[-1] == "Bills"


def test_without_anybody_who_saves_later_it_is_in_the_file_at_once(tmp_path: Path) -> None:
    table = topics(tmp_path / "topics.json")
    make(table, "Orders")
    assert "Orders" in names_in(tmp_path / "topics.json")


async def test_a_send_to_a_new_topic_is_answered_when_the_topic_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    async with running_broker(tmp_path) as broker, connected(broker.address) as peer:
        for number in range(20):
            topic = f"Topic{number}"
            reply = await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic), b"x")
            assert reply.code == ResponseCode.SUCCESS
            assert topic in names_in(path)


async def test_what_is_new_at_the_stop_is_in_the_files(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await asyncio.sleep(0)
        make(broker.tables.topics, "Orders")
        broker.tables.groups.find("billing")

    assert "Orders" in names_in(tmp_path / "config" / "topics.json")
    groups = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
    assert "billing" in groups["subscriptionGroupTable"]


async def test_a_save_does_not_wait_for_what_else_is_done_in_threads() -> None:
    gate = threading.Event()
    others = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(100)]
    later = DeferredSave(lambda: lambda: None)
    task = asyncio.create_task(later.run())
    try:
        async with asyncio.timeout(10):
            await later.changed(["T"])
    finally:
        gate.set()
        task.cancel()
        await asyncio.wait((task, *others))
