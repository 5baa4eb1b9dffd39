"""Pages that read: what a person sees of a cluster, also of one that is large, old, silent or hostile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from hanabi import Message
from hanabi.admin.brokers import BrokerSummary
from hanabi.admin.groups import QueueProgress
from hanabi.aio import Producer, PushConsumer
from hanabi.dashboard.cluster.board import Board
from hanabi.dashboard.cluster.collector import ENTRIES_MAX, Collector
from hanabi.dashboard.cluster.lag import Drain, Observation, behind_ms, drain, uneven, worst_queue
from hanabi.dashboard.render import figures
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.web.listing import sliced
from hanabi.errors import ConnectError
from hanabi.message import StoredMessage
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import Cluster, running_cluster
from hanabi.testing.proxied import proxied_cluster
from hanabi.testing.waiting import eventually
from tests.dashboard.browsing import Browser, dashboard

SCRIPT = "<script>alert(1)</script>"


@asynccontextmanager
async def reading(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Cluster, Browser]]:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv, **settings) as site:
        yield cluster, await site.as_role(Role.READER)


async def text_of(browser: Browser, path: str) -> str:
    response = await browser.get(path)
    assert response.status_code == 200, response.text
    return response.text


async def test_the_pages_show_a_cluster_with_messages_and_a_consumer(tmp_path: Path) -> None:
    async with reading(tmp_path) as (cluster, browser):
        await cluster.create_topic("Orders", queues=2)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for number in range(4):
                await producer.send(Message("Orders", b"%d" % number, keys=[f"k{number}"]))
            seen: list[str] = []
            consumer = PushConsumer("billing", namesrv=cluster.namesrv, consume_from="first")
            consumer.subscribe("Orders")

            @consumer.listener
            async def bill(messages: list[StoredMessage]) -> None:
                seen.extend(message.message_id for message in messages)

            async with consumer:
                await eventually(lambda: len(seen) == 4)
                overview = await text_of(browser, "/")
                assert "broker-a" in overview
                assert "✓ answers" in overview
                assert "not answering" not in overview
                topics = await text_of(browser, "/topics")
                assert ">Orders</a>" in topics
                assert ">broker-a</a>" not in topics  # the broker's own topic
                assert ">broker-a</a>" in await text_of(browser, "/topics?kind=system")
                assert "<strong>1</strong> topics" in overview
                assert "<strong>1</strong> groups" in overview
                topic = await text_of(browser, "/topics/Orders")
                assert "read and write" in topic
                group = await text_of(browser, "/groups/billing")
                assert "Progress by queue" in group
                assert ">*<" in group
                assert "No member is online" not in group
                assert ">billing</a>" in await text_of(browser, "/groups")
                producers = await text_of(browser, "/producers?group=shop")
                assert "PYTHON" in producers
        assert cluster.address in await text_of(browser, "/brokers")
        broker = await text_of(browser, f"/brokers/{cluster.address}")
        assert "brokerVersionDesc" in broker
        assert "flushDiskType" in broker
        assert "flushDiskType" not in await text_of(browser, f"/brokers/{cluster.address}?q=brokerName")
        assert "No slave." in await text_of(browser, "/replication")


async def test_a_group_whose_members_differ_shows_both_opinions(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        dashboard(tmp_path, cluster.namesrv) as site,
        AsyncExitStack() as members,
    ):
        browser, cluster_view = await site.as_role(Role.READER), site.parts.cluster
        await cluster.create_topic("Orders", queues=2)
        for tag in ("red", "blue"):
            member = PushConsumer("torn", namesrv=cluster.namesrv, client_id=f"<b>{tag}</b>")
            member.subscribe("Orders", tag)

            @member.listener
            async def take(messages: list[StoredMessage]) -> None:
                pass

            await members.enter_async_context(member)
        page = await text_of(browser, "/groups/torn")
        async with asyncio.timeout(60):
            while "Members subscribe differently" not in page:
                cluster_view.collector.forget()
                page = await text_of(browser, "/groups/torn")
        opinions = page.split("Members subscribe differently")[1].split("</ul>")[0]
        for word in ("red", "blue", "&lt;b&gt;red&lt;/b&gt;", "&lt;b&gt;blue&lt;/b&gt;"):
            assert word in opinions
        assert "<b>" not in page  # a client names itself


async def test_a_hundred_browsers_ask_the_brokers_as_often_as_one(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv) as site:
        await cluster.create_topic("Orders")
        browser = await site.as_role(Role.READER)
        paths = ("/", "/topics", "/topics/Orders", "/groups", "/brokers")
        browsers = [site.browser() for _ in range(100)]
        for each in browsers:
            each.http.cookies.update(browser.http.cookies)
        responses = await asyncio.gather(
            *(each.get(paths[number % len(paths)]) for number, each in enumerate(browsers))
        )
        assert len(responses) == 100
        assert {response.status_code for response in responses} == {200}
        known = len(site.parts.cluster.collector)
        for path in paths:
            await browser.get(path)
        assert len(site.parts.cluster.collector) == known  # the same questions, and no more


async def test_names_that_are_scripts_stay_text(tmp_path: Path) -> None:
    """Everything a stranger chooses is escaped: in parameters, in names of producers, and in refused names."""
    async with reading(tmp_path) as (cluster, browser):
        evil = f"{SCRIPT}\"'><img src=x onerror=alert(1)>"
        for path in ("/topics", "/groups", "/producers", "/audit", f"/brokers/{cluster.address}"):
            for key in ("q", "kind", "group", "done"):
                response = await browser.get(path, params={key: evil})
                assert "<script>alert" not in response.text, path
                assert "<img src=x" not in response.text, path
        for path in ("/topics/", "/groups/", "/brokers/"):
            response = await browser.get(path + evil.replace("/", ""))
            assert response.status_code in (400, 404)
            assert "<img src=x" not in response.text
        failed = await browser.login(SCRIPT, "x")
        assert SCRIPT not in failed.text
        assert "&lt;script&gt;" in failed.text


BAD_INPUT = [
    ("/topics/Missing", 404),
    ("/groups/missing", 404),
    ("/brokers/203.0.113.1:10911", 400),
    ("/topics?page=x", 400),
    ("/topics?page=0", 400),
    ("/topics?page=999999999999999999999", 400),
    ("/topics?page=7", 200),
    ("/topics?q=" + "x" * 2_000, 400),
    ("/topics/%00", 404),
    ("/groups/missing/client?id=x", 200),
    ("/nothing", 404),
]


async def test_bad_input_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with reading(tmp_path) as (_, browser):
        for path, code in BAD_INPUT:
            response = await browser.get(path)
            assert response.status_code == code, path
            assert "Traceback" not in response.text


async def test_a_part_of_a_page_comes_alone_for_htmx(tmp_path: Path) -> None:
    async with reading(tmp_path) as (cluster, browser):
        await cluster.create_topic("Orders")
        part = (await browser.get("/topics?q=ord", headers={"hx-request": "true"})).text
        assert ">Orders</a>" in part
        assert "<html" not in part


async def test_without_any_server_figures_are_unknown_and_not_zero(tmp_path: Path) -> None:
    async with dashboard(tmp_path, "127.0.0.1:1") as site:
        browser = await site.as_role(Role.READER)
        overview = await text_of(browser, "/")
        assert "no name server can be reached" in overview
        assert "<strong>—</strong> topics" in overview
        assert "<strong>0</strong>" not in overview


async def test_a_broker_that_hangs_holds_up_no_page_and_keeps_its_figures_marked_old(tmp_path: Path) -> None:
    async with (
        proxied_cluster(tmp_path) as cluster,
        dashboard(tmp_path, cluster.namesrv, timeout_s=0.3, page_seconds=5.0) as site,
    ):
        browser = await site.as_role(Role.READER)
        await cluster.create_topic("Orders", queues=2)
        assert "not answering" not in await text_of(browser, "/")
        cluster.hang("broker-b")
        site.parts.cluster.collector.forget()
        overview = await text_of(browser, "/")
        assert "not answering since" in overview
        assert "figures of" in overview
        assert "✓ answers" in overview
        topic = await text_of(browser, "/topics/Orders")
        assert "Without broker broker-b" in topic
        assert '<th scope="row">broker-a</th>' in topic
        asked = site.parts.cluster.collector
        asked.forget()
        assert "Without broker broker-b" in await text_of(browser, "/topics/Orders")  # at once, without asking it


async def test_a_slow_question_gives_the_page_the_last_answer_marked_old() -> None:
    clock = ManualClock()
    collector = Collector(clock, page_seconds=0.01)
    answers = asyncio.Queue[int]()
    asked = 0

    async def question() -> int:
        nonlocal asked
        asked += 1
        return await answers.get()

    first = await collector.ask(("k",), question)
    assert (first.value, first.problem) == (None, "no answer within 0.01 s")
    together = await asyncio.gather(*(collector.ask(("k",), question) for _ in range(100)))
    assert asked == 1  # a hundred browsers ask once
    assert all(known.value is None for known in together)
    answers.put_nowait(7)
    known = await eventually_known(collector, question)
    assert (known, asked) == (7, 1)
    clock.ms += 60_000
    old = await collector.ask(("k",), question)
    assert (old.value, old.is_old) == (7, True)
    await collector.close()


async def eventually_known(collector: Collector, question: object) -> int | None:
    for _ in range(100):
        known = await collector.ask(("k",), question)  # type: ignore[arg-type, var-annotated]
        if known.problem is None:
            return known.value
    return None


async def test_an_error_is_kept_with_the_last_answer_and_the_table_is_bounded() -> None:
    clock = ManualClock()
    collector = Collector(clock, page_seconds=5)

    async def good() -> int:
        return 1

    async def bad() -> int:
        raise ConnectError("no broker at 127.0.0.1:1")

    assert (await collector.ask(("k",), good)).value == 1
    clock.ms += 10_000
    old = await collector.ask(("k",), bad)
    assert (old.value, old.problem) == (1, "no broker at 127.0.0.1:1")
    for number in range(ENTRIES_MAX + 10):
        await collector.ask((str(number),), good)
    assert len(collector) == ENTRIES_MAX


def queue(number: int, lag: int, last_consumed: int) -> QueueProgress:
    return QueueProgress(
        topic="T", broker="b", queue_id=number, max_offset=lag, group_offset=0, lag=lag, last_consumed=last_consumed
    )


def test_lag_is_told_as_time_by_the_oldest_queue_that_waits() -> None:
    assert behind_ms([queue(0, 0, 1)], 10_000) == 0
    assert behind_ms([queue(0, 5, 4_000), queue(1, 5, 2_000), queue(2, 0, 1)], 10_000) == 8_000
    assert behind_ms([queue(0, 5, 0)], 10_000) is None  # not known, and not 0
    assert worst_queue([queue(0, 1, 1), queue(1, 9, 1)]) == queue(1, 9, 1)
    assert worst_queue([queue(0, 0, 1)]) is None


def test_the_time_to_drain_follows_the_last_minutes() -> None:
    assert drain([]) == Drain(None)
    assert drain([Observation(0, 100), Observation(1_000, 50)]) == Drain(None)  # too close together
    assert drain([Observation(0, 100), Observation(10_000, 50)]) == Drain(10.0)
    assert drain([Observation(0, 50), Observation(10_000, 50)]) == Drain(None, never=True)
    assert drain([Observation(0, 50), Observation(10_000, 0)]) == Drain(0.0)


def test_uneven_queues_are_marked_and_small_ones_are_not() -> None:
    assert uneven([1000, 1000, 1000, 1000]) == [False] * 4
    assert uneven([5000, 1000, 1000, 100]) == [True, False, False, True]
    assert uneven([5, 0, 0, 0]) == [False] * 4
    assert uneven([]) == []


def test_a_list_is_cut_into_pages() -> None:
    names = [f"topic-{number:05}" for number in range(10_000)]
    part = sliced(names, "", 2)
    assert (part.names[0], len(part.names), part.pages, part.found) == ("topic-00050", 50, 200, 10_000)
    assert sliced(names, "TOPIC-0999", 9).names == [f"topic-0999{digit}" for digit in range(10)]
    assert sliced([], "x", 1).pages == 1


def test_the_board_remembers_since_when_a_broker_is_silent() -> None:
    board = Board()
    good = BrokerSummary(cluster="c", broker="b", broker_id=0, address="a", put_tps=5.0)
    bad = BrokerSummary(cluster="c", broker="b", broker_id=0, address="a", problem="no answer")
    board.note([good], 1)
    board.note([bad], 2)
    board.note([bad], 3)
    (row,) = board.rows
    assert (row.summary.put_tps, row.seen_ms, row.silent_since_ms, row.problem) == (5.0, 1, 2, "no answer")
    board.note([], 4)
    assert board.rows[0].silent_since_ms == 2
    board.note([good], 5)
    assert board.rows[0].silent_since_ms is None


def test_figures_are_for_people_and_unknown_is_a_dash() -> None:
    assert [figures.count(None), figures.count(1234567), figures.count(0)] == ["—", "1,234,567", "0"]
    assert [figures.rate(None), figures.rate(0.04), figures.rate(12345.6)] == ["—", "0.0", "12,346"]
    assert [figures.percent(None), figures.percent(-1), figures.percent(0.5)] == ["—", "—", "50%"]
    assert [figures.size(None), figures.size(5), figures.size(1536)] == ["—", "5 B", "1.5 KiB"]
    assert [figures.moment(0), figures.moment(1_700_000_000_000)] == ["—", "2023-11-14 22:13:20"]
    assert figures.moment(10**30) == "—"
    spans = [figures.span(ms) for ms in (None, 0, 59_000, 61_000, 3_600_000, 90_000_000)]
    assert spans == ["—", "0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]
