"""The figures are those of what clients really sent and consumed, and looking at them stalls nobody."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hanabi.aio
from hanabi._version import __version__
from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.broker.fast_path.building import is_compiled
from hanabi.message import Message, StoredMessage
from hanabi.metrics.port import MetricsPort
from hanabi.namesrv.config import NamesrvConfig
from hanabi.namesrv.name_server import NameServer
from hanabi.remoting.address import format_address
from hanabi.store.config import FlushMode, StoreConfig
from hanabi.testing.cluster import small_store
from hanabi.testing.waiting import eventually
from tests.metrics.scraping import Figures, get, scrape

HOST = "127.0.0.1"
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class World:
    port: MetricsPort
    metrics: tuple[str, int]
    name_server: NameServer
    broker: Broker
    namesrv: str


@asynccontextmanager
async def world(
    home: Path, store: StoreConfig | None = None, *, series_max: int = 20_000, **settings: Any
) -> AsyncIterator[World]:
    port = MetricsPort(expects=("namesrv", "broker"), series_max=series_max)
    metrics = await port.start(HOST, 0)
    try:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            NameServer(NamesrvConfig(), home, around=port.namesrv_times.around) as name_server,
        ):
            namesrv = format_address(await name_server.start(HOST, 0))
            port.namesrv_started(name_server)
            config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv, **settings)
            async with Broker(
                config,
                store or small_store(home),
                around=port.broker_times.around,
                around_fast_path=port.broker_times.around_fast_path,
            ) as broker:
                await broker.start(HOST, 0)
                port.broker_started(broker)
                await broker.registration.until_registered()
                yield World(port, metrics, name_server, broker, namesrv)
                port.stopping()
    finally:
        await port.stop()


async def send(world: World, topic: str, count: int, body: bytes = b"x" * 100) -> None:
    async with hanabi.aio.Producer("shop", namesrv=world.namesrv) as producer:
        for _ in range(count):
            await producer.send(Message(topic, body))
    await world.broker.registration.settled()  # whoever consumes now finds the topic


async def consume(world: World, topic: str, group: str, count: int) -> None:
    """Consume all messages, and commit their offsets."""
    done, seen = asyncio.Event(), 0
    consumer = hanabi.aio.PushConsumer(group, namesrv=world.namesrv, consume_from="first")
    consumer.subscribe(topic)

    @consumer.listener
    async def take(messages: list[StoredMessage]) -> None:
        nonlocal seen
        seen += len(messages)
        if seen >= count:
            done.set()

    async with consumer:
        await done.wait()


@pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")
async def test_the_fast_path_tells_what_it_took_and_why_it_declined_the_rest(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 40)
        figures = await scrape(running.metrics)
        taken = figures("hanabi_fast_path_requests_total", kind="send", path="fast")
        handled = figures("hanabi_fast_path_requests_total", kind="send", path="handlers")
        assert taken + handled == 40
        assert taken > 30
        assert 0 < figures.total("hanabi_fast_path_declined_total", kind="send") <= handled
        assert figures("hanabi_fast_path_requests_total", kind="pull", path="fast") == 0


async def test_what_clients_sent_and_consumed_is_what_is_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 40)
        await send(running, "Payments", 3)
        before = await scrape(running.metrics)
        assert before("hanabi_messages_in_total", topic="Orders") == 40
        assert before("hanabi_messages_in_total", topic="Payments") == 3
        assert before("hanabi_bytes_in_total", topic="Orders") > 40 * 100
        assert before("hanabi_puts_total") == 43
        assert before.total("hanabi_request_seconds_count", request="SEND_MESSAGE_V2") == 43
        assert not before.has("hanabi_messages_out_total")

        await consume(running, "Orders", "billing", 40)
        await send(running, "Orders", 7)
        after = await scrape(running.metrics)
        assert after("hanabi_messages_out_total", topic="Orders", group="billing") == 40
        assert after("hanabi_bytes_out_total", topic="Orders", group="billing") == before(
            "hanabi_bytes_in_total", topic="Orders"
        )
        assert after("hanabi_messages_pulled_total") == 40
        assert after("hanabi_messages_in_total", topic="Orders") == 47
        assert after("hanabi_group_lag_messages", group="billing", topic="Orders") == 7
        by_queue = {
            int(dict(labels)["queue"]): value
            for (name, labels), value in after.samples.items()
            if name == "hanabi_queue_lag_messages" and ("topic", "Orders") in labels
        }
        assert sum(by_queue.values()) == 7
        for queue_id, behind in by_queue.items():
            committed = running.broker.tables.offsets.find("billing", "Orders", queue_id)
            assert behind == running.broker.store.reader.max_offset("Orders", queue_id) - committed


async def test_messages_in_flight_and_held_pops_are_those_of_now(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 3)
        consumer = hanabi.aio.SimpleConsumer("billing", namesrv=running.namesrv)
        consumer.subscribe("Orders")
        async with consumer:
            found = await consumer.receive(32)
            during = await scrape(running.metrics)
            assert during("hanabi_pop_in_flight_messages", group="billing", topic="Orders") == len(found) > 0
            await consumer.ack_all(found)
            found = await consumer.receive(32, wait_s=0.1)
            await consumer.ack_all(found)
            waiting = asyncio.create_task(consumer.receive(1, wait_s=20.0))
            await eventually(lambda: len(running.broker.tables.held_pops) == 1)
            after = await scrape(running.metrics)
            assert after("hanabi_held_pops") == 1
            assert not after.has("hanabi_pop_in_flight_messages")
            await send(running, "Orders", 1)
            assert len(await waiting) == 1


async def test_connections_members_and_held_pulls_are_those_of_now(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 1)
        consumer = hanabi.aio.PushConsumer("billing", namesrv=running.namesrv, consume_from="first")
        consumer.subscribe("Orders")
        seen = asyncio.Event()

        @consumer.listener
        async def take(_: list[StoredMessage]) -> None:
            seen.set()

        async with consumer:
            await seen.wait()
            await eventually(lambda: len(running.broker.tables.held_pulls) > 0)
            during = await scrape(running.metrics)
            assert during("hanabi_held_pulls") >= 1
            assert during("hanabi_requests_held_total", server="broker") >= 1
            assert during("hanabi_group_members", group="billing") == 1
            assert during("hanabi_consumer_groups") == 1
            assert during("hanabi_connections", server="broker") >= 1
            assert during("hanabi_connections", server="namesrv") >= 2  # the broker, and the consumer
        await eventually(lambda: running.broker.servers[0].statistics().connections == 0)
        after = await scrape(running.metrics)
        assert after("hanabi_connections", server="broker") == 0
        assert after("hanabi_connections_accepted_total", server="broker") >= 2
        assert after("hanabi_held_pulls") == 0
        assert not after.has("hanabi_group_members")


async def test_the_store_the_process_and_the_name_server_show_themselves(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 5)
        store = running.broker.store
        store.flush()
        figures = await scrape(running.metrics)
        assert figures("hanabi_log_end_bytes") == store.max_log_offset > 0
        assert figures("hanabi_flush_behind_bytes") == 0
        assert figures("hanabi_dispatch_behind_messages") == 0
        assert 0 <= figures("hanabi_disk_used_ratio", what="commitlog") <= 1
        assert figures("hanabi_disk_refuses_messages") == 0
        assert figures("hanabi_recovery_messages") == 0
        assert figures("hanabi_put_seconds_count") == 5
        assert figures("hanabi_broker_busy") == 0
        assert figures("hanabi_registered", namesrv=running.namesrv) == 1
        assert figures("hanabi_namesrv_brokers") == 1
        assert figures("hanabi_namesrv_topics") == figures("hanabi_topics")
        assert figures("hanabi_loop_delay_seconds_count") >= 0
        assert figures.total("hanabi_build_info", version=__version__) == 1
        assert figures("process_resident_memory_bytes") > 10 << 20
        assert figures("process_open_fds") > 5
        assert figures("process_cpu_seconds_total") > 0


async def test_what_waits_for_a_delay_and_what_is_refused_is_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        async with hanabi.aio.Producer("shop", namesrv=running.namesrv) as producer:
            await producer.send(Message("Orders", b"later", delay_level=18))
        figures = await scrape(running.metrics)
        assert figures("hanabi_delayed_messages", level=18) == 1
        assert figures("hanabi_messages_in_total", topic="SCHEDULE_TOPIC_XXXX") == 1
        missing = {"server": "namesrv", "request": "GET_ROUTEINFO_BY_TOPIC", "code": "TOPIC_NOT_EXIST"}
        assert figures("hanabi_requests_failed_total", **missing) >= 1


async def test_sends_that_wait_for_the_disk_are_timed_until_they_are_on_it(tmp_path: Path) -> None:
    store = small_store(tmp_path, flush_mode=FlushMode.SYNC_FLUSH)
    async with world(tmp_path, store) as running:
        await send(running, "Orders", 5)
        figures = await scrape(running.metrics)
        assert figures("hanabi_request_seconds_count", server="broker", request="SEND_MESSAGE_V2") == 5
        assert figures("hanabi_flush_behind_bytes") == 0


async def test_a_group_that_subscribes_differently_is_counted(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        await send(running, "Orders", 1)
        consumers = []
        for tags in ("a", "b"):
            consumer = hanabi.aio.PushConsumer("billing", namesrv=running.namesrv, instance=tags)
            consumer.subscribe("Orders", tags)
            consumer.listener(lambda messages: None)
            consumers.append(consumer)
        async with consumers[0], consumers[1]:
            await eventually(lambda: len(running.broker.tables.consumers.differing()) == 1)
            figures = await scrape(running.metrics)
            assert figures("hanabi_groups_subscribing_differently") == 1


def many_queues(running: World, topics: int, queues: int) -> None:
    """Make as many as that, with a group that has consumed some of each."""
    tables = running.broker.tables
    for number in range(topics):
        name = f"Topic{number:04}"
        tables.stats.put(name, 1, 100)
        tables.stats.get("billing", name, 1, 100)
        for queue_id in range(queues):
            tables.offsets.commit("billing", name, queue_id, 1)


async def test_a_scrape_of_very_many_queues_gives_way_to_others(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        many_queues(running, 300, 8)
        turns = 0
        scraping = asyncio.create_task(scrape(running.metrics))
        while not scraping.done():
            await asyncio.sleep(0)
            turns += 1
        figures = scraping.result()
        assert figures.total("hanabi_queue_lag_messages", group="billing") == 0
        assert sum(name == "hanabi_queue_lag_messages" for name, _ in figures.samples) == 2_400
        assert turns > 20


async def test_those_who_scrape_at_once_get_the_same_figures(tmp_path: Path) -> None:
    async with world(tmp_path) as running:
        many_queues(running, 50, 8)
        several = await asyncio.gather(*(scrape(running.metrics) for _ in range(5)))
        assert len({figures.text for figures in several}) == 1


async def test_no_family_has_more_samples_than_allowed_and_says_how_many_it_left_out(tmp_path: Path) -> None:
    async with world(tmp_path, series_max=10) as running:
        many_queues(running, 20, 2)
        figures = await scrape(running.metrics)
        for family, left_out in (
            ("hanabi_messages_in_total", 10),
            ("hanabi_bytes_out_total", 10),
            ("hanabi_group_lag_messages", 10),
            ("hanabi_queue_lag_messages", 30),
        ):
            assert sum(name == family for name, _ in figures.samples) == 10
            assert figures("hanabi_metrics_left_out", family=family) == left_out
        again = await scrape(running.metrics)
        assert names(again) == names(figures)  # a series that is shown stays


def names(figures: Figures) -> set[object]:
    return {sample for sample in figures.samples if sample[0].startswith("hanabi_messages_in")}


async def ready(metrics: tuple[str, int]) -> tuple[int, dict[str, str]]:
    answer = await get(metrics, "/ready")
    told = json.loads(answer.body)
    assert told["ready"] == (answer.status == 200)
    return answer.status, told["checks"]


async def test_it_is_ready_when_it_should_be_given_work_and_healthy_all_the_time(tmp_path: Path) -> None:
    port = MetricsPort(expects=("namesrv", "broker"))
    metrics = await port.start(HOST, 0)
    starting = "it is starting: the store is being opened"
    assert await ready(metrics) == (503, {"namesrv": starting, "broker": starting})
    assert (await get(metrics, "/health")).status == 200
    await port.stop()

    async with world(tmp_path) as running:
        fine = {"namesrv": "ok", "broker": "ok", "disk": "ok", "registered": "ok"}
        assert await ready(running.metrics) == (200, fine)

        running.broker.store.retention.refuses = True
        full = {**fine, "disk": "the disk is too full: no message is taken"}
        assert await ready(running.metrics) == (503, full)
        assert (await get(running.metrics, "/health")).status == 200
        running.broker.store.retention.refuses = False

        await running.broker.registration.unregister()
        unknown = {**fine, "registered": f"none of the name servers {running.namesrv} knows this broker"}
        assert await ready(running.metrics) == (503, unknown)

        running.port.stopping()
        assert await ready(running.metrics) == (503, {"servers": "it is stopping"})
        figures = await scrape(running.metrics)
        assert figures.has("process_cpu_seconds_total")
        assert not figures.has("hanabi_topics")


async def test_a_broker_that_was_told_no_name_server_is_not_registered(tmp_path: Path) -> None:
    port = MetricsPort(expects=("broker",))
    metrics = await port.start(HOST, 0)
    async with Broker(BrokerConfig(broker_name="broker-a"), small_store(tmp_path)) as broker:
        await broker.start(HOST, 0)
        port.broker_started(broker)
        status, checks = await ready(metrics)
        assert (status, checks["broker"], checks["disk"]) == (503, "ok", "ok")
        assert checks["registered"].startswith("no name server is set")
        port.stopping()
    await port.stop()
